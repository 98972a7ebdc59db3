"""Collects the facts about a trained model that `nmt serve` shows and `nmt export` stores."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.errors import InputError, NoModelError
from nmt.storage.opening import small_file

JSON = dict[str, Any]

_MAX_BYTES = 200_000_000  # maximum size of a JSON file in the run


def about_model(folder: Path | None, config: Config) -> JSON:
    """Returns a description of a model as a JSON object that contains no file paths.

    Args:
        folder: the directory of the model or checkpoint, or None if there is no such directory.

    Returns:
        An object with these keys. A value is None or empty if the run does not contain it.

        * `name`: the name of the run directory, or the name of the model's directory if the model
          does not belong to a run.
        * `parameters`: the number of parameters of the model.
        * `trained_on`: a phrase that describes the training data.
        * `bleu`: an object with the BLEU `score` and its sacreBLEU `signature`. The value of its
          key `on` is "test set" or "validation set".
        * `opening`: a sentence from the model's test set, which `nmt serve` shows first.
        * `examples`: a list of example sentences (see `nmt.serving.examples`).
    """
    from nmt.reporting.info import info  # imports torch

    found: JSON = {
        "name": "This model",
        "parameters": info(config)["parameters"]["total"],
        "trained_on": "",
        "bleu": None,
        "opening": None,
        "examples": [],
    }
    return found | (_of_run(folder, config) if folder else {})


def _of_run(folder: Path, config: Config) -> JSON:
    """Returns facts from the files of the model's run. Ignores missing and damaged files."""
    from nmt.data import kept_test_set  # imports pyarrow
    from nmt.runs.model_directory import read_manifest
    from nmt.runs.run_directory import RunDirectory

    run = RunDirectory.around(folder.resolve())
    content = _tried(lambda: read_manifest(folder)) or {}
    if not run.is_run:
        return {"name": folder.resolve().name, "bleu": _validated(content)}
    data = _tried(lambda: run.identity().data_of(folder, content)) if content else None
    texts = _tried(lambda: kept_test_set.read(run.test_set, config.data, data))
    chosen = _kept(run.examples, content)
    return {
        "name": run.path.name,
        "trained_on": _trained_on(config, data),
        "bleu": _bleu(_kept(run.test_scores, content).get("scores", {}), "test set")
        or _validated(content),
        "opening": chosen.get("opening") or first_sight(texts[0] if texts else []),
        "examples": chosen.get("examples", []),
    }


def first_sight(sources: Sequence[str]) -> str | None:
    """Returns the first source with 8 to 12 words, or the first source if there is no such source.

    Returns None if `sources` is empty.
    """
    middle = (text for text in sources if 8 <= len(text.split()) <= 12)
    return next(middle, sources[0] if sources else None)


def _trained_on(config: Config, data: JSON | None) -> str:
    """Returns a phrase that describes the training corpora but contains no file paths.

    Corpora are grouped by weight. The weight of a corpus is the number of times that each of its
    sentence pairs occurs per epoch.
    """
    pairs: dict[float, int] = {}
    for shard in data["shards"]["train"] if data else ():
        pairs[shard["weight"]] = pairs.get(shard["weight"], 0) + shard["pairs"]
    names: dict[float, dict[str, None]] = {}
    for corpus in config.data.train:
        names.setdefault(corpus.weight, {})[_kind(corpus)] = None
    found = []
    for weight, of in names.items():
        number = f"{pairs[weight]:,} sentence pairs from " if weight in pairs else ""
        often = "" if weight == 1 else f" (each {weight:g} times per epoch)"
        found.append(f"{number}{' and '.join(of)}{often}")
    origin = ", starting from another model" if config.training.initialize_from else ""
    return f"{' and '.join(found)}{origin}"


def _kind(corpus: Any) -> str:
    if corpus.kind() == "hub":
        return str(corpus.hub)
    return "a small grammar of English and German" if corpus.kind() == "demo" else "text files"


def _validated(content: JSON) -> JSON | None:
    return _bleu(content.get("validation") or {}, "validation set")


def _bleu(scores: JSON, on: str) -> JSON | None:
    score, signature = scores.get("bleu"), scores.get("bleu_signature")
    if not isinstance(score, float):
        return None
    return {"score": score, "signature": signature or "", "on": on}


def _kept(path: Any, content: JSON) -> JSON:
    """Returns the content of a JSON file, or {} if it is unreadable or describes another model."""
    found = _tried(lambda: json.loads(small_file(path, _MAX_BYTES)))
    is_its = isinstance(found, dict) and found.get("model_sha256") == content.get("sha256")
    return found if is_its else {}


def _tried(read: Any) -> Any:
    try:
        return read()
    except (InputError, NoModelError, OSError, ValueError):
        return None
