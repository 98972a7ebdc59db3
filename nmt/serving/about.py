"""Describes the served model. The functions of this module run in the model process."""

import json
from typing import Any

from nmt.errors import InputError, NoModelError
from nmt.serving.inside import sees_inside
from nmt.storage.opening import small_file

JSON = dict[str, Any]

_MAX_BYTES = 200_000_000  # maximum size of a JSON file in the run


def about(translator: Any) -> JSON:
    """Returns a description of the served model as a JSON object.

    Returns:
        * `name`: the name of the run or, outside a run, of the model's directory.
        * `parameters`: the number of parameters, or None for an exported model.
        * `trained_on`: a phrase that describes the training data.
        * `bleu`: an object with `score`, `signature` and `on` ("test set" or "validation set").
        * `demo`: whether the model was trained only on the demo language.
        * `opening`: a sentence from the test set of the model's run.
        * `examples`: see `nmt.serving.examples`.
        * `model`: the settings of the section `model`, the vocabulary size and the label smoothing.

        Values that are missing from the run are None or empty.
    """
    config = translator.config
    kinds = {corpus.kind() for corpus in config.data.train}
    found: JSON = {
        "name": "This model",
        "parameters": None,
        "trained_on": "",
        "bleu": None,
        "demo": kinds == {"demo"},
        "opening": None,
        "examples": [],
        "model": config.model.model_dump(mode="json")
        | {
            "vocabulary_size": config.tokenizer.vocabulary_size,
            "label_smoothing": config.training.label_smoothing,
        },
    }
    if not sees_inside(translator):
        return found
    from nmt.reporting.info import info

    found["parameters"] = info(config)["parameters"]["total"]
    if translator.directory is not None:
        found |= _of_run(translator)
    return found


def _of_run(translator: Any) -> JSON:
    """Returns the facts that the model's run contains; ignores missing and damaged files."""
    from nmt.data import kept_test_set  # imports pyarrow
    from nmt.runs.model_directory import read_manifest
    from nmt.runs.run_directory import RunDirectory
    from nmt.serving.examples import first_sight  # imports torch

    folder, config = translator.directory, translator.config
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
        "bleu": _tested(run, content) or _validated(content),
        "opening": chosen.get("opening") or first_sight(texts[0] if texts else []),
        "examples": chosen.get("examples", []),
    }


def _trained_on(config: Any, data: JSON | None) -> str:
    """Returns a phrase that describes the training corpora without file paths."""
    names = [
        corpus.hub if corpus.kind() == "hub"
        else "sentences of the demo's grammar" if corpus.kind() == "demo"
        else "text files"
        for corpus in config.data.train
    ]  # fmt: skip
    pairs = sum(shard["pairs"] for shard in data["shards"]["train"]) if data else 0
    of = " and ".join(dict.fromkeys(names))
    return f"{pairs:,} pairs from {of}" if pairs else of


def _tested(run: Any, content: JSON) -> JSON | None:
    """Returns BLEU on the test set if `nmt report` has stored it for this model, otherwise None."""
    scores = _kept(run.test_scores, content).get("scores", {})
    return _bleu(scores, "test set")


def _validated(content: JSON) -> JSON | None:
    return _bleu(content.get("validation") or {}, "validation set")


def _bleu(scores: JSON, on: str) -> JSON | None:
    score, signature = scores.get("bleu"), scores.get("bleu_signature")
    if not isinstance(score, float):
        return None
    return {"score": score, "signature": signature or "", "on": on}


def _kept(path: Any, content: JSON) -> JSON:
    """Returns the content of a JSON file, or {} if it is unreadable or from another model."""
    found = _tried(lambda: json.loads(small_file(path, _MAX_BYTES)))
    is_its = isinstance(found, dict) and found.get("model_sha256") == content.get("sha256")
    return found if is_its else {}


def _tried(read: Any) -> Any:
    try:
        return read()
    except (InputError, NoModelError, OSError, ValueError):
        return None
