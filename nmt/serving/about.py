"""Describes the served model. The functions in this module run in the model process."""

from typing import Any

from nmt.reporting.about_model import JSON, about_model
from nmt.runs.exported_model import KIND
from nmt.storage import manifest


def about(translator: Any) -> JSON:
    """Returns a description of the served model as a JSON object.

    Returns:
        The description that `about_model` returns, with two additional keys. For an exported model,
        the original model is described, but the list of `examples` is empty, because the examples
        require the microscope. The additional keys are:

        * `demo`: whether all training corpora are demo corpora.
        * `model`: an object with the settings in the configuration's `model` section, the
          vocabulary size and the label smoothing.
    """
    config = translator.config
    if translator.is_exported:
        found = manifest.read(translator.directory, KIND)["original"] | {"examples": []}
        if found["bleu"]:
            found["bleu"] = found["bleu"] | {"on": f"{found['bleu']['on']}, before the export"}
    else:
        found = about_model(translator.directory, config)
    return found | {
        "demo": {corpus.kind() for corpus in config.data.train} == {"demo"},
        "model": config.model.model_dump(mode="json")
        | {
            "vocabulary_size": config.tokenizer.vocabulary_size,
            "label_smoothing": config.training.label_smoothing,
        },
    }
