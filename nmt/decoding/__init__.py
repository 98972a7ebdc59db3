"""Beam search, sampling, constraints and ensembles; word alignment and scoring."""
