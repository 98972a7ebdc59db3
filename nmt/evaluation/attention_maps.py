"""Computes the attention weights for a sentence pair and writes them to PNG or HTML files.

Figures 3 to 5 of Vaswani et al. (2017) visualize encoder self-attention. The files also show
decoder self-attention and cross-attention.
"""

import base64
import html
import json
import os
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import torch

from nmt.config import Model
from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.data.tokenizer import with_eos
from nmt.decoding.beam_search import NOT_NUMBERS
from nmt.errors import ArgumentError, InputError, NoModelError, Note
from nmt.evaluation.attention_png import HeatMaps, figure_class, write_png
from nmt.evaluation.javascript import joined
from nmt.lines.files import check_output, opened_output
from nmt.model.special_ids import BOS_ID
from nmt.runs.model_directory import refuse_exported
from nmt.translator import Translator

# With the base model, 830 source tokens and 830 target tokens reach this limit. The weights then
# take 400 MB of memory, or 130 MB in an HTML page.
_MAX_WEIGHTS = 100_000_000


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights for one sentence pair. The weights of each query sum to 1.

    Row i of `cross` and row i of `decoder` contain the weights in the step that predicts
    `target_pieces[i]`. The columns of `cross` correspond to `source_pieces`, and the columns of
    `decoder` correspond to `read_pieces`.
    """

    source_pieces: list[str]  # (S), </s> last
    target_pieces: list[str]  # (T), </s> last unless the translation was cut at the maximum length
    read_pieces: list[str]  # (T), the keys of `decoder`: <s> and all target pieces but the last
    encoder: np.ndarray  # (layers, heads, S, S) float32
    decoder: np.ndarray  # (layers, heads, T, T) float32; 0 above the diagonal
    cross: np.ndarray  # (layers, heads, T, S) float32


def attention_of(
    model: Translator | str | Path, source: str, target: str | None = None
) -> AttentionMaps:
    """Computes the attention weights of a model for a sentence and its translation.

    Args:
        model: a translator, or the path of a model, checkpoint or run directory. If a path is
            given, the model is loaded in fp32.
        source: the source sentence as plain text.
        target: the translation as plain text, or None to translate `source` with the model.

    Raises:
        InputError: `source` is empty, `source` or `target` exceeds the maximum length, or there
            would be more than `_MAX_WEIGHTS` weights.
        NoModelError: there is no usable model, or the attention weights are NaN.
    """
    translator = (
        model if isinstance(model, Translator) else Translator.load(model, precision="fp32")
    )
    tokenizer, transformer = translator.tokenizer, translator.transformer
    src = with_eos(tokenizer.encode(source))
    if len(src) == 1:
        raise ArgumentError("{source} is empty. Provide a sentence.")
    _check_length("source", src, translator.config.data.max_length)
    if target is None:
        tgt = np.array(translator.translate(source).tokens)
    else:
        [ids] = tokenizer.encode_targets([target])
        tgt = with_eos(ids)
    _check_length("target", tgt, transformer.max_length)
    number = number_of_weights(translator.config.model, len(src), len(tgt))
    if number > _MAX_WEIGHTS:
        raise InputError(
            f"The sentences ({len(src):,} source tokens, {len(tgt):,} target tokens) require "
            f"{number:,} attention weights, more than the maximum of {_MAX_WEIGHTS:,}. Shorten the "
            "sentences."
        )
    batch = one_per_row([Pair(src, tgt)], translator.device)
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
    """Writes the attention weights for a sentence pair to a .png or .html file.

    Raises:
        ArgumentError: `output` cannot be written, its name does not end in .png or .html, or
            `source` or `target` is the name of a file.
        InputError, NoModelError: see `attention_of` and `write_png`.
    """
    check_output(output)
    if output.suffix not in (".png", ".html"):
        raise ArgumentError("{output} {} must end in .png or .html.", output)
    if output.suffix == ".png":
        figure_class()  # raises InputError early, before the model is loaded
    for name, text in (("source", source), ("target", target)):
        if text and os.path.isfile(text):  # noqa: PTH113 (Path.is_file raises if text is long)
            raise ArgumentError(
                f"{{{name}}} {{}} is the name of a file. Write the sentence itself.", text
            )
    refuse_exported(Path(model))
    translator = Translator.load(model, precision="fp32", note=note)
    maps = attention_of(translator, source, target)
    with opened_output(output) as file:
        if output.suffix == ".png":
            write_png(heat_maps(maps), file)
        else:
            text = translator.translate(source).text if target is None else target
            file.write(_page(maps, model, source, text).encode(errors="replace"))
    note(f"Wrote {output}.")


def _page(maps: AttentionMaps, model: Path, source: str, target: str) -> str:
    """Returns an HTML page that shows the weights, the model's name and both sentences."""
    parts = {
        "__TITLE__": html.escape(f"{source} – attention of {model}"),
        "__MODEL__": html.escape(str(model)),
        "__SOURCE__": html.escape(source),
        "__TARGET__": html.escape(target),
        "__ATTENTION__": html_fragment(maps),
    }
    return re.sub("|".join(parts), lambda name: parts[name[0]], _file("attention_page.html"))


def heat_maps(maps: AttentionMaps) -> list[HeatMaps]:
    """Returns heat maps for encoder self-attention, decoder self-attention and cross-attention."""
    source, target = maps.source_pieces, maps.target_pieces
    return [
        HeatMaps("encoder self-attention", maps.encoder, source, source),
        HeatMaps("decoder self-attention", maps.decoder, target, maps.read_pieces),
        HeatMaps("cross-attention", maps.cross, target, source),
    ]


def html_fragment(maps: AttentionMaps) -> str:
    """Returns an interactive view of the weights as an HTML fragment for the body of a page.

    The HTML fragment contains its own style and script and does not load other files. The page
    defines the colors (see `view/attention.css`). A page may contain several fragments. The
    weights are rounded to multiples of 1/255.
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
    data = data.replace("<", "\\u003c")  # prevents "</script>" in the data
    modules = {name: _file(f"view/{name}.js") for name in ("dom", "attention")}
    parts = {
        "__STYLE__": _file("view/attention.css"),
        "__SCRIPT__": joined(modules, "attention", set()),
        "__DATA__": data,  # last, because the data may contain the other placeholders
    }
    fragment = _file("attention.html")
    for name, content in parts.items():
        fragment = fragment.replace(name, content)
    return fragment


def _file(name: str) -> str:
    return resources.files("nmt.evaluation").joinpath(name).read_text("utf-8")


def number_of_weights(model: Model, source: int, target: int) -> int:
    """Returns the number of attention weights of all layers and heads for a sentence pair.

    Args:
        source, target: the lengths of the source and of the translation in tokens.
    """
    layers = model.encoder_layers * source**2 + model.decoder_layers * target * (source + target)
    return model.heads * layers


def _check_length(side: str, ids: np.ndarray, limit: int | None) -> None:
    if limit is not None and len(ids) > limit:
        raise ArgumentError(
            f"{{{side}}} has {len(ids)} tokens, but the maximum length is {limit}. Shorten it."
        )
