"""The stages of `nmt prepare`, one per file. `nmt.data.prepare` calls them in order.

The output of each stage is in the folder .work of the data directory (see `Job`):

    text-*/        cleaned pairs with their hashes, one shard per 100,000 pairs of a corpus
    text-*/kept.npy    which of several equal training pairs is kept
    tokenizer-*.model  trained on a bounded sample of the kept pairs
    tokens-*/      the same shards as token ids
    tokens-*/final/    these shards under their final names, the tokenizer and the manifest

The names end in a hash of everything that the content depends on, so that the text is not cleaned
again for another vocabulary, and no outdated file is used. NAME.json beside each file contains the
file's hash and counts (see `job.finish`), so that a stage repeats only the work whose files are
missing or damaged. Each call of `clean_shard` or `encode_shard` writes one file, which depends only
on the arguments, so the files are the same for any number of processes.
"""
