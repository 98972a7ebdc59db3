"""Test sets, and the metrics of translations: BLEU, chrF, TER, COMET; attention weights."""
