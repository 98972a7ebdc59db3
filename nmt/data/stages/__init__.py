"""The stages of `nmt prepare`, one per module. `nmt.data.prepare` calls them in order.

Each stage writes its output to the folder .work of the data directory (see `Job`):

    text-*/        cleaned pairs with their hashes, one shard per 100,000 pairs of a corpus
    text-*/kept.npy    mask of the training pairs without duplicates
    tokenizer-*.model  trained on a bounded sample of the kept pairs
    tokens-*/      the same shards as token ids
    tokens-*/final/    these shards under their final names, the tokenizer and the manifest

Each * stands for a hash of everything that the content depends on, so that the text is not cleaned
again for another vocabulary, and no outdated file is used. Beside each file, a file NAME.json
contains the hash and the counts (see `job.finish`), so that a stage repeats only work whose files
are missing or damaged. Each call of `clean_shard` or `encode_shard` writes one shard, which depends
only on the arguments, so that the shards are the same for any number of processes.
"""
