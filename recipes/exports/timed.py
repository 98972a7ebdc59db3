"""Times one translation of a text; `compare.py` starts this script for each system and round.

The script prints the translation time in seconds. This time includes tokenization, but excludes the
imports, the loading of the model, and the translation of a first sentence, which initializes the
system. All systems translate the same batches, which contain sentences of similar length in
characters.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Translate = Callable[[Sequence[str]], list[str]]


def main() -> None:
    """Runs the task that `compare.py` passes as a JSON argument."""
    task = json.loads(sys.argv[1])
    lines = Path(task["source"]).read_text(encoding="utf-8").split("\n")[:-1]
    translate: Translate = globals()[f"by_{task['program']}"](task)
    translate(sorted(lines, key=len)[len(lines) // 2 :][:1])
    began = time.perf_counter()
    found = in_batches(translate, lines, task["batch"])
    seconds = time.perf_counter() - began
    Path(task["output"]).write_text("".join(f"{each}\n" for each in found), encoding="utf-8")
    print(seconds)


def in_batches(translate: Translate, lines: Sequence[str], size: int) -> list[str]:
    """Translates lines in batches, and returns them in order; blank lines become empty lines."""
    order = sorted(
        (i for i, line in enumerate(lines) if line.strip()), key=lambda i: -len(lines[i])
    )
    texts = [""] * len(lines)
    for first in range(0, len(order), size):
        batch = order[first : first + size]
        for index, text in zip(batch, translate([lines[i] for i in batch]), strict=True):
            texts[index] = text
    return texts


def by_nmt(task: dict[str, Any]) -> Translate:
    """Returns a function that translates with `Translator`; OMP_NUM_THREADS must be set."""
    from nmt.cpu_memory import keep_freed_memory
    from nmt.decoding.options import SearchOptions
    from nmt.translator import Translator

    keep_freed_memory()
    translator = Translator.load(task["model"], device="cpu", precision=task["arithmetic"])
    # large enough not to split any batch
    options = SearchOptions(beam=task["beam"], batch_tokens=1_000_000)
    return lambda texts: [each.text for each in translator.translate(list(texts), options)]


def by_ctranslate2(task: dict[str, Any]) -> Translate:
    """Returns the translation function of the exported script; OMP_NUM_THREADS must be set."""
    sys.path.insert(0, str(task["model"]))
    from translate import translate

    return lambda texts: translate(texts, task["beam"], task["alpha"])


def by_transformers(task: dict[str, Any]) -> Translate:
    """Returns a function that translates with `AutoModelForSeq2SeqLM` and `AutoTokenizer`."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    torch.set_num_threads(task["threads"])
    tokenizer = AutoTokenizer.from_pretrained(task["model"])
    model = AutoModelForSeq2SeqLM.from_pretrained(task["model"]).eval()

    @torch.inference_mode()
    def translate(texts: Sequence[str]) -> list[str]:
        batch = tokenizer(list(texts), return_tensors="pt", padding=True)
        most = batch.input_ids.shape[1] + task["extra"]
        found = model.generate(
            **batch, num_beams=task["beam"], length_penalty=task["alpha"], max_new_tokens=most
        )
        return tokenizer.batch_decode(found, skip_special_tokens=True)

    return translate


if __name__ == "__main__":
    main()
