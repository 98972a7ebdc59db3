"""Turns parallel text into batches: corpora, cleaning, tokenizer, shards, plan and layout."""
