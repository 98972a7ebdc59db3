"""Computes label-smoothed cross-entropy from hidden states, in chunks of tokens.

Only the logits of one chunk are in memory at a time. The loss of each token is multiplied by the
token's loss weight (see `nmt.data.loss_weights`).

Labels are smoothed as in Szegedy et al. (2016, §7): each of the V entries of the vocabulary has the
target probability epsilon / V, and the label has an additional probability of 1 - epsilon.
PyTorch's `cross_entropy(label_smoothing=epsilon)` uses the same definition. In contrast,
tensor2tensor distributes epsilon over the V - 1 entries that are not the label.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.data.layout import Batch
from nmt.data.loss_weights import token_weights
from nmt.model.kernels.products import add_to_matmul, matmul, matmul_of_transposed
from nmt.model.special_ids import PAD_ID
from nmt.model.transformer import Transformer
from nmt.training.gradient_graphs import GradientGraphs

_CHUNK_BYTES = 128 << 20  # size of the logits in memory at once; larger chunks are faster
_GPU_CHUNK_BYTES = 512 << 20  # each chunk is added to the embedding's gradient, 76 MB in base
_LEAST = torch.finfo(torch.float32).tiny  # keeps logarithms of probabilities finite


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes the sum of the losses of tokens; the forward pass also computes the gradients.

    Let z be the logits of a token, p = softmax(z), and y the label. Then nll = -ln p_y, the
    smoothed loss is nll + epsilon (z_y - mean z), and its gradient with respect to z_v is
    p_v - epsilon / V - (1 - epsilon) [v = y]. To save time, the logits are overwritten with p
    as soon as the label's logit has been read. The mean of a token's logits is therefore computed
    as the product of its hidden state and the mean row of the embedding. The term -epsilon / V is
    not added to the entries of p. Instead, -epsilon times the mean of the embedding's rows is added
    to the gradient of each hidden state, and -epsilon / V times the sum of the hidden states is
    added to the gradient of each row of the embedding.

    Adjacent bf16 numbers just below 1 differ by 2^-8, so a p_y close to 1 would make the difference
    p_y - (1 - epsilon) inaccurate in bf16. A p_y that exceeds one half is therefore computed in
    fp32 as 1 minus the sum of all other probabilities. The gradient with respect to the label's
    logit is also computed in fp32, and is rounded only once.
    """

    @staticmethod
    def forward(
        ctx,
        hidden: Tensor,
        embedding: Tensor,
        targets: Tensor,
        weights: Tensor | None,
        epsilon: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        wants_gradient = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        with torch.autocast(hidden.device.type, enabled=False):
            weight, real = embedding.to(dtype), targets != PAD_ID
            inputs = hidden.to(dtype) * real[:, None]
            factors = real if weights is None else real * weights  # factors of the tokens' losses
            weighted = inputs if weights is None else (inputs * weights[:, None]).to(dtype)
            mean_row = weight.mean(0, dtype=torch.float32)
            label_logits, label_p = (mean_row.new_empty(len(inputs)) for _ in range(2))
            hidden_gradient = torch.empty_like(inputs)
            embedding_gradient = weighted.sum(0, dtype=torch.float32) * (-epsilon / len(weight))
            size = _chunk_size(len(inputs), len(weight) * weight.itemsize, inputs.device)
            for begin in range(0, max(1, len(inputs)), size):
                rows = slice(begin, begin + size)
                p = matmul(inputs[rows], weight.t())  # the logits, until softmax overwrites them
                label = torch.arange(len(p), device=p.device), targets[rows]
                label_logits[rows] = p[label]
                torch.softmax(p, -1, out=p)
                rounded = p[label].float()
                p.index_put_(label, p.new_zeros(()))
                others = p.sum(-1).float()
                label_p[rows] = torch.where(others < 0.5, 1 - others, rounded)
                if wants_gradient:
                    p.index_put_(label, (label_p[rows] - (1 - epsilon)).to(dtype))
                    # rounded once: subtracted in bf16, epsilon / V would be lost in most entries
                    hidden_gradient[rows] = add_to_matmul(-epsilon * mean_row, p, weight)
                    part = matmul_of_transposed(p, weighted[rows])
                    if begin == 0:  # so that the sum has the memory layout of `part`
                        embedding_gradient = part + embedding_gradient
                    else:
                        embedding_gradient += part
                    del part
                del p  # frees the memory before the next chunk needs it
            nll = -(label_p.clamp_min_(_LEAST).log_() * factors).sum()
            above_mean = label_logits - inputs.float() @ mean_row
            loss = nll + epsilon * (above_mean * factors).sum()
        if wants_gradient:
            hidden_gradient.mul_(factors[:, None])
            ctx.gradients = hidden_gradient.to(hidden.dtype), embedding_gradient.contiguous()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, loss_gradient: Tensor, _: Tensor):
        hidden_gradient, embedding_gradient = ctx.gradients
        del ctx.gradients  # scaled in place, because there is no second backward pass
        scaled = hidden_gradient.mul_(loss_gradient), embedding_gradient.mul_(loss_gradient)
        return *scaled, None, None, None, None


