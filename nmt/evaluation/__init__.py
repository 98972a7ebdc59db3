"""Provides test sets, metrics (BLEU, chrF, TER, COMET) and attention maps."""
