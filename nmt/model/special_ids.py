"""The special ids: padding, start and end of a sentence, unknown.

They are the same in every vocabulary that nmt learns. Nothing is imported here, as tokenization
needs them without torch, and the model without a tokenizer.
"""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
