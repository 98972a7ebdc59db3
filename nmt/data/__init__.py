"""Parallel text in, batches out: corpora, cleaning, tokenizer, token shards, plan, layout."""
