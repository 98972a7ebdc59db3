"""Reads and writes model directories, run directories and checkpoints; averages checkpoints."""
