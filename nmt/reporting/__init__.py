"""What `nmt info`, `nmt config` and `nmt report` print."""
