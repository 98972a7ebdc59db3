"""Text to text by CTranslate2 and sentencepiece, as `nmt translate` does it by nmt.

python ctranslate2_text.py FOLDER COMPUTE_TYPE BEAM ALPHA THREADS < text > translation
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

_BATCH_TOKENS = 2_048  # with padding; sentences are sorted by length
_LONGEST = 256

folder, compute_type, beam, alpha, threads = sys.argv[1:]
pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / "tokenizer.model"))
translator = ctranslate2.Translator(
    folder, compute_type=compute_type, inter_threads=1, intra_threads=int(threads)
)
lines = sys.stdin.read().splitlines()
for result in translator.translate_batch(
    pieces.encode(lines, out_type=str),
    beam_size=int(beam),
    length_penalty=float(alpha),
    max_batch_size=_BATCH_TOKENS,
    batch_type="tokens",
    min_decoding_length=0,
    max_decoding_length=_LONGEST,
    disable_unk=True,
    suppress_sequences=[["<pad>"], ["<s>"]],
):
    print(pieces.decode(result.hypotheses[0]))
