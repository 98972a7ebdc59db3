"""`nmt translate` and `nmt score` on files and pipes: reads lines, writes one line for each."""
