"""Creates the README.md of an exported model, which describes its use, training and scores."""

from __future__ import annotations

from typing import Any

import yaml

from nmt.data.corpora import describe
from nmt.errors import InputError
from nmt.reporting.run_record import RunRecord, read_runs
from nmt.runs.model_directory import LoadedModel
from nmt.runs.run_directory import RunDirectory


def model_card(model: LoadedModel) -> str:
    """Returns a model card in Markdown with a metadata block for the Hugging Face Hub.

    If `nmt report` has stored scores in the model's run, the model card contains the scores.
    """
    data, record = model.config.data, _record(model)
    pair = f"{data.source_language}-{data.target_language}"
    scores = record.test.scores if record and record.test else {}
    return (
        "---\n"
        + yaml.safe_dump(_metadata(model, scores), sort_keys=False, allow_unicode=True)
        + "---\n\n"
        + "\n".join([
            f"# Transformer, {data.source_language} to {data.target_language}",
            "",
            f"A Transformer (Vaswani et al., 2017) that translates {pair}, sentence by sentence.",
            "Exported by `nmt export`, which compared the model's translations with nmt's.",
            "",
            *_use(model),
            *_training(model),
            *_evaluation(scores),
            "## Limits and intended use",
            "",
            f"The model is for single sentences of up to {data.max_length - 1} tokens that are",
            "similar to the training data. It uses no context beyond the sentence. A fluent",
            "translation can still be wrong: have translations checked wherever a mistake could do",
            "harm.",
            "",
        ])
    )  # fmt: skip


def _record(model: LoadedModel) -> RunRecord | None:
    run = RunDirectory.around(model.directory)
    if model.directory != run.model or not run.test_scores.is_file():
        return None  # a checkpoint, or a model without scores
    try:
        [record] = read_runs([run.path], lambda line: None)
    except InputError:
        return None  # a model outside its run
    return record


def _metadata(model: LoadedModel, scores: dict[str, Any]) -> dict[str, Any]:
    data = model.config.data
    metadata: dict[str, Any] = {
        "language": [data.source_language, data.target_language],
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["translation", "transformer"],
    }
    if scores:
        metadata["metrics"] = ["bleu", "chrf"]
        metadata["model-index"] = [{
            "name": f"transformer-{data.source_language}-{data.target_language}",
            "results": [{
                "task": {"type": "translation"},
                "dataset": {"name": _names(data.test), "type": "text", "split": "test"},
                "metrics": [
                    {"type": name, "value": scores[name], "args": scores.get(f"{name}_signature")}
                    for name in ("bleu", "chrf") if name in scores
                ],
            }],
        }]  # fmt: skip
    return metadata


def _names(corpora: Any) -> str:
    return "; ".join(map(describe, corpora)) or "none"


def _use(model: LoadedModel) -> list[str]:
    return [
        "## Use",
        "",
        "```python",
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
        "",
        'tokenizer, model = (cls.from_pretrained(".") for cls in (AutoTokenizer, '
        "AutoModelForSeq2SeqLM))",
        'tokens = tokenizer(["A sentence."], return_tensors="pt", padding=True)',
        "print(tokenizer.batch_decode(model.generate(**tokens), skip_special_tokens=True))",
        "```",
        "",
    ]


def _training(model: LoadedModel) -> list[str]:
    config, m = model.config, model.config.model
    return [
        "## Training",
        "",
        f"{m.encoder_layers} + {m.decoder_layers} layers, d_model {m.d_model}, d_ff {m.d_ff},",
        f"{m.heads} heads, {m.norm}-norm, {config.tokenizer.vocabulary_size:,} BPE tokens shared",
        f"by both languages; {model.step:,} steps of {config.training.batch_tokens:,} target",
        f"tokens, label smoothing {config.training.label_smoothing:g}, dropout {m.dropout:g}.",
        "",
        f"Data: {_names(config.data.train)}. This card does not list the licenses of the data.",
        "",
    ]


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")  # an unescaped | would end the cell, even in code


def _evaluation(scores: dict[str, Any]) -> list[str]:
    if not scores:
        return ["## Evaluation", "", "Not evaluated. `nmt report RUN` scores a run.", ""]
    rows = [
        f"| {name} | {scores[key]:.2f} | `{_in_cell(scores.get(f'{key}_signature', ''))}` |"
        for name, key in (("BLEU", "bleu"), ("chrF", "chrf"), ("TER", "ter"))
        if key in scores
    ]
    return ["## Evaluation", "", "| metric | score | signature |", "| --- | --- | --- |", *rows, ""]
