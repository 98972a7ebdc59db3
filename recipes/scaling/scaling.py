"""Measures how time and memory grow with the size of training, translation and preparation.

    python recipes/scaling/scaling.py figures/scaling

The script measures one curve for each quantity that can grow, for example the sentence length. It
writes the results to scaling.json and a page with plots to scaling.html, in the given directory.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from nmt.benchmark import machine, workload
from nmt.benchmark.flops import flops_per_token_pair
from nmt.benchmark.gate import Gate
from nmt.benchmark.training import drawn_shard, timed_training
from nmt.benchmark.translating import benchmark_translation
from nmt.cli.terminal import run_script, say
from nmt.config import Config, Model, load
from nmt.data.prepare import prepare
from nmt.data.workers import default_processes, run_apart
from nmt.reporting.chart import HEIGHT, WIDTH, marks, path, value_axis
from nmt.storage import atomic
from nmt.system import peak_process_memory
from nmt.training.distributed import process_group
from nmt.translator import SearchOptions

CONFIG = Path(__file__).parents[2] / "configs" / "demo.yaml"
MODEL = [
    "tokenizer.vocabulary_size=8000", "model.encoder_layers=3", "model.decoder_layers=3",
    "model.d_model=256", "model.d_ff=1024", "model.heads=4", "model.d_k=64", "model.d_v=64",
    "model.dropout=0.1", "training.precision=fp32", "training.batch_tokens=4096",
]  # fmt: skip
SMALL_MODEL = [
    "tokenizer.vocabulary_size=300", "model.encoder_layers=1", "model.decoder_layers=1",
    "model.d_model=16", "model.d_ff=16", "model.heads=2", "model.d_k=8", "model.d_v=8",
    "training.precision=fp32", "training.batch_tokens=256",
]  # fmt: skip
SENTENCES, SMALL_SENTENCES = 60, 3  # sentences to translate for each beam size
MANY_PAIRS, FEW_PAIRS = 32_000, 300  # pairs that several processes prepare


@dataclass(frozen=True)
class Curve:
    """A quantity that can grow, its values, and the function that measures each value."""

    name: str
    label: str  # label of the size axis
    unit: str  # unit of the time axis
    sizes: Sequence[int]
    measure: Callable[..., dict[str, float]]  # size, configuration, folder, the gate's best rate
    settings: tuple[str, ...] = ()  # settings that depend on the value, which replaces "{}"
    is_apart: bool = True  # whether to use a process per value, to measure peak memory


def main(argv: Sequence[str] | None = None) -> None:
    """Measures all curves and writes them to the directory named in `argv`."""
    parser = argparse.ArgumentParser(description="Measures how time and memory grow.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true",
                        help="test the script with tiny sizes, in half a minute; uses one process, "
                             "so peak memory includes earlier measurements")  # fmt: skip
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="settings of the model")
    arguments = parser.parse_intermixed_args(argv)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    is_small = arguments.small
    words = [*(SMALL_MODEL if is_small else MODEL), *arguments.overrides]
    config = load(CONFIG, words, origin="command line")
    found: dict[str, Any] = {"quadratic_length": {}, "curves": {}, "best_probe": 0.0}
    for curve in curves(is_small):
        points = []
        for size in curve.sizes:
            changes = [each.format(size) for each in curve.settings]
            changed = load(CONFIG, [*words, *changes], origin="command line")
            points.append({"size": size} | _point(curve, size, changed, found, is_small))
            say(
                f"{curve.name} {size}: {points[-1]['seconds'] / scale(curve.unit):.3g} {curve.unit}"
            )
        found["curves"][curve.name] = {"label": curve.label, "unit": curve.unit, "points": points}
    found["quadratic_length"] = {
        "by_formula": quadratic_length(config.model, config.tokenizer.vocabulary_size),
        "measured": measured_quadratic_length(found["curves"]["length"]["points"]),
    }
    with process_group(60) as ranks:
        found |= {"device": ranks.device_name, "settings": words}
    atomic.write_file(arguments.folder / "scaling.json", json.dumps(found, indent=1) + "\n")
    atomic.write_file(arguments.folder / "scaling.html", page(found))
    print(arguments.folder / "scaling.html")


def curves(is_small: bool) -> list[Curve]:
    """Returns all curves; in a small run, each curve has two sizes."""
    cores = default_processes()
    token, sentence, whole = "ms per target token", "ms per sentence", "s"
    everything = [
        Curve("length", "tokens per sentence", token, [2**n for n in range(4, 12)], by_length,
              ("data.max_length={}",)),
        Curve("batch", "tokens per step and side", token, [2**n for n in range(8, 15)], by_setting,
              ("training.batch_tokens={}",)),
        Curve("vocabulary", "pieces", token, [2**n * 1000 for n in range(7)], by_setting,
              ("tokenizer.vocabulary_size={}",)),
        Curve("layers", "layers of each stack", token, [1, 2, 3, 4, 6, 8], by_setting,
              ("model.encoder_layers={}", "model.decoder_layers={}")),
        Curve("beam", "hypotheses per sentence", sentence, [1, 2, 4, 8, 16], by_beam),
        Curve("corpus", "sentence pairs", whole, [2000 * 2**n for n in range(6)], by_corpus),
        Curve("processes", "processes that prepare", whole, [*range(1, cores + 1)], by_processes,
              is_apart=False),
    ]  # fmt: skip
    small = {"length": [16, 64], "batch": [128, 256], "vocabulary": [300, 600], "layers": [1, 2],
             "beam": [1, 2], "corpus": [200, 400], "processes": [1]}  # fmt: skip
    return (
        [replace(each, sizes=small[each.name]) for each in everything] if is_small else everything
    )


def _point(
    curve: Curve, size: int, config: Config, found: dict[str, Any], is_small: bool
) -> dict[str, float]:
    """Measures the time and the peak memory for one size, and updates the gate's best rate."""
    with tempfile.TemporaryDirectory() as name:
        call = (curve, size, config, Path(name), found["best_probe"], is_small)
        if curve.is_apart and not is_small:
            run_apart(measure_into, *call)
        else:
            measure_into(*call)
        point = json.loads((Path(name) / "point.json").read_text())
    found["best_probe"] = max(found["best_probe"], point.pop("best_probe", 0.0))
    return point


