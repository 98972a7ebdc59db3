"""Translates text with CTranslate2 and sentencepiece, as `nmt translate` does with nmt.

    python ctranslate2_text.py FOLDER COMPUTE_TYPE BEAM ALPHA EXTRA THREADS < text > translation

EXTRA is the maximum number of tokens by which a translation may be longer than its source.
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

BATCH_TOKENS = 2_048  # source tokens, including padding

folder, compute_type, beam, alpha, extra, threads = sys.argv[1:]
tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / "tokenizer.model"))
translator = ctranslate2.Translator(
    folder, compute_type=compute_type, inter_threads=1, intra_threads=int(threads)
)
lines = sys.stdin.read().removesuffix("\n").split("\n")
sources = tokenizer.encode(lines, out_type=str)
order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
texts = [""] * len(sources)
while order:
    longest = len(sources[order[0]])
    size = max(1, BATCH_TOKENS // (longest + 1))
    batch, order = order[:size], order[size:]
    results = translator.translate_batch(
        [sources[index] for index in batch],
        beam_size=int(beam),
        length_penalty=float(alpha),
        min_decoding_length=0,
        max_decoding_length=max(1, longest + int(extra)),
        max_input_length=0,
        disable_unk=True,
        suppress_sequences=[["<pad>"], ["<s>"]],
    )
    for index, result in zip(batch, results, strict=True):
        texts[index] = tokenizer.decode(result.hypotheses[0])
print("\n".join(texts))
