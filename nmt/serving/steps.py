"""Records the intermediate results of a forward pass for one token."""

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.data.tokenizer import with_eos
from nmt.decoding.beam_search import NEVER_GENERATED
from nmt.errors import ArgumentError
from nmt.export.expressible import refuse_inexpressible
from nmt.model.attention import CrossAttention, SelfAttention, attention_weights, rules_of
from nmt.model.layers import DecoderLayer, EncoderLayer, Residual
from nmt.serving.microscope import JSON, sentence_ids
from nmt.translator import Translator

Side = Literal["source", "target"]

_DIGITS = 6  # decimal places
_LISTED = 10  # number of most likely tokens that are listed
_STRONGEST = 5  # number of feed-forward units that are listed
# The page shows the paper's formulas, so all other settings must have their defaults.
_SHOWN: dict[str, Collection[Any] | None] = dict.fromkeys(
    ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v", "dropout",
     "attention_dropout", "activation_dropout", "norm", "attention_window")
) | {"positions": ("sinusoidal", "learned")}  # fmt: skip

_Seen = dict[nn.Module, tuple[tuple[Any, ...], Any]]  # arguments and output of each module


@torch.inference_mode()
def steps(
    translator: Translator,
    text: str,
    target: str,
    *,
    side: Side = "target",
    token: int = 0,
    layer: int = 0,
    head: int = 0,
) -> JSON:
    """Returns the intermediate results of a forward pass for one token, one layer and one head.

    In tensor shapes, S is the number of keys, D is d_model, K is d_k, and V is d_v. Tensors are
    returned as lists.

    Args:
        text: one sentence.
        target: the translation of `text`, which is tokenized like training text.
        side: "source" for a token in the encoder, or "target" for a token in the decoder.
        token: the index of a token in the source or in the target. In the decoder, this index
            identifies the predicted token, and the input token is the preceding target token.

    Returns:
        An object with these keys:

        * `embedding`: the input token and its embedding (see `_embedding`).
        * `self`: the results of the self-attention sub-layer (see `_attention`).
        * `cross`: the results of the cross-attention sub-layer (see `_attention`), if `side` is
          "target".
        * `feed_forward`: the results of the feed-forward sub-layer (see `_feed_forward`).
        * `hidden`: the output of the encoder or decoder, of shape (D).
        * `output`: the logits and probabilities (see `_output`), if `side` is "target".

    Raises:
        InputError: the page cannot show this model, because its layers differ from the paper's
            layers.
        ArgumentError: `text` is empty, `text` or `target` is too long, or `token`, `layer` or
            `head` does not exist.
    """
    refuse_inexpressible(
        translator.config, _SHOWN, "The step-by-step view",
        "Use the attention or beam search view instead.",
    )  # fmt: skip
    source, written = (
        with_eos(sentence_ids(translator, name, each))
        for name, each in (("text", text), ("target", target))
    )
    model, config = translator.transformer, translator.config.model
    stack = model.encoder if side == "source" else model.decoder
    _check("token", token, len(source if side == "source" else written))
    _check("layer", layer, len(stack))
    _check("head", head, config.heads)
    batch = one_per_row([Pair(source, written)], translator.device)
    one = cast(EncoderLayer | DecoderLayer, stack[layer])
    with _recorded(one) as seen:
        hidden = model.encode(batch.src) if side == "source" else model(batch.src, batch.tgt_in)
    tokens = batch.src.tokens if side == "source" else batch.tgt_in.tokens
    found = {
        "embedding": _embedding(translator, int(tokens[0, token]), token),
        "self": _attention(one.self_attention, one.self_attention_residual, seen, token, head),
        "feed_forward": _feed_forward(one, seen, token),
        "hidden": _list(hidden[0, token]),
    }
    if isinstance(one, DecoderLayer):
        found["cross"] = _attention(
            one.cross_attention, one.cross_attention_residual, seen, token, head
        )
        found["output"] = _output(translator, hidden[0, token], int(written[token]))
    return found


