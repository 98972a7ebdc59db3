"""Scores translations on test sets (BLEU, chrF, TER and COMET) and plots attention weights."""
