"""The BPE tokenizer, one vocabulary for both languages: training it, text to ids and back.

The only owner of the special ids. A sentencepiece model with no normalisation of its own (see
`cleaning.normalize`), with case and white space kept and with the 256 bytes in the vocabulary, so
that every normalized text is encoded without an unknown and `decode(encode(text)) == text`.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sentencepiece

from nmt.errors import InputError, NoModelError
from nmt.storage import atomic

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3

# Rarer characters are spelt in bytes. Not 1: web text holds thousands of characters of other
# scripts. Not the usual 0.9995: on 29,000 captions that spells capitals and digits in bytes.
_CHARACTER_COVERAGE = 0.9999
_MAX_LINE_BYTES = (
    1 << 20
)  # sentencepiece leaves longer training lines out; cleaning has a lower bound
_MAX_MODEL_BYTES = 50_000_000
_MAX_PIECE_BYTES = 10_000

# sentencepiece writes a space as U+2581, so the character itself needs another spelling. One
# private character marks both it and itself; the pair (marker, digit) decodes uniquely.
_SPACE_SIGN, _MARKER = "\u2581", "\U000f2581"
_MARKED = re.compile(f"{_MARKER}([01])")


class Tokenizer:
    """A trained tokenizer.

    Attributes:
        sha256: of the model file, in hexadecimal; tells whether data, checkpoint and tokenizer
            belong together.
        vocabulary_size: number of ids; they run from 0.
    """

    def __init__(self, model: bytes):
        """`model`: the content of a sentencepiece model that `check_model` found sound."""
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.vocabulary_size: int = self._processor.vocab_size()

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """The tokenizer in a file.

        Raises:
            NoModelError: missing, damaged, or no tokenizer of ours (status 3).
        """
        try:
            with path.open("rb") as file:
                model = file.read(_MAX_MODEL_BYTES + 1)
        except (FileNotFoundError, IsADirectoryError):
            raise NoModelError(f"no tokenizer, {path}, restore it from a copy") from None
        problem = _problem_of(model)
        try:
            if problem is None:
                tokenizer = cls(model)
                problem = tokenizer._foreign()
        except (RuntimeError, ValueError):
            problem = "sentencepiece cannot read it"
        if problem is not None:
            raise NoModelError(f"damaged tokenizer ({problem}), {path}, restore it from a copy")
        return tokenizer

    def _foreign(self) -> str | None:
        """How this model differs from those that `train_tokenizer` writes, if it does."""
        p = self._processor
        if (p.pad_id(), p.bos_id(), p.eos_id(), p.unk_id()) != (PAD_ID, BOS_ID, EOS_ID, UNK_ID):
            return "its special ids are not 0, 1, 2, 3"
        if p.vocab_size() < UNK_ID + 257 or not all(
            map(p.is_byte, range(UNK_ID + 1, UNK_ID + 257))
        ):
            return "it has no byte fallback"
        return None

    def encode(self, text: str) -> list[int]:
        """The ids of a normalized text, without BOS and EOS; of an empty text, none."""
        return self._processor.encode(_escape(text))

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` for many texts at once; the result does not depend on `threads`."""
        return self._processor.encode([_escape(text) for text in texts], num_threads=threads)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; PAD, BOS and EOS are skipped, bytes that are no UTF-8 give U+FFFD."""
        return _unescape(self._processor.decode([int(i) for i in ids]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as a person reads it: U+2581 for a space, <0x41> for a byte, </s> for EOS."""
        return [self._processor.id_to_piece(int(i)) for i in ids]


def train_tokenizer(
    sentences: Iterable[str], vocabulary_size: int, seed: int, output: Path
) -> None:
    """Learns a BPE vocabulary and writes the model, whole or not at all.

    The same sentences give the same bytes, whatever the seed or the number of threads: BPE draws
    no random numbers. The seed is set nevertheless, should that ever change.

    Args:
        sentences: normalized texts of both languages; all are held in memory.
        vocabulary_size: number of ids, 4 special ones and 256 bytes included.
        seed: for sentencepiece's generator.
        output: the model file.

    Raises:
        InputError: the text has too few or too many different pieces for `vocabulary_size`.
    """
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(_escape, sentences),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocabulary_size,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            byte_fallback=True,
            character_coverage=_CHARACTER_COVERAGE,
            max_sentence_length=_MAX_LINE_BYTES,
            pad_id=PAD_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_id=UNK_ID,
            unk_surface="\ufffd",
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _training_problem(str(error), vocabulary_size) from None
    atomic.write_file(output, model.getvalue())


def _training_problem(message: str, vocabulary_size: int) -> InputError:
    where = "tokenizer.vocabulary_size"
    if found := re.search(r"set it to a value <= (\d+)", message):
        largest = int(found[1])
        return InputError(
            f"the training text has no {vocabulary_size:,} different pieces, {where}, "
            f"set it to {largest} or less, or add text"
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return InputError(
            f"{vocabulary_size:,} is too small for the characters of the training text, {where}, "
            f"set it to {found[1]} or more"
        )
    if "sentences_.empty()" in message:
        return InputError("no text to learn a vocabulary from, data.train, name a corpus")
    return InputError(f"sentencepiece: {message}, {where}, change it")


def _escape(text: str) -> str:
    if _SPACE_SIGN not in text and _MARKER not in text:
        return text
    return text.replace(_MARKER, _MARKER + "0").replace(_SPACE_SIGN, _MARKER + "1")


def _unescape(text: str) -> str:
    if _MARKER not in text:
        return text
    return _MARKED.sub(lambda found: _MARKER if found[1] == "0" else _SPACE_SIGN, text)


def _problem_of(model: bytes) -> str | None:
    """Why these bytes must not be given to sentencepiece's C++ parser, if so.

    The model may come from anywhere. Versions up to 0.2.1 crash on very long pieces and read
    beyond a crafted character map; models of ours have neither.
    """
    if not model:
        return "empty"
    if len(model) > _MAX_MODEL_BYTES:
        return f"more than {_MAX_MODEL_BYTES:,} bytes"
    try:
        for field, value in _fields(memoryview(model)):
            if field == 1 and len(value) > _MAX_PIECE_BYTES:  # pieces
                return f"a piece of {len(value):,} bytes"
            if field in (3, 5) and any(  # normalizer_spec, denormalizer_spec
                inner == 2 and len(content) for inner, content in _fields(value)
            ):
                return "it has a character map"
    except (ValueError, IndexError):
        return "no sentencepiece model"
    return None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the length-delimited fields of a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 2:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("truncated")
            yield tag >> 3, message[at : at + size]
            at += size
        elif wire == 0:
            _, at = _varint(message, at)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError("unknown wire type")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("varint too long")
