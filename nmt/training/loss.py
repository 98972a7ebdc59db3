"""Label-smoothed cross-entropy from hidden states, computed in chunks of tokens.

So the logits of all tokens are never in memory together.

Smoothing in Szegedy et al.'s form (2016, §7): the target distribution is (1 - epsilon) on the
label plus epsilon / V on each of the V entries of the vocabulary, the label included; the same
as torch's `cross_entropy(label_smoothing=epsilon)`. (tensor2tensor spreads epsilon over V - 1.)
"""

import torch
from torch import Tensor, nn

from nmt.data.layout import Batch
from nmt.model.special_ids import PAD_ID
from nmt.model.transformer import Transformer

_CHUNK_TOKENS = 512  # whose logits are in memory at once


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Sums of smoothed and unsmoothed loss; the forward pass computes the gradient as well."""

    @staticmethod
    def forward(
        ctx, hidden: Tensor, embedding: Tensor, targets: Tensor, epsilon: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        wants_gradient = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        with torch.autocast(hidden.device.type, enabled=False):
            weight = embedding.to(dtype)
            loss, nll = (torch.zeros((), device=hidden.device) for _ in range(2))
            hidden_gradient = torch.empty_like(hidden) if wants_gradient else None
            embedding_gradient = torch.zeros_like(embedding) if wants_gradient else None
            for begin in range(0, len(hidden), _CHUNK_TOKENS):
                rows = slice(begin, begin + _CHUNK_TOKENS)
                chunk = hidden[rows].to(dtype)
                labels = targets[rows, None]
                real = labels != PAD_ID  # (rows, 1)
                logs = (chunk @ weight.t()).float().log_softmax(-1)
                label_logs = logs.gather(1, labels).mul_(real)
                nll -= label_logs.sum()
                uniform = (logs.sum(-1, keepdim=True) * real).sum() / len(embedding)
                loss -= (1 - epsilon) * label_logs.sum() + epsilon * uniform
                if hidden_gradient is None or embedding_gradient is None:
                    continue
                gradient = logs.exp_().sub_(epsilon / len(embedding))
                gradient.scatter_add_(1, labels, torch.full_like(label_logs, epsilon - 1))
                gradient = gradient.to(dtype)
                hidden_gradient[rows] = (gradient @ weight) * real
                embedding_gradient += gradient.t() @ (chunk * real)
        if wants_gradient:
            ctx.save_for_backward(hidden_gradient, embedding_gradient)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, loss_gradient: Tensor, _: Tensor):
        hidden_gradient, embedding_gradient = ctx.saved_tensors
        return hidden_gradient * loss_gradient, embedding_gradient * loss_gradient, None, None, None


def smoothed_cross_entropy(
    hidden: Tensor, embedding: Tensor, targets: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Loss of predicting `targets` from hidden states, summed over tokens.

    Args:
        hidden: (N, D) decoder output.
        embedding: (V, D), the projection to logits.
        targets: (N,) int64; PAD_ID adds nothing.
        epsilon: smoothing, 0 <= epsilon < 1; the paper: 0.1.

    Returns:
        Two scalars in nats: the smoothed loss, which has a gradient, and the unsmoothed
        negative log-likelihood, which has none.
    """
    device = hidden.device.type
    low = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if low else hidden.dtype
    return _ChunkedCrossEntropy.apply(hidden, embedding, targets, epsilon, dtype)


class TransformerLoss(nn.Module):
    """Model and loss as one module, so that DistributedDataParallel sees one forward pass."""

    def __init__(self, transformer: Transformer, label_smoothing: float):
        super().__init__()
        self.transformer = transformer
        self.label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The slot's smoothed loss and negative log-likelihood, in nats, summed over tokens."""
        hidden = self.transformer(batch.src, batch.tgt_in).flatten(0, 1)
        return self._of(hidden, batch.tgt_out.flatten())

    # Compiling gains nothing: chunks are large products, and each number of tokens is a new graph
    @torch.compiler.disable
    def _of(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if hidden.device.type == "cpu":  # on a GPU the host would wait for the number of tokens
            real = targets.nonzero().squeeze(1)
            hidden, targets = hidden[real], targets[real]
        return smoothed_cross_entropy(
            hidden, self.transformer.embedding, targets, self.label_smoothing
        )
