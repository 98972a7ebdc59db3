"""`nmt translate` and `nmt score`: read lines from files or pipes and write one line for each."""
