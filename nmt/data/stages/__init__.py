"""The stages of preparing, a file each, in the order in which `nmt.data.prepare` calls them.

What a stage leaves for the next is in the folder .work of the data directory, see `Job`:

    text-*/        cleaned pairs with their hashes, a shard for each 100,000 pairs of a corpus
    text-*/kept.npy    which training pairs are the first of their kind
    tokenizer-*.model  learnt from a bounded sample of what is kept
    tokens-*/      the same shards as token ids
    tokens-*/final/    those with their final names, the tokenizer and the manifest

The names end in a hash of what the content depends on: text is not cleaned again for another
vocabulary, and nothing stale is used. Each file has a note beside it with its own hash and counts
(NAME.json, see `job.finish`), by which a stage makes again only what is missing or damaged.
`clean_shard` and `encode_shard` turn one piece of input into one file and depend on nothing else,
so any number of processes gives the same files.
"""
