"""The model's input: rows of tokens with their positions and segments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.model.special_ids import PAD_ID


@dataclass(frozen=True)
class Tokens:
    """The sources or the targets of a micro-batch; each field is an (R, C) int64 tensor."""

    tokens: Tensor
    positions: Tensor  # position of each token in its sentence, from 0
    segments: Tensor  # number of the sentence within its row, from 1; padding is 0

    @classmethod
    def of_rows(cls, tokens: Tensor) -> Tokens:
        """Returns Tokens for rows (R, C) int64 of one sentence each, padded with PAD_ID."""
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return cls(tokens, positions, (tokens != PAD_ID).long())

    def to(self, device: torch.device) -> Tokens:
        """Returns a copy on `device`; page-locked tensors are copied asynchronously."""
        parts = (self.tokens, self.positions, self.segments)
        return Tokens(*(part.to(device, non_blocking=True) for part in parts))