def measure_into(
    curve: Curve, size: int, config: Config, folder: Path, best: float, is_small: bool
) -> None:
    """Measures one point of a curve, and writes it to `folder`."""
    point = curve.measure(size, config, folder, best, is_small)
    (folder / "point.json").write_text(json.dumps(point))


def by_length(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Measures training on pairs of the given length, with a fixed number of tokens per step."""
    tokens = config.training.batch_tokens
    lengths = np.full((2, max(1, 10 * tokens // size)), size)
    return trained(config, best, lengths)


def by_setting(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Measures training on random sentences with the configuration of a size."""
    return trained(config, best)


def trained(config: Config, best: float, lengths: np.ndarray | None = None) -> dict[str, float]:
    """Returns the training time per target token in seconds, and the peak memory."""
    shard = (
        drawn_shard(config)
        if lengths is None
        else workload.shard(lengths, config.tokenizer.vocabulary_size)
    )
    with process_group(60) as ranks:
        gate = Gate(machine.probe(ranks.device), best=best)
        speed = timed_training(config, [shard], ranks, gate, lambda text: None)
    return {
        "seconds": 1 / speed.target_tokens_per_second,
        "bytes": speed.peak_memory_bytes,
        "best_probe": gate.best,
    }


def by_beam(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Measures the translation of random sentences with the given beam size."""
    found = benchmark_translation(
        config,
        options=SearchOptions(beam=size),
        sentences=SMALL_SENTENCES if is_small else SENTENCES,
        note=lambda text: None,
    )
    return {"seconds": 1 / found["sentences_per_second"], "bytes": found["peak_memory_bytes"]}


def by_corpus(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Measures preparation of the given number of pairs in one process."""
    return prepared(size, 1, folder)


def by_processes(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Measures preparation of the same pairs with the given number of processes."""
    return prepared(FEW_PAIRS if is_small else MANY_PAIRS, size, folder)


def prepared(pairs: int, processes: int, folder: Path) -> dict[str, float]:
    """Returns the time of preparing demo pairs in seconds, and the memory of this process."""
    config = load(
        CONFIG,
        [f"data.train=[{{demo: {{pairs: {pairs}}}}}]", f"data.directory={folder / 'data'}",
         f"tokenizer.vocabulary_size={3000 if pairs > 1000 else 380}"],
    )  # fmt: skip
    began = time.perf_counter()
    prepare(config, note=lambda text: None, processes=processes)
    return {"seconds": time.perf_counter() - began, "bytes": peak_process_memory()}


def quadratic_length(model: Model, vocabulary_size: int) -> float:
    """Returns the sentence length at which attention takes as many FLOPs as the linear layers."""
    one, two = (flops_per_token_pair(model, vocabulary_size, length) for length in (1, 2))
    attention = two - one  # per token and per token of length
    return (one - attention) / attention


def measured_quadratic_length(points: Sequence[dict[str, float]]) -> float | None:
    """Returns the sentence length at which half of the time per token depends on the length.

    Fits a + b * length to the time per token with equal relative weights. Returns None if the time
    per token does not grow.
    """
    lengths = np.array([point["size"] for point in points], dtype=float)
    seconds = np.array([point["seconds"] for point in points])
    terms = np.stack([np.ones_like(lengths), lengths], axis=1) / seconds[:, None]
    (fixed, growth), *_ = np.linalg.lstsq(terms, np.ones_like(lengths), rcond=None)
    return float(fixed / growth) if growth > 0 and fixed > 0 else None


def page(found: dict[str, Any]) -> str:
    """Returns an HTML page with all curves."""
    lengths = found["quadratic_length"]
    measured = f"{lengths['measured']:,.0f}" if lengths["measured"] else "not reached"
    parts = [
        "<!DOCTYPE html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<title>Cost against size</title><style>"
        "body{font:16px sans-serif;max-width:1200px;margin:2em auto;padding:0 1em}"
        "main{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:2em}"
        "h2{font-size:1.1em;margin:0}svg{width:100%;height:auto}</style>",
        f"<h1>Cost against size</h1><p>{escape(found['device'])}; "
        f"<code>{escape(' '.join(found['settings']))}</code></p>",
        f"<p>Sentence length at which the matrix multiplications of attention need as many FLOPs "
        f"as all others: {lengths['by_formula']:,.0f} tokens (calculated). Sentence length at "
        f"which half of the time per token depends on the length: {measured} (measured).</p><main>",
    ]
    for name, curve in found["curves"].items():
        sizes = [point["size"] for point in curve["points"]]
        for key, unit in (("seconds", curve["unit"]), ("bytes", "GiB at most")):
            if key == "bytes" and name == "processes":
                continue  # only the memory of one process is measured
            values = [point[key] / scale(unit) for point in curve["points"]]
            heading = f"<h2>{escape(unit)}, by {escape(curve['label'])}</h2>"
            parts.append(f"<figure>{heading}{chart(sizes, values)}</figure>")
    return "\n".join([*parts, "</main></html>\n"])


def scale(unit: str) -> float:
    """Returns the number of seconds or bytes in a unit, which is the first word of `unit`."""
    return {"ms": 1e-3, "s": 1.0, "GiB": 2**30}[unit.split()[0]]


def chart(sizes: Sequence[float], values: Sequence[float]) -> str:
    """Returns a plot of a curve as SVG; an axis is logarithmic if its values differ enough."""
    across = value_axis(sizes, from_zero=False, is_log=True)
    up = value_axis(values, from_zero=True, is_log=True)
    places = [(across.place(x), up.place(y)) for x, y in zip(sizes, values, strict=True)]
    labels = [
        f"<text x='{round(at * WIDTH)}' y='{HEIGHT + 80}' text-anchor='middle'>{label}</text>"
        for label, at in across.labels
    ]
    labels += [
        f"<text x='-30' y='{round((1 - at) * HEIGHT) + 20}' text-anchor='end'>{label}</text>"
        f"<path d='M0 {round((1 - at) * HEIGHT)}H{WIDTH}' stroke='#ddd' stroke-width='3'/>"
        for label, at in up.labels
    ]
    return (
        f"<svg viewBox='-400 -60 {WIDTH + 520} {HEIGHT + 180}' font-size='60' fill='currentColor'>"
        + "".join(labels)
        + f"<g fill='none' stroke='#c2410c' stroke-linecap='round'>"
        f"<path stroke-width='8' d='{path(places)}'/>"
        f"<path stroke-width='34' d='{marks(places)}'/></g></svg>"
    )


if __name__ == "__main__":
    run_script("scaling", main)
