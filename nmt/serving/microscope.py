"""Computes what the page's microscope shows: tokens, attention weights and search steps."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.data.tokenizer import Tokenizer, with_eos
from nmt.decoding.batched_search import SearchInput
from nmt.decoding.beam_search import NEVER_GENERATED
from nmt.decoding.beam_search import length_penalty as penalty
from nmt.decoding.options import SearchOptions
from nmt.errors import ArgumentError
from nmt.evaluation.attention_maps import attention_of, number_of_weights
from nmt.model.special_ids import EOS_ID
from nmt.translator import Translator

_MAX_WEIGHTS = 1_500_000  # 10 MB of JSON, or 100 tokens per side with the paper's base model
_DIGITS = 3  # decimal places of weights, which the page rounds to 0.1%
_LIKELIEST = 5  # number of likely tokens listed per target position

JSON = dict[str, Any]
AttentionKind = Literal["encoder", "decoder", "cross"]


def inspect(
    translator: Translator, text: str, target: str | None = None, kind: AttentionKind | None = None
) -> JSON:
    """Returns the tokens of a sentence and of its translation, with the attention weights.

    Args:
        text: one sentence.
        target: the translation of `text`, which is tokenized like training text, or None to use
            the model's own translation.
        kind: the kind of attention to return, or None for all three kinds.

    Returns:
        An object with these keys:

        * `source` and `target`: objects with the normalized text and its tokens, including EOS.
          Each token has its id, its piece, its UTF-8 bytes, and the characters that it adds to the
          text. If several tokens spell one character, the last of them adds this character. Each
          target token also has its log-probability and the most likely tokens at its position.
        * `read`: the decoder's input pieces, which are the keys of the decoder's self-attention.
        * `attention`: an object that contains the attention weights of each kind, indexed as
          [layer][head][query][key]. The weights are rounded to 3 decimal places. See
          `nmt.evaluation.attention_maps.AttentionMaps`.

    Raises:
        ArgumentError: `text` is empty, or `text` or `target` is too long.
        NoModelError: the model's weights are not finite.
    """
    source_side = _side(translator, "text", text)
    if target is None:
        target = translator.translate(text).text
    target_side = _side(translator, "target", target)
    src, tgt = ([each["id"] for each in side["tokens"]] for side in (source_side, target_side))
    if number_of_weights(translator.config.model, len(src), len(tgt)) > _MAX_WEIGHTS:
        raise ArgumentError(
            "{text} is too long for its attention to be shown ({} source and {} target tokens). "
            "Shorten it.",
            len(src), len(tgt),
        )  # fmt: skip
    maps = attention_of(translator, text, target)
    for token, more in zip(target_side["tokens"], _likelihoods(translator, src, tgt), strict=True):
        token |= more
    kinds: Sequence[str] = get_args(AttentionKind) if kind is None else [kind]
    return {
        "source": source_side,
        "target": target_side,
        "read": maps.read_pieces,
        "attention": {
            name: np.round(getattr(maps, name).astype(float), _DIGITS).tolist() for name in kinds
        },
    }


def sentence_ids(translator: Translator, name: str, text: str) -> list[int]:
    """Returns the token ids of a text, without EOS.

    Args:
        name: the name of the argument that contains `text`: "text" for a source sentence, and
            "target" or "prefix" for a translation.

    Raises:
        ArgumentError: `text` is too long, or `text` is a source sentence without tokens.
    """
    tokenizer = translator.tokenizer
    ids = tokenizer.encode(text) if name == "text" else tokenizer.encode_targets([text])[0]
    if name == "text" and not ids:
        raise ArgumentError("{text} is empty. Provide a sentence.")
    if len(ids) > translator.max_part:
        most = translator.max_part
        raise ArgumentError(f"{{{name}}} has more than {{}} tokens. Shorten it.", most)
    return ids


def _side(translator: Translator, name: str, text: str) -> JSON:
    tokenizer = translator.tokenizer
    ids = with_eos(sentence_ids(translator, name, text)).tolist()
    text = tokenizer.normalize(text)
    spelling = tokenizer.spelling(ids)
    shares = _shares(tokenizer, ids, spelling, text)
    each = zip(ids, tokenizer.pieces(ids), spelling, shares, strict=True)
    tokens = [
        {"id": token, "piece": piece, "bytes": [*spelt], "text": share}
        for token, piece, spelt, share in each
    ]
    return {"text": text, "tokens": tokens}


@torch.inference_mode()
def _likelihoods(translator: Translator, src: list[int], tgt: list[int]) -> list[JSON]:
    """Returns each target token's log-probability and the most likely tokens at its position."""
    batch = one_per_row([Pair(np.array(src), np.array(tgt))], translator.device)
    model = translator.transformer
    logs = model.logits(model(batch.src, batch.tgt_in))[0].float().log_softmax(-1)  # (T, V)
    given = logs.gather(-1, batch.tgt_out[0, :, None])[:, 0].tolist()
    logs[:, [*NEVER_GENERATED, *translator.search.untrained]] = -torch.inf
    values, tokens = logs.topk(_LIKELIEST)  # (T, 5)
    return [
        {
            "log_probability": value,
            "likeliest": [
                {"piece": piece, "probability": p}
                for piece, p in zip(translator.tokenizer.pieces(some), row, strict=True)
            ],
        }
        for value, some, row in zip(given, tokens.tolist(), values.exp().tolist(), strict=True)
    ]


