"""Sentences as the model takes them: rows of tokens with their positions and segments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.model.special_ids import PAD_ID


@dataclass(frozen=True)
class Tokens:
    """One side of a slot, each tensor (R, C) int64."""

    tokens: Tensor
    positions: Tensor  # of each token in its own sentence, from 0
    segments: Tensor  # which of the row's sentences, from 1; 0 is padding

    @classmethod
    def of_rows(cls, tokens: Tensor) -> Tokens:
        """One sentence a row: (R, C) int64, padded with PAD_ID."""
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return cls(tokens, positions, (tokens != PAD_ID).long())

    def to(self, device: torch.device) -> Tokens:
        """The same on `device`; page-locked tensors are copied without waiting."""
        parts = (self.tokens, self.positions, self.segments)
        return Tokens(*(part.to(device, non_blocking=True) for part in parts))
