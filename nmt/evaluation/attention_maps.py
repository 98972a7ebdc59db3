"""The attention weights of one sentence pair, as arrays, a picture or a page.

Figures 3 to 5 of Vaswani et al. (2017) for any sentence, and for the decoder too.
"""

import base64
import html
import json
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import torch

from nmt.config import Model
from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.decoding.beam_search import NOT_NUMBERS
from nmt.errors import ArgumentError, InputError, NoModelError, Note
from nmt.evaluation.attention_png import HeatMaps, figure_class, write_png
from nmt.lines.translate import check_output, opened_output
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.translator import Translator

_MAX_WEIGHTS = 100_000_000  # 400 MB, and a page of 130 MB; the base model: 830 tokens a side
_MODULE_WORDS = re.compile(r"^(import .*\n|export )", re.MULTILINE)  # one script has all modules


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one sentence pair; every row of keys sums to 1.

    Rows of the target are named after the piece that is predicted there, not after the one read:
    row i of `cross` has the weights over the source with which `target_pieces[i]` is predicted,
    row i of `decoder` those over `read_pieces`.
    """

    source_pieces: list[str]  # S of them, </s> last
    target_pieces: list[str]  # T of them, </s> last unless the translation was cut at its limit
    read_pieces: list[str]  # the T keys of `decoder`: <s> and all target pieces but the last
    encoder: np.ndarray  # (layers, heads, S, S) float32
    decoder: np.ndarray  # (layers, heads, T, T) float32; 0 above the diagonal
    cross: np.ndarray  # (layers, heads, T, S) float32


def attention_of(
    model: Translator | str | Path, source: str, target: str | None = None
) -> AttentionMaps:
    """The attention weights of a model for a sentence and its translation.

    Args:
        model: a translator, or the path of a model, checkpoint or run, which is then read in fp32.
        source: one sentence as plain text.
        target: its translation; None: the one that the model finds.

    Raises:
        InputError: no text, more tokens than the model takes at once, or more weights than can be
            drawn.
        NoModelError: no sound model, or its weights are not numbers.
    """
    translator = (
        model if isinstance(model, Translator) else Translator.load(model, precision="fp32")
    )
    tokenizer, transformer = translator.tokenizer, translator.transformer
    if not tokenizer.normalize(source).strip():
        raise ArgumentError("an empty sentence, {source}, give one with words")
    src = [*tokenizer.encode(tokenizer.normalize(source)), EOS_ID]
    _check_length("source", src, translator.config.data.max_length)
    if target is None:
        tgt = translator.translate(source).tokens
    else:
        tgt = [*tokenizer.encode(tokenizer.normalize(target)), EOS_ID]
    _check_length("target", tgt, transformer.max_length)
    _check_room(translator.config.model, len(src), len(tgt))
    batch = one_per_row([Pair(np.array(src), np.array(tgt))]).to(translator.device)
    with torch.inference_mode():
        weights = transformer.attention_weights(batch.src, batch.tgt_in)
    kinds = [
        torch.cat(kind).float().cpu().numpy()
        for kind in (weights.encoder, weights.decoder, weights.cross)
    ]
    if any(np.isnan(kind).any() for kind in kinds):
        raise NoModelError(NOT_NUMBERS)
    return AttentionMaps(
        tokenizer.pieces(src),
        tokenizer.pieces(tgt),
        tokenizer.pieces([BOS_ID, *tgt[:-1]]),
        *kinds,
    )


def run_attention(model: Path, source: str, target: str | None, output: Path, note: Note) -> None:
    """Writes the attention weights of a sentence pair as a .png or .html file.

    Raises:
        ArgumentError: the file is of another kind, or cannot be written.
        InputError, NoModelError: see `attention_of` and `write_png`.
    """
    check_output(output)
    if output.suffix not in (".png", ".html"):
        raise ArgumentError("neither .png nor .html, {output} {}, name such a file", output)
    if output.suffix == ".png":
        figure_class()  # before the model is read
    translator = Translator.load(model, precision="fp32", note=note)
    maps = attention_of(translator, source, target)
    with opened_output(output) as file:
        if output.suffix == ".png":
            write_png(heat_maps(maps), file)
        else:
            text = translator.translate(source).text if target is None else target
            file.write(_page(maps, model, source, text).encode(errors="replace"))


def _page(maps: AttentionMaps, model: Path, source: str, target: str) -> str:
    """Returns the page of a sentence pair, which names the model and both sentences."""
    parts = {
        "__TITLE__": html.escape(f"{source} – attention of {model}"),
        "__MODEL__": html.escape(str(model)),
        "__SOURCE__": html.escape(source),
        "__TARGET__": html.escape(target),
        "__ATTENTION__": html_fragment(maps),
    }
    return re.sub("|".join(parts), lambda name: parts[name[0]], _file("attention_page.html"))


def heat_maps(maps: AttentionMaps) -> list[HeatMaps]:
    """Returns the three kinds of attention as they are drawn."""
    source, target = maps.source_pieces, maps.target_pieces
    return [
        HeatMaps("encoder: a source token looks at the source", maps.encoder, source, source),
        HeatMaps("decoder: a token being written looks at those before it", maps.decoder, target,
                 maps.read_pieces),
        HeatMaps("decoder: a token being written looks at the source", maps.cross, target, source),
    ]  # fmt: skip


def html_fragment(maps: AttentionMaps) -> str:
    """An interactive picture, as HTML that can be put anywhere into a page's body.

    It has its own style and script, takes its colours from the page (see `view/attention.css`) and
    loads nothing; a page may hold several. Weights are rounded to 1/255.
    """
    arrays = {"encoder": maps.encoder, "decoder": maps.decoder, "cross": maps.cross}
    weights = {
        name: base64.b64encode((array * 255).round().astype(np.uint8).tobytes()).decode()
        for name, array in arrays.items()
    }
    data = json.dumps(
        {
            "source": maps.source_pieces,
            "target": maps.target_pieces,
            "read": maps.read_pieces,
            "layers": {name: len(array) for name, array in arrays.items()},
            "heads": maps.encoder.shape[1],
            "weights": weights,
        }
    )
    data = data.replace("<", "\\u003c")  # no "</script>" from text
    parts = {
        "__STYLE__": _file("view/attention.css"),
        "__SCRIPT__": _MODULE_WORDS.sub("", _file("view/dom.js") + _file("view/attention.js")),
        "__DATA__": data,  # last, as text may have any of these names
    }
    fragment = _file("attention.html")
    for name, content in parts.items():
        fragment = fragment.replace(name, content)
    return fragment


def _file(name: str) -> str:
    return resources.files("nmt.evaluation").joinpath(name).read_text("utf-8")


def _check_room(model: Model, source: int, target: int) -> None:
    layers = model.encoder_layers * source**2 + model.decoder_layers * target * (source + target)
    if model.heads * layers > _MAX_WEIGHTS:
        raise InputError(
            f"{model.heads * layers:,} weights, {_MAX_WEIGHTS:,} can be drawn, sentences of "
            f"{source:,} and {target:,} tokens, shorten them"
        )


def _check_length(side: str, ids: list[int], limit: int | None) -> None:
    if limit is not None and len(ids) > limit:
        raise ArgumentError(
            f"{len(ids)} tokens, the model takes {limit}, {{{side}}}, shorten the sentence"
        )
