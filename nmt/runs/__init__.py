"""Models one can send, runs one can resume, and the mean of several checkpoints."""
