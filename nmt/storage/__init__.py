"""Files that appear whole or not at all: writing aside and renaming, manifests, locks."""
