"""How good translations are: BLEU and its companions, `nmt evaluate`."""
