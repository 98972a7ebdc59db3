"""Translates text with CTranslate2 and sentencepiece, as `nmt translate` does with nmt.

    python ctranslate2_text.py FOLDER COMPUTE_TYPE BEAM ALPHA EXTRA THREADS < text > translation

EXTRA is the maximum number of tokens by which a translation may be longer than its source. Each of
the THREADS threads translates a different batch, which is the fastest setting of CTranslate2 on a
CPU if there are several batches.
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

BATCH = 32  # maximum number of sentences per batch

folder, compute_type, beam, alpha, extra, threads = sys.argv[1:]
tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / "tokenizer.model"))
translator = ctranslate2.Translator(
    folder, compute_type=compute_type, inter_threads=int(threads), intra_threads=1
)
lines = sys.stdin.read().removesuffix("\n").split("\n")
sources = tokenizer.encode(lines, out_type=str)
order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
texts = [""] * len(sources)
size = min(BATCH, -(-len(order) // int(threads)))
batches = [order[first : first + size] for first in range(0, len(order), size)]
started = [
    translator.translate_batch(
        [sources[index] for index in batch],
        beam_size=int(beam),
        length_penalty=float(alpha),
        min_decoding_length=0,
        max_decoding_length=max(1, len(sources[batch[0]]) + int(extra)),
        max_input_length=0,
        disable_unk=True,
        suppress_sequences=[["<pad>"], ["<s>"]],
        asynchronous=True,
    )
    for batch in batches
]
for batch, results in zip(batches, started, strict=True):
    for index, result in zip(batch, results, strict=True):
        texts[index] = tokenizer.decode(result.result().hypotheses[0])
print("\n".join(texts))
