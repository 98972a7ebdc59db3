"""`torch.nn.Transformer` as in PyTorch's tutorials, with tied embeddings.

Unlike the other systems, this model also applies dropout to attention weights and in feed-forward
networks.
"""

import math

import torch
from torch import Tensor, nn

from recipes.speed.plain_step import Step, plain_step
from recipes.speed.workload import PAD, Batch, Shape


def version() -> str:
    return f"torch.nn.Transformer {torch.__version__}"


class TiedTransformer(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        d, n = shape.d_model, shape.layers
        self.transformer = nn.Transformer(
            d, shape.heads, n, n, shape.d_ff, shape.dropout, batch_first=True
        )
        self.embedding = nn.Embedding(shape.vocabulary, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.projection = nn.Linear(d, shape.vocabulary, bias=False)
        self.projection.weight = self.embedding.weight
        self.dropout = nn.Dropout(shape.dropout)
        angles = torch.arange(256.0)[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def embed(self, tokens: Tensor) -> Tensor:
        scaled = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: tokens.shape[1]])

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        padding = src == PAD
        hidden = self.transformer(
            self.embed(src),
            self.embed(tgt),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]),
            src_key_padding_mask=padding,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=padding,
        )
        return self.projection(hidden)


def training_step(shape: Shape, precision: str) -> Step:
    model = TiedTransformer(shape).train()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    def loss(batch: Batch) -> Tensor:
        logits = model(batch.src, batch.tgt_in)
        return criterion(logits.flatten(0, 1), batch.tgt_out.flatten())

    return plain_step(model, loss, precision)
