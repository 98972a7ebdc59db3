"""Beam search, sampling and their constraints over the step interface; alignment and scoring."""
