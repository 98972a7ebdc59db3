"""Small models for the server: an untrained one, and one that has memorized sentences."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from nmt.config import Config
from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.data.tokenizer import Tokenizer
from nmt.model.special_ids import EOS_ID, PAD_ID
from nmt.runs.model_directory import new_transformer
from nmt.translator import Translator


def ending_translator(config: Config, data: Path) -> Translator:
    """Returns a model with random weights in which EOS is likely, so that translations end."""
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    end = transformer.embedding[EOS_ID]
    last = config.model.decoder_layers - 1
    bias = transformer.get_parameter(f"decoder.{last}.feed_forward_residual.norm.bias")
    bias.data = 5 * end / end.norm()
    tokenizer = Tokenizer.load(data / "data" / "tokenizer.model")
    return Translator.of(transformer, tokenizer, config)


PAIRS = {
    "The man reads a book.": "Der Mann liest ein Buch.",
    "The woman sees a dog.": "Die Frau sieht einen Hund.",
    "A dog sleeps.": "Ein Hund schläft.",
    "The old man sees the woman.": "Der alte Mann sieht die Frau.",
    "The child buys two apples.": "Das Kind kauft zwei Äpfel.",
    "Where does he live?": "Wo wohnt er?",
}


def learnt_translator(config: Config, data: Path) -> Translator:
    """Returns a model that has memorized a few sentences."""
    translator = ending_translator(config, data)
    transformer, tokenizer = translator.transformer, translator.tokenizer
    transformer.initialize(1)
    pairs = [
        Pair(*(np.array([*tokenizer.encode(text), EOS_ID]) for text in pair))
        for pair in PAIRS.items()
    ]
    batch = one_per_row(pairs)
    optimizer = torch.optim.Adam(transformer.parameters(), lr=5e-3)
    for _ in range(120):
        logits = transformer.logits(transformer(batch.src, batch.tgt_in))
        loss = F.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return translator
