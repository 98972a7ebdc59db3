"""How time and memory grow with the size of what is trained, translated and prepared.

    python recipes/scaling/scaling.py figures/scaling

measures one curve for each size and writes scaling.json and a page of pictures, scaling.html.
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
from nmt.benchmark.flops import quadratic_length
from nmt.benchmark.gate import Gate
from nmt.benchmark.training import drawn_shard, timed_training
from nmt.benchmark.translating import benchmark_translation
from nmt.cli.terminal import run_script, say
from nmt.config import Config, load
from nmt.data.prepare import prepare
from nmt.data.workers import default_processes, run_apart
from nmt.reporting.chart import HEIGHT, WIDTH, marks, path, value_axis
from nmt.storage import atomic
from nmt.training.distributed import Ranks, process_group
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
SENTENCES, SMALL_SENTENCES = 60, 3  # translated for each beam
MANY_PAIRS, FEW_PAIRS = 32_000, 300  # prepared by several processes


@dataclass(frozen=True)
class Curve:
    """A size, and what is measured for each of its values."""

    name: str
    label: str  # of the size
    unit: str  # of the time
    sizes: Sequence[int]
    measure: Callable[..., dict[str, float]]  # size, configuration, folder, the gate's best so far
    is_apart: bool = True  # measured in a process of its own, so that peak memory is its own


def main(argv: Sequence[str] | None = None) -> None:
    """Measures all curves into the folder named in `argv`."""
    parser = argparse.ArgumentParser(description="Measures how time and memory grow with sizes.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true",
                        help="in half a minute, to see that it works; in one process, so that "
                             "memory is that of all sizes so far")  # fmt: skip
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="of the model measured")
    arguments = parser.parse_intermixed_args(argv)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    is_small = arguments.small
    words = [*(SMALL_MODEL if is_small else MODEL), *arguments.overrides]
    config = load(CONFIG, words, origin="command line")
    found: dict[str, Any] = {"quadratic_length": {}, "curves": {}, "best_probe": 0.0}
    for curve in curves(is_small):
        points = []
        for size in curve.sizes:
            points.append({"size": size} | _point(curve, size, config, found, is_small))
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
    """All curves; the small ones have two sizes each."""
    cores = default_processes()
    token, sentence, whole = "ms a target token", "ms a sentence", "s"
    everything = [
        Curve("length", "tokens a sentence", token, [2**n for n in range(4, 12)], by_length),
        Curve("batch", "tokens a step, each side", token, [2**n for n in range(8, 15)], by_batch),
        Curve("vocabulary", "pieces", token, [2**n * 1000 for n in range(7)], by_vocabulary),
        Curve("layers", "layers of each stack", token, [1, 2, 3, 4, 6, 8], by_layers),
        Curve("beam", "hypotheses a sentence", sentence, [1, 2, 4, 8, 16], by_beam),
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
    """Seconds and bytes of one size; the gate knows how fast the machine was before."""
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
    """Measures a point and writes it into `folder`."""
    point = curve.measure(size, config, folder, best, is_small)
    (folder / "point.json").write_text(json.dumps(point))


def changed(config: Config, **sections: dict[str, Any]) -> Config:
    """A configuration with other values, by section and key."""
    parts = {name: getattr(config, name).model_copy(update=new) for name, new in sections.items()}
    return config.model_copy(update=parts)


def by_length(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Training on pairs of one length, as many tokens a step for each length."""
    tokens = config.training.batch_tokens
    lengths = np.full((2, max(1, 10 * tokens // size)), size)
    config = changed(config, data={"max_length": size})
    return trained(config, best, lengths)


def by_batch(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Training with drawn sentences and larger steps."""
    return trained(changed(config, training={"batch_tokens": size}), best)


def by_vocabulary(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Training with drawn sentences of more pieces."""
    return trained(changed(config, tokenizer={"vocabulary_size": size}), best)


def by_layers(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Training with deeper stacks."""
    model = {"encoder_layers": size, "decoder_layers": size}
    return trained(changed(config, model=model), best)


def trained(config: Config, best: float, lengths: np.ndarray | None = None) -> dict[str, float]:
    """Seconds of training for each target token, and peak memory."""
    shard = (
        drawn_shard(config)
        if lengths is None
        else workload.shard(lengths, config.tokenizer.vocabulary_size)
    )
    with process_group(60) as ranks:
        gate = _gate(ranks, best)
        speed = timed_training(config, [shard], ranks, gate, lambda text: None)
    return {
        "seconds": 1 / speed.target_tokens_per_second,
        "bytes": speed.peak_memory_bytes,
        "best_probe": gate.best,
    }


def _gate(ranks: Ranks, best: float) -> Gate:
    gate = Gate(machine.probe(ranks.device))
    gate.best = max(gate.best, best)
    return gate


def by_beam(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Translating drawn sentences with more hypotheses."""
    found = benchmark_translation(
        config,
        options=SearchOptions(beam=size),
        sentences=SMALL_SENTENCES if is_small else SENTENCES,
        note=lambda text: None,
    )
    return {"seconds": 1 / found["sentences_per_second"], "bytes": found["peak_memory_bytes"]}


def by_corpus(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Preparing more pairs, in one process."""
    return prepared(size, 1, folder)


def by_processes(size: int, config: Config, folder: Path, best: float, is_small: bool):
    """Preparing the same pairs by more processes."""
    return prepared(FEW_PAIRS if is_small else MANY_PAIRS, size, folder)


def prepared(pairs: int, processes: int, folder: Path) -> dict[str, float]:
    """Seconds of preparing pairs of the demo's language, and the memory of this process."""
    config = load(
        CONFIG,
        [f"data.train=[{{demo: {{pairs: {pairs}}}}}]", f"data.directory={folder / 'data'}",
         f"tokenizer.vocabulary_size={3000 if pairs > 1000 else 380}"],
    )  # fmt: skip
    began = time.perf_counter()
    prepare(config, note=lambda text: None, processes=processes)
    with process_group(60) as ranks:
        memory = machine.peak_memory(ranks.device)
    return {"seconds": time.perf_counter() - began, "bytes": memory}


def measured_quadratic_length(points: Sequence[dict[str, float]]) -> float | None:
    """Tokens at which the part of a token's time that grows with length is as great as the rest.

    The time is fitted as a + b * length, each point with the same relative weight; None if it does
    not grow.
    """
    lengths = np.array([point["size"] for point in points], dtype=float)
    seconds = np.array([point["seconds"] for point in points])
    terms = np.stack([np.ones_like(lengths), lengths], axis=1) / seconds[:, None]
    (fixed, growth), *_ = np.linalg.lstsq(terms, np.ones_like(lengths), rcond=None)
    return float(fixed / growth) if growth > 0 and fixed > 0 else None


def page(found: dict[str, Any]) -> str:
    """All curves as one HTML page."""
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
        f"<p>Attention's products cost as much as all others at {lengths['by_formula']:,.0f} "
        f"tokens a sentence by formula; the part of the time that grows with length is as great "
        f"as the rest at {measured}.</p><main>",
    ]
    for name, curve in found["curves"].items():
        sizes = [point["size"] for point in curve["points"]]
        for key, unit in (("seconds", curve["unit"]), ("bytes", "GiB at most")):
            if key == "bytes" and name == "processes":
                continue  # that of one of them
            values = [point[key] / scale(unit) for point in curve["points"]]
            heading = f"<h2>{escape(unit)}, by {escape(curve['label'])}</h2>"
            parts.append(f"<figure>{heading}{chart(sizes, values)}</figure>")
    return "\n".join([*parts, "</main></html>\n"])


def scale(unit: str) -> float:
    """Seconds or bytes in a unit, by its first word."""
    return {"ms": 1e-3, "s": 1.0, "GiB": 2**30}[unit.split()[0]]


def chart(sizes: Sequence[float], values: Sequence[float]) -> str:
    """A curve with both axes logarithmic where its values are far enough apart."""
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
