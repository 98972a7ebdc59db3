"""Contains the stages of `nmt prepare`, one per module, which `nmt.data.prepare` calls in order.

The stages write their output to the folder .work in the data directory (see `Job`). In the
following paths, each * stands for a hash of everything on which the content depends. Because the
paths contain hashes, outdated files are never used, and a new vocabulary size does not require
cleaning the text again.

* `text-*/` contains the cleaned pairs with their hashes, one shard per 100,000 pairs of a corpus.
* `text-*/kept.npy` is a mask that excludes duplicate training pairs.
* `tokenizer-*.model` is the tokenizer, which is trained on a bounded sample of the kept pairs.
* `tokens-*/` contains the shards as token ids.
* `tokens-*/final/` contains all files of the prepared data under their final names.

The hash and the counts of each file are stored in a file NAME.json beside it (see `job.finish`). A
stage repeats only the work whose files are missing or damaged. Each call of `clean_shard` or
`encode_shard` writes one shard, which depends only on the arguments of the call. The shards are
therefore the same for any number of processes.
"""
