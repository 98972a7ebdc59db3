"""The BPE tokenizer, one vocabulary for both languages: training it, text to ids and back.

A sentencepiece model without normalization of its own: text is given to it as `cleaning.normalize`
leaves it. It keeps case and white space and has the 256 bytes in its vocabulary, so that every
normalized text is encoded without unknowns and `decode(encode(text)) == text`.

A tokenizer may come from anywhere. sentencepiece up to 0.2.1 crashes on some damaged models (its
issues 1263, 1269 and 1308). 0.2.2 and 0.2.3 raise an error or work: 20,000 damaged ones, with
flipped bytes, huge and NUL pieces and broken character maps, ended no process.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import sentencepiece

from nmt.data.cleaning import needs_repair, normalize
from nmt.errors import InputError, NoModelError
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.storage import atomic
from nmt.storage.opening import small_file

# Rarer characters are spelt in bytes. Not 1: web text holds thousands of characters of other
# scripts. Not the usual 0.9995: on 29,000 captions that spells capitals and digits in bytes.
_CHARACTER_COVERAGE = 0.9999
MAX_MODEL_BYTES = 50_000_000
_MAX_LINE_BYTES = 1 << 20  # sentencepiece leaves longer lines out; cleaning has a lower bound

UNK_SURFACE = "\ufffd"  # what the unknown id is decoded as
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# sentencepiece writes a space as U+2581. So a U+2581 in a text is written as a private character,
# the escape character followed by 1, and that character itself as it followed by 0.
_SPACE_SIGN, _MARKER = "\u2581", "\U000f2581"
ESCAPES = ((_MARKER, _MARKER + "0"), (_SPACE_SIGN, _MARKER + "1"))  # in this order
_MARKED = re.compile(f"{_MARKER}([01])")


class Tokenizer:
    """A trained tokenizer.

    Attributes:
        sha256: of the model file, in hexadecimal; tells whether data, checkpoint and tokenizer
            belong together.
        vocabulary_size: number of ids; they run from 0.
        model: the model file's content.
        symbols: those of the configuration, one piece each.
        has_bytes: whether text without a piece of its own is spelt in bytes; otherwise it is
            unknown.
        normalize: what is done to a text before it is encoded, and to one that was decoded.
    """

    normalize = staticmethod(normalize)

    def __init__(self, model: bytes):
        """Loads a sentencepiece model from its bytes.

        Raises:
            ValueError, RuntimeError: damaged, or a model that `train_tokenizer` does not write.
        """
        if not model:  # sentencepiece takes it for no model, and complains with each use
            raise ValueError("empty")
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.vocabulary_size: int = self._processor.vocab_size()
        self.symbols = self._checked_symbols()

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """The tokenizer in a file.

        Raises:
            NoModelError: missing, damaged, or no tokenizer of ours (status 3).
        """
        try:
            model = small_file(path, MAX_MODEL_BYTES)
        except (FileNotFoundError, IsADirectoryError):
            raise NoModelError(f"no tokenizer, {path}, restore it from a copy") from None
        except InputError as error:
            raise NoModelError(*error.problems) from None
        try:
            return cls(model)
        except (RuntimeError, ValueError) as error:
            raise NoModelError(
                f"damaged tokenizer ({error}), {path}, restore it from a copy"
            ) from None

    def _checked_symbols(self) -> tuple[str, ...]:
        """Returns the pieces between the special ones and the bytes; ValueError if those differ.

        A model that was trained elsewhere may have no bytes; it has no symbols then.
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
            raise ValueError("a piece holds a line end or another control character")
        return tuple(pieces[UNK_ID + 1 : first_byte])

    def encode(self, text: str) -> list[int]:
        """The ids of a normalized text, without BOS and EOS; of an empty text, none."""
        return self._processor.encode(_escape(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts at once."""
        return self._processor.encode([_escape(text) for text in texts], num_threads=1)

    @cached_property
    def symbol_ids(self) -> dict[str, int]:
        """The id of each symbol."""
        return {symbol: i for i, symbol in enumerate(self.symbols, UNK_ID + 1)}

    def split_tag(self, text: str) -> tuple[str, str]:
        """The symbols with which a normalized text begins, and the rest of it.

        "<2de> The man reads." -> ("<2de> ", "The man reads."), if <2de> is a symbol.
        """
        end = self._tag.match(text).end()  # type: ignore[union-attr]  # it matches nothing too
        return text[:end], text[end:]

    @cached_property
    def _tag(self) -> re.Pattern[str]:
        longest_first = sorted(self.symbols, key=len, reverse=True)  # as sentencepiece finds them
        one = "|".join(map(re.escape, longest_first))
        return re.compile(f"(?:(?:{one}) ?)*" if self.symbols else "")

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; PAD, BOS and EOS are skipped, bytes that are no UTF-8 give U+FFFD."""
        return _unescape(self._processor.decode([int(i) for i in ids]))

    def spelling(self, ids: Sequence[int]) -> list[bytes]:
        """What each id contributes to the text in UTF-8; nothing for PAD, BOS, EOS and UNK.

        A text begins with a space of its own, and its escapes are spelt as in the pieces.
        """
        first_byte = UNK_ID + 1 + len(self.symbols)
        return [
            b"" if i in (PAD_ID, BOS_ID, EOS_ID, UNK_ID)
            else bytes([i - first_byte]) if self.has_bytes and first_byte <= i < first_byte + 256
            else self._processor.id_to_piece(int(i)).replace(_SPACE_SIGN, " ").encode()
            for i in ids
        ]  # fmt: skip

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as a person reads it: U+2581 for a space, <0x41> for a byte, </s> for EOS."""
        return self._processor.id_to_piece([int(i) for i in ids])


def train_tokenizer(
    sentences: Iterable[str], vocabulary_size: int, output: Path, symbols: Sequence[str] = ()
) -> None:
    """Learns a BPE vocabulary and writes the model, whole or not at all.

    The same sentences give the same bytes: BPE draws no random numbers.

    Args:
        sentences: texts of both languages, of `cleaning.normalize`; all are held in memory.
        vocabulary_size: number of ids, 4 special ones, the symbols and 256 bytes included.
        output: the model file.
        symbols: pieces besides, whether the text holds them or not.

    Raises:
        InputError: the text has too few or too many different pieces for `vocabulary_size`.
        BaseException: whatever `sentences` raise.
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
    where = "tokenizer.vocabulary_size"
    if found := re.search(r"set it to a value <= (\d+)", message):
        largest = int(found[1])
        return InputError(
            f"the training text gives fewer than {vocabulary_size:,} pieces, {where}, "
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
    for character, escape in ESCAPES:
        text = text.replace(character, escape)
    return text


def _unescape(text: str) -> str:
    if _MARKER not in text:
        return text
    return _MARKED.sub(lambda found: _MARKER if found[1] == "0" else _SPACE_SIGN, text)
