"""Defines the model's input, which consists of tokens, positions and segment ids."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.model.special_ids import PAD_ID


@dataclass(frozen=True)
class Tokens:
    """The sources or targets of a micro-batch; each attribute is an int64 tensor (R, C)."""

    tokens: Tensor
    positions: Tensor  # position of each token in its sentence, counted from 0
    segments: Tensor  # number of the sentence in its row, counted from 1; 0 for padding

    @classmethod
    def of_rows(cls, tokens: Tensor) -> Tokens:
        """Creates Tokens from int64 ids (R, C), with one sentence per row and PAD_ID as padding."""
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return cls(tokens, positions, (tokens != PAD_ID).long())
