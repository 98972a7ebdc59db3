"""Defines the ids of the padding, start-of-sentence, end-of-sentence and unknown tokens.

The ids are the same in every vocabulary that nmt trains. This module imports nothing, so that the
tokenizer can use it without importing torch.
"""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
