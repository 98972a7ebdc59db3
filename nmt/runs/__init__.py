"""Model directories, run directories, checkpoints, and their averages."""
