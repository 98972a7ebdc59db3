"""The ids that are no text: padding, a sentence's start and end, the unknown.

They are the same in every vocabulary of ours. Nothing is imported here: text needs them without
torch, the model without a tokenizer.
"""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
