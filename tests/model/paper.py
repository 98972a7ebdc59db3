"""The paper's equations for one sentence pair, in plain torch, as a reference for tests.

Nothing here is batched, padded, packed or cached, so the only masks are those of §3.2.3 and §4.
Weights are read from a model by their checkpoint names and kept in float64.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import Config, Model
from nmt.data.layout import Batch
from nmt.model.kernels.dropout import Dropout
from nmt.model.special_ids import BOS_ID
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer

Pair = tuple[list[int], list[int]]  # source and target, each with EOS
Drop = Callable[[Tensor, str], Tensor]  # arguments: a tensor, the name of its rate


def new_model(config: Config, seed: int) -> Transformer:
    """Returns a model with the initial weights of training."""
    model = new_transformer(config)
    model.initialize(seed)
    return model


def keep_all(x: Tensor, rate: str) -> Tensor:
    return x


class PaperTransformer:
    """Computes Figure 1 with the given weights; calls `drop` wherever the model has dropout."""

    def __init__(self, weights: dict[str, Tensor], model: Model, drop: Drop = keep_all):
        self.weights = {
            name: tensor.detach().clone().double().requires_grad_()
            for name, tensor in weights.items()
        }
        self.model, self.drop = model, drop

    def logits(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Returns logits (T, V); row t predicts target[t] from the source and target[:t]."""
        memory = self.embed(source)
        for layer in range(self.model.encoder_layers):
            name = f"encoder.{layer}"
            memory = self.self_attention(name, memory, causal=False)
            memory = self.feed_forward(name, memory)
        memory = self.last_norm("encoder_norm", memory)
        y = self.embed([BOS_ID, *target[:-1]])
        for layer in range(self.model.decoder_layers):
            name = f"decoder.{layer}"
            y = self.self_attention(name, y, causal=True)
            y = self.cross_attention(name, y, memory)
            y = self.feed_forward(name, y)
        return self.last_norm("decoder_norm", y) @ self.weights["embedding"].T

    def loss(self, pairs: Sequence[Pair], epsilon: float) -> tuple[Tensor, Tensor]:
        """Returns the smoothed and the plain cross-entropy, summed over target tokens."""
        logits = torch.cat([self.logits(*pair) for pair in pairs])
        targets = torch.tensor([token for _, target in pairs for token in target])
        smoothed = F.cross_entropy(logits, targets, label_smoothing=epsilon, reduction="sum")
        return smoothed, F.cross_entropy(logits, targets, reduction="sum")

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """Adds positions to scaled embeddings (§3.4, §3.5)."""
        d = self.model.d_model
        embedded = self.weights["embedding"][list(tokens)] * math.sqrt(d)
        return self.drop(embedded + self.positions(len(tokens)), "dropout")

    def positions(self, length: int) -> Tensor:
        if self.model.positions == "learned":
            return self.weights["positions.weight"][:length]
        d, wave = self.model.d_model, (math.sin, math.cos)
        return torch.tensor(
            [
                [wave[i % 2](place / 10_000 ** ((i - i % 2) / d)) for i in range(d)]
                for place in range(length)
            ],
            dtype=torch.float64,
        )

    def sublayer(self, name: str, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns LayerNorm(x + Dropout(f(x))) (§5.4) or pre-norm x + Dropout(f(LayerNorm(x)))."""
        norm = f"{name}_residual.norm"
        if self.model.norm == "post":
            return self.normalize(norm, x + self.drop(function(x), "dropout"))
        return x + self.drop(function(self.normalize(norm, x)), "dropout")

    def last_norm(self, name: str, x: Tensor) -> Tensor:
        return x if self.model.norm == "post" else self.normalize(name, x)

    def normalize(self, name: str, x: Tensor) -> Tensor:
        gain, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + 1e-5).sqrt() * gain + bias

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def feed_forward(self, layer: str, x: Tensor) -> Tensor:
        """Computes Eq. 2 as a sub-layer."""
        name = f"{layer}.feed_forward"

        def function(y: Tensor) -> Tensor:
            inner = self.linear(f"{name}.inner", y).clamp(min=0)
            return self.linear(f"{name}.outer", self.drop(inner, "activation_dropout"))

        return self.sublayer(name, x, function)

    def self_attention(self, layer: str, x: Tensor, causal: bool) -> Tensor:
        name, model, length = f"{layer}.self_attention", self.model, len(x)
        reach = length if model.attention_window is None else model.attention_window // 2
        sees = [
            [abs(key - query) <= reach and not (causal and key > query) for key in range(length)]
            for query in range(length)
        ]
        keys, values = model.heads * model.d_k, model.heads * model.d_v

        def function(y: Tensor) -> Tensor:
            q, k, v = self.linear(f"{name}.query_key_value", y).split([keys, keys, values], -1)
            return self.attention(name, q, k, v, torch.tensor(sees))

        return self.sublayer(name, x, function)

    def cross_attention(self, layer: str, x: Tensor, memory: Tensor) -> Tensor:
        name, model = f"{layer}.cross_attention", self.model
        sizes = [model.heads * model.d_k, model.heads * model.d_v]
        k, v = self.linear(f"{name}.key_value", memory).split(sizes, -1)
        all_seen = torch.ones(len(x), len(memory), dtype=torch.bool)

        def function(y: Tensor) -> Tensor:
            return self.attention(name, self.linear(f"{name}.query", y), k, v, all_seen)

        return self.sublayer(name, x, function)

    def attention(self, name: str, q: Tensor, k: Tensor, v: Tensor, sees: Tensor) -> Tensor:
        """Computes Eq. 1 per head (§3.2.2): (T, H*K), (S, H*K), (S, H*V), (T, S) -> (T, D)."""
        heads, d_k = self.model.heads, self.model.d_k
        weights = torch.stack(
            [
                (query @ key.T / math.sqrt(d_k)).masked_fill(~sees, -math.inf).softmax(-1)
                for query, key in zip(q.chunk(heads, -1), k.chunk(heads, -1), strict=True)
            ]
        )
        weights = self.drop(weights, "attention_dropout")
        found = [w @ value for w, value in zip(weights, v.chunk(heads, -1), strict=True)]
        return self.linear(f"{name}.output", torch.cat(found, -1))


def sites(model: Model, source: int, target: int) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the name of the rate and the shape of each dropout in a forward pass of one pair.

    The paper describes `dropout`, of sub-layer outputs and embedding sums (§5.4). The authors' code
    also has the others.
    """

    def attention(queries: int, keys: int) -> list[tuple[str, tuple[int, ...]]]:
        weights = (model.heads, queries, keys)
        return [("attention_dropout", weights), ("dropout", (queries, model.d_model))]

    def feed_forward(length: int) -> list[tuple[str, tuple[int, ...]]]:
        inner = (length, model.d_ff)
        return [("activation_dropout", inner), ("dropout", (length, model.d_model))]

    encoder_layer = attention(source, source) + feed_forward(source)
    decoder_layer = attention(target, target) + attention(target, source) + feed_forward(target)
    return [
        ("dropout", (source, model.d_model)),
        *(encoder_layer * model.encoder_layers),
        ("dropout", (target, model.d_model)),
        *(decoder_layer * model.decoder_layers),
    ]


@contextmanager
def dropping(module: nn.Module) -> Iterator[list[Tensor]]:
    """Collects the factors by which each dropout multiplies; the factor of an input of 0 is 0."""
    factors: list[Tensor] = []

    def hook(dropout: Dropout, arguments, options, output):
        if not (dropout.training and dropout.p):
            assert torch.equal(output, sum([*options.values(), *arguments]))
            return
        kept = output - options.get("residual", 0)
        factors.append(torch.nan_to_num(kept / arguments[0]).detach())

    hooks = [
        m.register_forward_hook(hook, with_kwargs=True)
        for m in module.modules()
        if isinstance(m, Dropout)
    ]
    yield factors
    for each in hooks:
        each.remove()


def pairs_in(batch: Batch) -> list[Pair]:
    """Returns the sentence pairs of a batch, without padding."""
    found = []
    for row in range(len(batch.tgt_out)):
        for segment in range(1, int(batch.tgt_in.segments[row].max()) + 1):
            source = batch.src.tokens[row, batch.src.segments[row] == segment]
            target = batch.tgt_out[row, batch.tgt_in.segments[row] == segment]
            found.append((source.tolist(), target.tolist()))
    return found


def equation_3(step: int, d_model: int, warmup_steps: int) -> float:
    """Returns the learning rate (§5.3)."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
