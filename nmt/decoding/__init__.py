"""Implements beam search, sampling, constraints, ensembles, word alignment and scoring."""
