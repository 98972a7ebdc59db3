"""The stages of `nmt prepare`, one per file. `nmt.data.prepare` calls them in order.

The output of each stage is in the folder .work of the data directory, see `Job`:

    text-*/        cleaned pairs with their hashes, one shard per 100,000 pairs of a corpus
    text-*/kept.npy    which of several equal training pairs is kept
    tokenizer-*.model  trained on a bounded sample of the kept pairs
    tokens-*/      the same shards as token ids
    tokens-*/final/    these shards under their final names, the tokenizer and the manifest

The names end in a hash of everything that the content depends on, so that the text is not cleaned
again for another vocabulary, and no outdated file is used. NAME.json beside each file has its hash
and counts (see `job.finish`), so that a stage repeats only what is missing or damaged. Each call of
`clean_shard` and `encode_shard` writes one file from its arguments alone, so that any number of
processes gives the same files.
"""
