"""Trains and applies the BPE tokenizer, which has one vocabulary for both languages.

`Tokenizer.encode` first applies `cleaning.normalize`; `with_eos` appends EOS. The sentencepiece
model does no normalization. It keeps case and has the 256 bytes in its vocabulary, so that every
text is encoded without unknown tokens and `decode(encode(text)) == normalize(text)`.

A tokenizer may come from an untrusted source. sentencepiece up to 0.2.1 crashes on some damaged
models (see issues 1263, 1269 and 1308 of sentencepiece). With 0.2.2 and 0.2.3, none of 20,000
damaged models with flipped bytes, huge pieces, NUL characters and broken character maps crashed the
process.
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
from nmt.errors import InputError, NoModelError, is_out_of_memory
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.storage import atomic
from nmt.storage.opening import small_file

# Rarer characters are encoded as bytes. 1 would add thousands of characters of other scripts that
# occur in web text. With the usual 0.9995, capitals and digits become bytes on 29,000 captions.
_CHARACTER_COVERAGE = 0.9999
MAX_MODEL_BYTES = 50_000_000
_MAX_LINE_BYTES = 1 << 20  # sentencepiece skips longer lines; cleaning drops shorter ones already

UNK_SURFACE = "\ufffd"  # the text of the unknown id
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# sentencepiece writes a space as U+2581. So U+2581 in a text is escaped as U+F2581 (private use)
# followed by 1, and U+F2581 as itself followed by 0.
_SPACE_SIGN, _MARKER = "\u2581", "\U000f2581"
ESCAPES = ((_MARKER, _MARKER + "0"), (_SPACE_SIGN, _MARKER + "1"))  # applied in this order
_MARKED = re.compile(f"{_MARKER}([01])")


class Tokenizer:
    """A trained tokenizer.

    Attributes:
        sha256: hash of the model file, in hexadecimal; prepared data and the models trained on it
            have the same hash.
        vocabulary_size: number of ids, which start at 0.
        model: the model file's content.
        symbols: the strings in the setting `tokenizer.symbols`; each is a single token.
        has_bytes: whether text that no token covers is encoded as bytes; otherwise it becomes UNK.
        normalize: the function that `encode` applies to a text first. Callers of `decode` apply it
            to the decoded text.
    """

    normalize = staticmethod(normalize)

    def __init__(self, model: bytes):
        """Loads a sentencepiece model from its bytes.

        Raises:
            ValueError, RuntimeError: the model is damaged, or `train_tokenizer` did not write it.
        """
        if not model:  # sentencepiece would accept it, and fail at each use
            raise ValueError("empty")
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.vocabulary_size: int = self._processor.vocab_size()
        self.symbols = self._checked_symbols()

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Loads a tokenizer from a file.

        Raises:
            NoModelError: the file is missing, damaged, or not written by nmt (status 3).
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
        """Returns the symbols: the pieces between the special ids and the bytes.

        A SentencePiece model that nmt did not train may lack byte pieces. It then has no symbols.

        Raises:
            ValueError: the special ids or the bytes are not where nmt puts them.
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
            raise ValueError("its special ids or bytes are not where nmt puts them")
        if any(map(needs_repair, pieces)):  # `nmt score --tokens` prints pieces as they are
            raise ValueError("one of its pieces has a line end or another control character")
        return tuple(pieces[UNK_ID + 1 : first_byte])

    def encode(self, text: str) -> list[int]:
        """Normalizes a text and returns its ids, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the result of `encode` for each text."""
        normal = [_escape(self.normalize(text)) for text in texts]
        return self._processor.encode(normal, num_threads=1)

    @cached_property
    def symbol_ids(self) -> dict[str, int]:
        """Returns the id of each symbol."""
        return {symbol: i for i, symbol in enumerate(self.symbols, UNK_ID + 1)}

    def split_tag(self, text: str) -> tuple[str, str]:
        """Splits a normalized text into its leading symbols and the rest.

        "<2de> The man reads." -> ("<2de> ", "The man reads."), if <2de> is a symbol.
        """
        end = self._tag.match(text).end()  # type: ignore[union-attr]  # it matches ""
        return text[:end], text[end:]

    @cached_property
    def _tag(self) -> re.Pattern[str]:
        longest_first = sorted(self.symbols, key=len, reverse=True)  # as sentencepiece finds them
        one = "|".join(map(re.escape, longest_first))
        return re.compile(f"(?:(?:{one}) ?)*" if self.symbols else "")

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, without PAD, BOS and EOS; invalid UTF-8 becomes U+FFFD."""
        return _unescape(self._processor.decode([int(i) for i in ids]))

    def spelling(self, ids: Sequence[int]) -> list[bytes]:
        """Returns the UTF-8 bytes that each id adds to the text; b"" for PAD, BOS, EOS and UNK.

        Their concatenation is the text with a leading space and with the escapes in `ESCAPES`.
        """
        first_byte = UNK_ID + 1 + len(self.symbols)
        return [
            b"" if i in (PAD_ID, BOS_ID, EOS_ID, UNK_ID)
            else bytes([i - first_byte]) if self.has_bytes and first_byte <= i < first_byte + 256
            else self._processor.id_to_piece(int(i)).replace(_SPACE_SIGN, " ").encode()
            for i in ids
        ]  # fmt: skip

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns each id in readable form, with U+2581 for a space and <0x41> for a byte."""
        return self._processor.id_to_piece([int(i) for i in ids])


def with_eos(ids: Sequence[int]) -> NDArray[np.int32]:
    """Appends EOS to the ids of a sentence: (n,) -> (n + 1,)."""
    return np.array([*ids, EOS_ID], dtype=np.int32)


def train_tokenizer(
    sentences: Iterable[str], vocabulary_size: int, output: Path, symbols: Sequence[str] = ()
) -> None:
    """Trains a BPE tokenizer and writes its model, whole or not at all.

    The same sentences always give the same bytes, because BPE training uses no random numbers.

    Args:
        sentences: normalized texts of both languages; all are held in memory.
        vocabulary_size: number of ids, including 4 special ids, the symbols and 256 bytes.
        output: the model file.
        symbols: tokens to add, even if the text does not contain them.

    Raises:
        InputError: the text has too few subwords or too many different characters for
            `vocabulary_size`.
        BaseException: any exception that iterating over `sentences` raises.
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
            f"tokenizer.vocabulary_size is {vocabulary_size:,}, too small for the characters of "
            f"the training text. Set it to {found[1]} or more."
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
