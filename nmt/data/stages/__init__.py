"""The stages of preparing, a file each, in the order in which `nmt.data.prepare` calls them.

A folder .work in the directory that is prepared holds what they hand on, see `Job`:

    text-*/        cleaned pairs with their hashes, a shard for each 100,000 pairs of a corpus
    text-*/kept.npy    which training pairs are the first of their kind
    tokenizer-*.model  learnt from a bounded sample of what is kept
    tokens-*/      the same shards as token ids, with BPE-dropout in several segmentations each
    tokens-*/final/    those with their final names, the tokenizer and the manifest

The names end in a hash of what the content depends on, so that a changed vocabulary does not
clean the text again and nothing stale is ever taken up. Each stage takes up what an interrupted
call has left of its output. `clean_shard` and `encode_shard` turn one piece of input into one file
and depend on nothing else, so any number of processes gives the same files.
"""