def _check(name: str, number: int, bound: int) -> None:
    if not 0 <= number < bound:
        raise ArgumentError(f"{{{name}}} must be from 0 to {bound - 1}, but is {{}}.", number)


@contextmanager
def _recorded(layer: nn.Module) -> Iterator[_Seen]:
    """Records the arguments and the output of each module in a layer."""
    seen: _Seen = {}

    def record(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        seen[module] = arguments, output

    hooks = [module.register_forward_hook(record) for module in layer.modules()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _embedding(translator: Translator, token: int, position: int) -> JSON:
    """Returns the intermediate results of the embedding of an input token.

    Returns:
        An object with these keys. All vectors have the shape (D).

        * `id` and `piece`: the id and the piece of the input token.
        * `row`: the token's row of the embedding matrix.
        * `scaled`: the token's row of the embedding matrix, times sqrt(d_model).
        * `position`: the positional encoding of the token's position.
        * `sum`: the sum of `scaled` and `position`, which is the input of the first layer.
    """
    model = translator.transformer
    row = model.embedding[token]
    scaled = row * math.sqrt(model.d_model)
    place = torch.tensor([[position]], device=translator.device)
    encoding = model.positions(place, position + 1)[0, 0].to(row.dtype)
    return {
        "id": token,
        "piece": translator.tokenizer.pieces([token])[0],
        "row": _list(row),
        "scaled": _list(scaled),
        "position": _list(encoding),
        "sum": _list(scaled + encoding),
    }


def _attention(
    attention: SelfAttention | CrossAttention,
    residual: Residual,
    seen: _Seen,
    token: int,
    head: int,
) -> JSON:
    """Returns the intermediate results of one head of an attention sub-layer.

    Returns:
        The object that `_wrapped` returns, with these additional keys:

        * `query`: the query vector of the token, of shape (K).
        * `keys`: the key vectors, of shape (S, K).
        * `scores`: the dot products of the query with each key, of shape (S).
        * `scaled`: the scores divided by sqrt(d_k), of shape (S).
        * `allowed`: for each key, whether the attention mask allows the query to attend to it.
        * `weights`: the attention weights, of shape (S).
        * `values`: the value vectors, of shape (S, V).
        * `attended`: the sum of the values, weighted by the attention weights, of shape (V).
        * `joined`: the concatenated `attended` vectors of all heads, of shape (heads * V).
    """
    (x, *more), output = seen[attention]
    if isinstance(attention, CrossAttention):
        query = attention.split(attention.query(x), attention.d_k)
        (key, value), visibility = more
    else:
        (query, key, value), visibility = attention.project(x), more[0]
    weights = attention_weights(query, key, visibility)  # (1, H, T, S)
    joined = (weights.to(value.dtype) @ value)[0, :, token]  # (H, d_v)
    scores = key[0, head] @ query[0, head, token]
    rules = rules_of(visibility, lambda each: each[:, :, None], lambda each: each[:, None])
    allowed = reduce(and_, rules).expand(1, query.shape[2], key.shape[2])
    return {
        "query": _list(query[0, head, token]),
        "keys": _list(key[0, head]),
        "scores": _list(scores),
        "scaled": _list(scores / math.sqrt(attention.d_k)),
        "allowed": allowed[0, token].tolist(),
        "weights": _list(weights[0, head, token]),
        "values": _list(value[0, head]),
        "attended": _list(joined[head]),
        "joined": _list(joined.flatten()),
        **_wrapped(residual, seen, token, output),
    }


def _feed_forward(layer: EncoderLayer | DecoderLayer, seen: _Seen, token: int) -> JSON:
    """Returns the intermediate results of the feed-forward sub-layer.

    Returns:
        The object that `_wrapped` returns, with these additional keys:

        * `units`: the activations of the inner layer after ReLU, of shape (d_ff).
        * `active`: the number of units with a positive activation.
        * `strongest`: the indices of the five units with the largest activations.
    """
    (x,), output = seen[layer.feed_forward]
    units = layer.feed_forward.units(x[0, token])
    return {
        "units": _list(units),
        "active": int((units > 0).sum()),
        "strongest": units.topk(min(_STRONGEST, len(units))).indices.tolist(),
        **_wrapped(layer.feed_forward_residual, seen, token, output),
    }


def _wrapped(residual: Residual, seen: _Seen, token: int, output: Tensor) -> JSON:
    """Returns the results of the residual connection and of the normalization around a sub-layer.

    Returns:
        An object with these keys. All vectors have the shape (D).

        * `before`: the input vector of the residual connection.
        * `output`: the output vector of the sub-layer.
        * `sum`: the sum of `before` and `output`.
        * `mean` and `deviation`: the mean and the standard deviation of the normalization's input.
          The normalization's input is `sum` in a post-norm layer, and `before` in a pre-norm layer.
        * `standardized`: the normalization's input minus `mean`, divided by `deviation`.
        * `gain` and `bias`: the parameter vectors of the normalization.
        * `normalized`: the normalization's output (`standardized` times `gain` plus `bias`).
    """
    (x, _), _ = seen[residual]
    total = x + output
    given = (total if residual.is_post else x)[0, token].float()
    norm = cast(nn.LayerNorm, residual.norm)
    return {
        "before": _list(x[0, token]),
        "output": _list(output[0, token]),
        "sum": _list(total[0, token]),
        "mean": round(given.mean().item(), _DIGITS),
        "deviation": round(given.std(correction=0).item(), _DIGITS),
        "standardized": _list(F.layer_norm(given, given.shape, eps=norm.eps)),
        "gain": _list(norm.weight),
        "bias": _list(norm.bias),
        "normalized": _list(seen[norm][1][0, token]),
    }


def _output(translator: Translator, hidden: Tensor, written: int) -> JSON:
    """Computes the logits and probabilities from a hidden state of shape (D).

    Returns:
        An object with these keys:

        * `piece`, `logit` and `log_probability`: the target token's piece, logit and
          log-probability.
        * `likeliest`: a list of the ten most likely tokens among those that are allowed at this
          step, each with its `piece`, its `logit` and its `probability`.
        * `log_sum`: the logarithm of the sum of exp(logit) over the vocabulary.
        * `smoothing`: the value of epsilon with which label smoothing is applied in training.
        * `vocabulary`: the number of tokens in the vocabulary.
        * `target`: (1 - smoothing) + smoothing / vocabulary, which is the probability of the target
          token in the label-smoothed target distribution.
    """
    logits = translator.transformer.logits(hidden).float()
    logs = logits.log_softmax(-1)
    listed = logs.clone()
    listed[[*NEVER_GENERATED, *translator.search.untrained]] = -torch.inf
    values, tokens = listed.topk(_LISTED)
    pieces = translator.tokenizer.pieces([written, *tokens.tolist()])
    epsilon, size = translator.config.training.label_smoothing, len(logits)
    return {
        "piece": pieces[0],
        "logit": round(logits[written].item(), _DIGITS),
        "log_probability": round(logs[written].item(), _DIGITS),
        "likeliest": [
            {"piece": piece, "logit": round(logit, _DIGITS), "probability": round(p, _DIGITS)}
            for piece, logit, p in zip(
                pieces[1:], logits[tokens].tolist(), values.exp().tolist(), strict=True
            )
        ],
        "log_sum": round(logits.logsumexp(-1).item(), _DIGITS),
        "smoothing": epsilon,
        "vocabulary": size,
        "target": (1 - epsilon) + epsilon / size,
    }


def _list(tensor: Tensor) -> list[Any]:
    """Rounds the values of a tensor and returns them as nested lists."""
    return np.round(tensor.double().cpu().numpy(), _DIGITS).tolist()