def _chunk_size(tokens: int, bytes_each: int, device: torch.device) -> int:
    """Returns the number of tokens whose logits are in memory at the same time, called a chunk.

    On a GPU, all chunks have about the same size, because a small last chunk would be inefficient.
    The size of a GPU chunk is also a multiple of 128, the tile size of matrix multiplications.
    """
    if device.type == "cpu":
        return max(1, _CHUNK_BYTES // bytes_each)
    chunks = max(1, math.ceil(tokens * bytes_each / _GPU_CHUNK_BYTES))
    return max(1, math.ceil(tokens / chunks / 128)) * 128


def smoothed_cross_entropy(
    hidden: Tensor,
    embedding: Tensor,
    targets: Tensor,
    epsilon: float,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the loss of predicting `targets` from hidden states, summed over tokens.

    Args:
        hidden: (N, D), the output of the decoder.
        embedding: (V, D), the matrix that projects hidden states to logits.
        targets: (N,) int64, the labels. Labels that are equal to PAD_ID are ignored.
        epsilon: the amount of label smoothing, with 0 <= epsilon < 1. The paper uses 0.1.
        weights: (N,) fp32, the factors by which the tokens' losses are multiplied. If `weights` is
            None, all factors are 1.

    Returns:
        Two scalars in nats: the smoothed loss, which is differentiable, and the unsmoothed negative
        log-likelihood, which is not differentiable.
    """
    device = hidden.device.type
    low = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if low else hidden.dtype
    return _ChunkedCrossEntropy.apply(hidden, embedding, targets, weights, epsilon, dtype)


class TransformerLoss(nn.Module):
    """Combines a model and its loss, so that DistributedDataParallel can wrap both together."""

    def __init__(self, transformer: Transformer, label_smoothing: float):
        super().__init__()
        self.transformer = transformer
        self.label_smoothing = label_smoothing
        self.is_plain = False  # whether to use torch's cross-entropy, on all logits at once
        self.graphs: GradientGraphs | None = None  # set if the model may be trained by CUDA graphs

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the smoothed loss and the negative log-likelihood of a micro-batch.

        Both values are in nats and summed over target tokens, after each token's loss has been
        multiplied by the token's loss weight.
        """
        hidden = self.transformer(batch.src, batch.tgt_in).flatten(0, 1)
        weights = token_weights(batch)
        weights = None if weights is None else weights.flatten()
        return self._of(hidden, batch.tgt_out.flatten(), weights)

    def _of(self, hidden: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        if hidden.device.type == "cpu":  # on a GPU, `nonzero` would make the host wait
            real = targets.nonzero().squeeze(1)
            hidden, targets = hidden[real], targets[real]
            weights = None if weights is None else weights[real]
        if self.is_plain:
            logits = self.transformer.logits(hidden).float()
            nll = partial(F.cross_entropy, logits, targets, ignore_index=PAD_ID)
            if weights is None:
                smoothed = nll(label_smoothing=self.label_smoothing, reduction="sum")
                return smoothed, nll(reduction="sum").detach()
            smoothed = nll(label_smoothing=self.label_smoothing, reduction="none") @ weights
            return smoothed, (nll(reduction="none") @ weights).detach()
        embedding: Tensor = self.transformer.embedding
        bias = self.transformer.output_bias
        if bias is not None:  # as one more column, which is multiplied by 1
            hidden = F.pad(hidden, (0, 1), value=1.0)
            embedding = torch.cat((embedding, bias[:, None]), 1)
        return smoothed_cross_entropy(hidden, embedding, targets, self.label_smoothing, weights)
