"""The stages of `nmt prepare`, one per module. `nmt.data.prepare` calls the stages in order.

The stages write their output to the folder .work of the data directory (see `Job`). Each * in the
following paths stands for a hash of everything that the content depends on. Therefore the text is
not cleaned again for another vocabulary, and no outdated file is used.

* `text-*/` contains the cleaned pairs with their hashes, one shard per 100,000 pairs of a corpus.
* `text-*/kept.npy` is a mask of the training pairs without duplicates.
* `tokenizer-*.model` is the tokenizer, which is trained on a bounded sample of the kept pairs.
* `tokens-*/` contains the shards as token ids.
* `tokens-*/final/` contains all files of the prepared data under their final names.

Beside each file, a file NAME.json contains the hash and the counts (see `job.finish`), so that a
stage repeats only work whose files are missing or damaged. Each call of `clean_shard` or
`encode_shard` writes one shard, which depends only on the arguments. Therefore the shards are the
same for any number of processes.
"""
