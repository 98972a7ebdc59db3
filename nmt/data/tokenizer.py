"""Trains and applies the BPE tokenizer, which has one vocabulary for both languages.

`Tokenizer.encode` normalizes text with `cleaning.normalize` before encoding it, and `with_eos`
appends EOS. A SentencePiece model that nmt trains does not normalize text itself. The vocabulary of
a model that nmt trains includes all 256 bytes, so that every text is encoded without unknown tokens
and `decode(encode(text)) == normalize(text)`.

A tokenizer may come from an untrusted source. Up to version 0.2.1, sentencepiece crashes on some
damaged models (see issues 1263, 1269 and 1308 of sentencepiece). Versions 0.2.2 and 0.2.3 of
sentencepiece did not crash on any of 20,000 damaged models with flipped bytes, huge pieces, NUL
characters or broken character maps.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from nmt.data.cleaning import needs_repair, normalize
from nmt.data.pair import Pair, TokenPair
from nmt.errors import InputError, NoModelError, is_out_of_memory
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.storage import atomic
from nmt.storage.opening import small_file

# Proportion of the characters in the training text that the vocabulary covers; rarer characters are
# encoded as bytes. A coverage of 1 would add thousands of characters in other scripts that occur in
# web text. With the usual coverage of 0.9995, a tokenizer trained on 29,000 captions encodes some
# capital letters and digits as bytes.
_CHARACTER_COVERAGE = 0.9999
MAX_MODEL_BYTES = 50_000_000
_MAX_LINE_BYTES = 1 << 20  # sentencepiece would skip longer lines; the limit for cleaning is lower

UNK_SURFACE = "\ufffd"  # the text to which UNK is decoded
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# sentencepiece represents a space by U+2581. Therefore U+2581 in a text is escaped as the
# private-use character U+F2581 followed by 1, and U+F2581 in a text as U+F2581 followed by 0.
_SPACE_SIGN, _MARKER = "\u2581", "\U000f2581"
ESCAPES = ((_MARKER, _MARKER + "0"), (_SPACE_SIGN, _MARKER + "1"))  # applied in this order
_MARKED = re.compile(f"{_MARKER}([01])")

# A tokenizer file may contain a second SentencePiece model, which encodes targets. It is the value
# of protobuf field 1000, followed by its size in field 1001. sentencepiece ignores both fields,
# because field numbers from 200 on are reserved for extensions.
_TARGET_TAG, _SIZE_TAG = b"\xc2\x3e", b"\xcd\x3e"


class Tokenizer:
    """A trained SentencePiece tokenizer.

    The tokenizer of an imported model may consist of two SentencePiece models with the same pieces
    and ids, one for sources and one for targets.

    Attributes:
        sha256: SHA-256 of the model file, in hexadecimal; the manifests of prepared data and of the
            models trained on it contain this hash.
        vocabulary_size: number of tokens; the token ids start at 0.
        model: content of the model file.
        symbols: the strings in the setting `tokenizer.symbols`, each of which is a single token.
        has_bytes: whether the vocabulary contains byte tokens. Without byte tokens, characters that
            are not in the vocabulary are encoded as UNK.
        normalize: the function that `encode` applies to a text before encoding it. `decode` does
            not normalize text; its callers apply `normalize` to the decoded text.
    """

    normalize = staticmethod(normalize)

    def __init__(self, model: bytes):
        """Loads a SentencePiece model from the content of its file.

        Raises:
            ValueError, RuntimeError: the model is damaged, or its special or byte pieces do not
                have the ids that nmt assigns.
        """
        if not model:  # sentencepiece accepts an empty model, but fails whenever it is used
            raise ValueError("empty")
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.vocabulary_size: int = self._processor.vocab_size()
        self.symbols = self._checked_symbols()
        self._of_targets = self._checked_target_tokenizer()

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Loads a tokenizer from a file.

        Raises:
            NoModelError: the file is missing or damaged, or was not written by nmt (exit status 3).
        """
        try:
            model = small_file(path, MAX_MODEL_BYTES)
        except (FileNotFoundError, IsADirectoryError):
            raise NoModelError(f"{path} does not exist. Restore it from a copy.") from None
        except InputError as error:
            raise NoModelError(*error.problems) from None
        try:
            return cls(model)
        except (RuntimeError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            raise NoModelError(
                f"{path} is not a valid tokenizer ({error}). Restore it from a copy."
            ) from None

    def _checked_symbols(self) -> tuple[str, ...]:
        """Checks all pieces and returns the symbols, which lie between the special and byte pieces.

        A SentencePiece model without byte pieces was not trained by nmt and has no symbols.

        Raises:
            ValueError: the special or byte pieces do not have the ids that nmt assigns, or the
                pieces contain a control character.
        """
        model, pieces = self._processor, self.pieces(range(self.vocabulary_size))
        special = (model.pad_id(), model.bos_id(), model.eos_id(), model.unk_id())
        first_byte = pieces.index(BYTES[0]) if BYTES[0] in pieces else UNK_ID + 1
        self.has_bytes: bool = model.is_byte(first_byte)
        if not self.has_bytes:
            first_byte = UNK_ID + 1
        if special != (PAD_ID, BOS_ID, EOS_ID, UNK_ID) or (
            self.has_bytes and pieces[first_byte : first_byte + len(BYTES)] != BYTES
        ):
            raise ValueError("its special or byte pieces do not have the ids that nmt assigns")
        if any(map(needs_repair, pieces)):  # `nmt score --tokens` prints pieces as they are
            raise ValueError(
                "one of its pieces contains a line ending or another control character"
            )
        return tuple(pieces[UNK_ID + 1 : first_byte])

    def _checked_target_tokenizer(self) -> "Tokenizer":
        """Returns the tokenizer for targets, which is this tokenizer if the file has no second one.

        Raises:
            ValueError, RuntimeError: the second tokenizer is damaged, or its pieces differ from the
                pieces of this tokenizer.
        """
        second = _target_model(self.model)
        if second is None:
            return self
        if _target_model(second) is not None:
            raise ValueError("its tokenizer for targets contains another tokenizer")
        found, ids = Tokenizer(second), range(self.vocabulary_size)
        if found.vocabulary_size != len(ids) or found.pieces(ids) != self.pieces(ids):
            raise ValueError("its tokenizer for targets has other pieces")
        return found

    def encode(self, text: str) -> list[int]:
        """Normalizes a text and returns its token ids, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of texts in the target language, without BOS and EOS."""
        return self._of_targets.encode_batch(texts)

    def encode_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> list[TokenPair]:
        """Returns sentence pairs as token ids that end with EOS."""
        sides = self.encode_batch(sources), self.encode_targets(targets)
        return [Pair(with_eos(ids), with_eos(target)) for ids, target in zip(*sides, strict=True)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Normalizes texts and returns the token ids of each text, without BOS and EOS."""
        normal = [_escape(self.normalize(text)) for text in texts]
        return self._processor.encode(normal, num_threads=1)

    @cached_property
    def symbol_ids(self) -> dict[str, int]:
        """Maps each symbol to its token id."""
        return {symbol: i for i, symbol in enumerate(self.symbols, UNK_ID + 1)}

    def split_tag(self, text: str) -> tuple[str, str]:
        """Splits a normalized text into its leading symbols and the remaining text.

        For example, if <2de> is a symbol, "<2de> The man reads." is split into "<2de> " and
        "The man reads.".
        """
        end = self._tag.match(text).end()  # type: ignore[union-attr]  # it matches ""
        return text[:end], text[end:]

    @cached_property
    def _tag(self) -> re.Pattern[str]:
        longest_first = sorted(self.symbols, key=len, reverse=True)  # as sentencepiece does
        one = "|".join(map(re.escape, longest_first))
        return re.compile(f"(?:(?:{one}) ?)*" if self.symbols else "")

    def decode(self, ids: Sequence[int]) -> str:
        """Decodes token ids and omits PAD, BOS and EOS; invalid UTF-8 becomes U+FFFD."""
        return _unescape(self._processor.decode([int(i) for i in ids]))

    def spelling(self, ids: Sequence[int]) -> list[bytes]:
        """Returns the UTF-8 bytes that each id adds to a text, or b"" for PAD, BOS, EOS and UNK.

        Joining the results gives the text with a leading space and with the characters of `ESCAPES`
        still escaped.
        """
        first_byte = UNK_ID + 1 + len(self.symbols)
        return [
            b"" if i in (PAD_ID, BOS_ID, EOS_ID, UNK_ID)
            else bytes([i - first_byte]) if self.has_bytes and first_byte <= i < first_byte + 256
            else self._processor.id_to_piece(int(i)).replace(_SPACE_SIGN, " ").encode()
            for i in ids
        ]  # fmt: skip

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id, with U+2581 for a space and <0x41> for the byte 0x41."""
        return self._processor.id_to_piece([int(i) for i in ids])


def with_target_model(source: bytes, target: bytes) -> bytes:
    """Returns the content of a tokenizer file with a SentencePiece model for each side."""
    size, length = len(target), b""
    while size > 127:  # a varint, as protobuf writes lengths
        length, size = length + bytes([size & 127 | 128]), size >> 7
    length += bytes([size])
    return source + _TARGET_TAG + length + target + _SIZE_TAG + len(target).to_bytes(4, "little")


def _target_model(model: bytes) -> bytes | None:
    """Returns the second SentencePiece model in a tokenizer file, or None if there is only one."""
    size = int.from_bytes(model[-4:], "little")
    begin = len(model) - 6 - size
    if begin < 0:
        return None
    target = model[begin : begin + size]
    fields = with_target_model(b"", target)
    return target if target and model.endswith(fields) else None


def with_eos(ids: Sequence[int]) -> NDArray[np.int32]:
    """Appends EOS to the token ids of a sentence: (n,) -> (n + 1,)."""
    return np.array([*ids, EOS_ID], dtype=np.int32)


def train_tokenizer(
    sentences: Iterable[str], vocabulary_size: int, output: Path, symbols: Sequence[str] = ()
) -> None:
    """Trains a BPE tokenizer and writes its model file atomically.

    The same arguments always produce the same file, because BPE training uses no random numbers.

    Args:
        sentences: normalized sentences in both languages, which are all held in memory.
        vocabulary_size: number of tokens, including 4 special tokens, 256 byte tokens and all
            symbols.
        output: path of the model file.
        symbols: strings that become single tokens, even if the text does not contain them.

    Raises:
        InputError: the text has too few subwords or too many different characters for
            `vocabulary_size`.
        BaseException: any exception that is raised while iterating over `sentences`.
    """
    model = io.BytesIO()
    raised: list[BaseException] = []

    def escaped() -> Iterator[str]:
        try:
            yield from map(_escape, sentences)
        except GeneratorExit:
            raise
        except BaseException as error:  # sentencepiece would turn it into a RuntimeError
            raised.append(error)
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=escaped(),
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
            unk_surface=UNK_SURFACE,
            user_defined_symbols=list(symbols),
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if raised:
            raise raised[0] from None
        raise _training_problem(str(error), vocabulary_size) from None
    atomic.write_file(output, model.getvalue())


def _training_problem(message: str, vocabulary_size: int) -> InputError:
    if found := re.search(r"set it to a value <= (\d+)", message):
        largest = int(found[1])
        return InputError(
            f"The training text is too small for a vocabulary of {vocabulary_size:,} tokens. Set "
            f"tokenizer.vocabulary_size to {largest} or less, or add text."
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return InputError(
            f"tokenizer.vocabulary_size is {vocabulary_size:,}, which is too small for the number "
            f"of different characters in the training text. Set it to {found[1]} or more."
        )
    if "sentences_.empty()" in message:
        return InputError(
            "data.train has no text to train a tokenizer on. Specify a corpus with text."
        )
    return InputError(
        f"sentencepiece cannot train a tokenizer with a vocabulary of {vocabulary_size:,} "
        f"tokens ({message}). Set tokenizer.vocabulary_size to another value."
    )


def _escape(text: str) -> str:
    if _SPACE_SIGN not in text and _MARKER not in text:
        return text
    for character, escape in ESCAPES:
        text = text.replace(character, escape)
    return text


def _unescape(text: str) -> str:
    if _MARKER not in text:
        return text
    return _MARKED.sub(lambda found: _MARKER if found[1] == "0" else _SPACE_SIGN, text)
