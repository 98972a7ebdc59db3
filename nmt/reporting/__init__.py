"""Generates the output of `nmt info`, `nmt config` and `nmt report`."""
