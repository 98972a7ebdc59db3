"""Plots pictures that illustrate the paper, and prints the numbers in the pictures.

    python recipes/paper_figures/paper_figures.py figures --model runs/demo
    python recipes/paper_figures/paper_figures.py figures --only scaling

docs/understanding.md explains the pictures. Without `--model`, the pictures that need a trained
model are omitted.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for use as a script

from nmt.cli.terminal import run_script
from nmt.cpu_memory import keep_freed_memory
from nmt.demo_language import DemoPair, aligned
from nmt.errors import InputError
from nmt.translator import Translator
from recipes.demo.show import test_pairs
from recipes.paper_figures import alignment, embeddings, formulas, layers, order, positions
from recipes.paper_figures.drawing import figure

Draw = Callable[..., Iterable[str]]  # plots on the given axes, and returns lines to print

PAIRS = 300  # maximum number of test pairs to use


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the pictures to the directory named in `argv`, and prints their numbers."""
    given = arguments(argv)
    folder, model = given.folder, given.model
    keep_freed_memory()
    pictures = {each[0]: each for each in [*of_formulas(), *(of_model(model) if model else ())]}
    for name in given.only:
        if name not in pictures:
            raise InputError(
                f"Unknown picture {name} (--only). Choose one of: {', '.join(pictures)}."
                f"{'' if model else ' Other pictures need --model.'}"
            )
    for name, panels, draw in map(pictures.__getitem__, given.only or pictures):
        path = folder / f"{name}.png"
        with figure(path, panels) as axes:
            lines = list(draw(*axes))
        print(path, *(f"    {line}" for line in lines), sep="\n", flush=True)
    if not model and not given.only:
        print("beyond, embeddings, alignment and example need a trained model. Run make demo, then "
              "add --model runs/demo.")  # fmt: skip


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Plots pictures that illustrate the paper.")
    parser.add_argument("folder", type=Path, nargs="?", default="figures", help="default: figures")
    parser.add_argument("--model", type=Path, help="demo run, such as runs/demo")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="names of the pictures to plot (default: all)")  # fmt: skip
    return parser.parse_args(argv)


def of_formulas() -> list[tuple[str, int, Draw]]:
    """Returns name, number of panels and plotting function of each picture that needs no model."""
    return [
        ("order", 2, order.draw_order),
        ("masks", 3, order.draw_masks),
        ("positions", 1, positions.draw_positions),
        ("rotation", 2, positions.draw_rotation),
        ("scaling", 2, formulas.draw_scaling),
        ("learning_rate", 1, formulas.draw_learning_rate),
        ("table1", 2, layers.draw_table1),
    ]


def of_model(path: Path) -> list[tuple[str, int, Draw]]:
    """Returns name, number of panels and plotting function of each picture that needs a model.

    Raises:
        NoModelError: `path` contains no usable model.
        InputError: the model was not trained on the demo language.
    """
    translator = Translator.load(path, precision="fp32")
    pairs = test_pairs(translator, path)[:PAIRS]
    return [
        ("beyond", 2, partial(positions.draw_beyond, translator, pairs)),
        ("embeddings", 1, partial(embeddings.draw_embeddings, translator)),
        ("alignment", 2, partial(alignment.draw_error_rates, translator, pairs)),
        ("example", 1, partial(alignment.draw_example, translator, telling(pairs))),
    ]


def telling(pairs: Sequence[DemoPair]) -> DemoPair:
    """Returns the pair whose word orders differ most, measured by the number of crossing links."""

    def crossings(pair: DemoPair) -> int:
        links = aligned(pair.source, pair.target).sure
        return sum(s < other_s and t > other_t for s, t in links for other_s, other_t in links)

    return max(pairs, key=crossings)


if __name__ == "__main__":
    run_script("paper_figures", main)