def _shares(
    tokenizer: Tokenizer, ids: Sequence[int], spelling: Sequence[bytes], text: str
) -> list[str]:
    """Returns the characters that each token adds to the text."""
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    ends = [0]
    for n, spelt in enumerate(spelling[:-1], 1):
        decoder.decode(spelt)
        is_inside, _ = decoder.getstate()  # bytes of an incomplete character
        ends.append(ends[-1] if is_inside else _shared(tokenizer.decode(ids[:n]), text))
    ends = [*np.maximum.accumulate(ends).tolist(), len(text)]
    return [text[begin:end] for begin, end in pairwise(ends)]


def _shared(begun: str, text: str) -> int:
    """Returns the length of the common prefix of two texts."""
    if text.startswith(begun):
        return len(begun)
    return next(at for at, one in enumerate(begun) if text[at : at + 1] != one)


def search_tree(
    translator: Translator,
    text: str,
    *,
    beam: int | None = None,
    length_penalty: float | None = None,
    prefix: str = "",
) -> JSON:
    """Returns all hypotheses that beam search compares when it translates a sentence.

    The search continues until no live hypothesis can become one of the `beam` best finished
    hypotheses. The best hypothesis is the translation that `Translator` returns.

    Args:
        text: one sentence of at most `translator.max_part` tokens.
        beam, length_penalty: options of beam search, or None for the values in the model's
            configuration.
        prefix: text with which the translation must begin.

    Returns:
        An object with these keys:

        * `beam` and `length_penalty`: the options with which the search was run.
        * `steps`: a list with one list per search step. The list of a step contains the step's
          candidates, most likely first. Each candidate is an object with its `piece`, its
          `log_probability`, its `parent` and its `state`. The `parent` is the index of a candidate
          of the previous step, or None in the first step. The `state` is "live" if the candidate
          was continued, "pruned" if it was discarded, or "finished" if it ended with EOS.
        * `finished`: a list of the finished hypotheses, best first. Each hypothesis is an object
          with the `step` and the `index` of its EOS, its `length` in tokens, its `log_probability`,
          its `score` and its `text`.
        * `best`: an object with the `text`, the `score` and the `log_probability` of the
          translation. The object also has the key `finished`, whose value is false if the
          translation was truncated at the maximum length.

    Raises:
        ArgumentError: `text` is empty or too long, or another argument is invalid.
        NoModelError: the model's scores are not finite.
    """
    tokens = sentence_ids(translator, "text", text)
    forced = sentence_ids(translator, "prefix", prefix)
    options = SearchOptions(beam=beam, length_penalty=length_penalty)
    width = translator.beam(options)
    alpha = translator.config.decoding.length_penalty if length_penalty is None else length_penalty
    tree = _Tree(translator.tokenizer, width, alpha)
    options = SearchOptions(beam=width, length_penalty=alpha, n_best=width)
    [[best, *_]] = translator.search.find([SearchInput(tokens, forced)], options, on_step=tree.add)
    return {
        "beam": width,
        "length_penalty": alpha,
        "steps": tree.steps,
        "finished": sorted(tree.finished, key=lambda each: -each["score"]),
        "best": {
            "text": tree.text(best.tokens),
            "score": best.score,
            "log_probability": best.log_probability,
            "finished": best.finished,
        },
    }


class _Tree:
    """Records the candidates of every step of the beam search for one sentence."""

    def __init__(self, tokenizer: Tokenizer, beam: int, alpha: float):
        self.tokenizer, self.beam, self.alpha = tokenizer, beam, alpha
        self.steps: list[list[JSON]] = []
        self.finished: list[JSON] = []
        # for each hypothesis in the beam: its index in the previous step, and its tokens
        self.live: list[tuple[int | None, list[int]]] = [(None, [])] * beam

    def add(
        self, values: NDArray[np.float32], parents: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> None:
        """Adds the candidates of a search step and determines the state of each candidate.

        The arrays have the shape (1, 2 W), where W is the beam size.
        """
        step: list[JSON] = []
        live: list[tuple[int | None, list[int]]] = []
        each = zip(values[0].tolist(), parents[0].tolist(), tokens[0].tolist(), strict=True)
        for place, (value, parent, token) in enumerate(each):
            index, before = self.live[parent]
            there = value > -np.inf  # the first step and steps in a prefix have fewer candidates
            if there and token == EOS_ID and (self.beam > 1 or place == 0):
                state = "finished"
                self._finish([*before, token], value, len(step))
            elif len(live) < self.beam:
                state = "live"
                live.append((len(step), [*before, token]))
            else:
                state = "pruned"
            if there:
                [piece] = self.tokenizer.pieces([token])
                step.append(
                    {"parent": index, "piece": piece, "log_probability": value, "state": state}
                )
        self.live = live
        self.steps.append(step)

    def _finish(self, tokens: list[int], log_probability: float, index: int) -> None:
        self.finished.append(
            {
                "step": len(self.steps),
                "index": index,
                "length": len(tokens),
                "log_probability": log_probability,
                "score": log_probability / penalty(len(tokens), self.alpha),
                "text": self.text(tokens),
            }
        )

    def text(self, tokens: list[int]) -> str:
        """Returns the text of a hypothesis."""
        return self.tokenizer.normalize(self.tokenizer.decode(tokens))
