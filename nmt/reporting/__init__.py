"""Describes configurations and runs for `nmt info`, `nmt config` and `nmt report`."""
