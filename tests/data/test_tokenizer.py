"""The tokenizer restores every normalized text, is reproducible, and refuses foreign models."""

import io
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.cleaning import normalize
from nmt.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, train_tokenizer
from nmt.errors import InputError, NoModelError, Stopped
from tests.patience import PATIENCE_S

TEXT = "der die das ein Hund Katze Haus läuft schläft the a dog cat house runs sleeps 12 7, ß Ü ."
WORDS = TEXT.split()
SENTENCES = [
    " ".join(WORDS[(i * step + i // 7) % len(WORDS)] for i in range(5 + step % 9))
    for step in range(1, 200)
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    train_tokenizer(SENTENCES, 330, path)
    return path


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> Tokenizer:
    return Tokenizer.load(model)


# Spaces, sentencepiece's own sign for them, the character that stands for that sign, and what
# looks like special pieces: all are ordinary text.
SPECIAL = st.sampled_from(
    [
        " ",
        "  ",
        "\u2581",
        "\U000f2581",
        "\U000f25810",
        "</s>",
        "<0x41>",
        "\U0001f468\u200d\U0001f469",
        "Hund",
    ]
)


@settings(max_examples=400)
@given(st.lists(st.one_of(SPECIAL, st.text(max_size=8)), max_size=8).map("".join).map(normalize))
def test_decode_inverts_encode(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(UNK_ID < i < tokenizer.vocabulary_size for i in ids)
    assert tokenizer.encode_batch([text, "Hund"]) == [ids, tokenizer.encode("Hund")]
    assert tokenizer.decode([BOS_ID, *ids, EOS_ID, PAD_ID]) == text


SYMBOLS = ("<2de>", "<2de>>", "##BT##", 'a,"b'.join("<>"))
MIXED = st.lists(st.one_of(st.sampled_from([*SYMBOLS, "<2d", "e>", "#", " "]), SPECIAL), max_size=8)


@pytest.fixture(scope="module")
def with_symbols(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("symbols") / "tokenizer.model"
    text = [f"<2de> {sentence} ##BT## <2d" for sentence in SENTENCES]
    train_tokenizer(text, 345, path, SYMBOLS)
    return Tokenizer.load(path)


def symbols_in(text: str) -> list[str]:
    """Symbols are matched from left to right, the longest first."""
    found = []
    while text:
        fitting = [symbol for symbol in SYMBOLS if text.startswith(symbol)]
        found += sorted(fitting, key=len)[-1:]
        text = text[max(map(len, fitting), default=1) :]
    return found


@given(MIXED.map("".join).map(normalize))
def test_symbols_are_one_piece_each_and_never_split(with_symbols: Tokenizer, text: str) -> None:
    ids = with_symbols.encode(text)
    assert with_symbols.decode(ids) == text
    pieces = with_symbols.pieces([i for i in ids if i in with_symbols.symbol_ids.values()])
    assert pieces == symbols_in(text)


def test_symbols_count_in_the_vocabulary_and_are_in_no_other_piece(
    with_symbols: Tokenizer, tokenizer: Tokenizer
) -> None:
    assert with_symbols.vocabulary_size == 345
    assert with_symbols.symbols == SYMBOLS
    assert tokenizer.symbols == () and len(tokenizer.encode("<2de>")) > 2
    pieces = with_symbols.pieces(range(UNK_ID + 1 + len(SYMBOLS) + 256, 345))
    assert not any(symbol in piece for piece in pieces for symbol in SYMBOLS)
    assert [with_symbols.symbol_ids[symbol] for symbol in SYMBOLS] == [4, 5, 6, 7]


def test_the_symbols_a_text_begins_with(with_symbols: Tokenizer, tokenizer: Tokenizer) -> None:
    assert with_symbols.split_tag("<2de> ##BT## Hund <2de>.") == ("<2de> ##BT## ", "Hund <2de>.")
    assert with_symbols.split_tag("<2de>>Hund") == ("<2de>>", "Hund")
    assert with_symbols.split_tag("Hund") == ("", "Hund")
    assert tokenizer.split_tag("<2de> Hund") == ("", "<2de> Hund")


def test_bytes_that_are_no_text_become_replacement_characters(tokenizer: Tokenizer) -> None:
    byte = [UNK_ID + 1 + value for value in range(256)]
    assert tokenizer.pieces([byte[0x41], EOS_ID]) == ["<0x41>", "</s>"]
    assert tokenizer.decode([byte[0xC3], *tokenizer.encode("Hund")]).startswith("\ufffd")
    assert tokenizer.decode([byte[0xF0], byte[0x9F]]) in ("\ufffd", "\ufffd\ufffd")
    assert tokenizer.decode([UNK_ID]) == "\ufffd"


def test_same_text_same_bytes_and_quiet(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train_tokenizer(iter(SENTENCES), 330, tmp_path / "again.model")
    assert (tmp_path / "again.model").read_bytes() == model.read_bytes()
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["again.model"]


def test_characters_as_rare_as_one_in_five_thousand_are_pieces(tmp_path: Path) -> None:
    """Capitals and digits of a small corpus among them; one in a hundred thousand is spelt out."""
    lines = ["the cat sees the dog " * 10] * 500
    train_tokenizer([*lines, "Q" * 20, "Z"], 300, tmp_path / "tokenizer.model")
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.model")
    last = [tokenizer.pieces(tokenizer.encode(letter))[-1] for letter in "QZ"]
    assert [piece.startswith("<0x") for piece in last] == [False, True]


def test_vocabulary_that_does_not_fit_names_the_one_that_does(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    with pytest.raises(
        InputError, match=r"a vocabulary of 5,000 tokens.*vocabulary_size to (\d+) or less"
    ) as caught:
        train_tokenizer(SENTENCES, 5000, path)
    largest = int(str(caught.value).split(" or less")[0].split()[-1])
    with pytest.raises(InputError, match=f"to {largest} or less"):
        train_tokenizer(SENTENCES, largest + 1, path)
    with pytest.raises(InputError, match=r"too small for .*Set it to (\d+) or more"):
        train_tokenizer(SENTENCES, 264, path)
    with pytest.raises(InputError, match="has no text"):
        train_tokenizer([], 300, path)
    assert not path.exists()
    train_tokenizer(SENTENCES, largest, path)
    assert Tokenizer.load(path).vocabulary_size == largest


def foreign(**options: object) -> bytes:
    """Returns a SentencePiece model trained with settings other than those of nmt."""
    model = io.BytesIO()
    common = {"vocab_size": 330, "model_type": "bpe", "byte_fallback": True, "minloglevel": 2}
    identity = {"normalization_rule_name": "identity"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, **common | identity | options
    )
    return model.getvalue()


def message(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited field of a protobuf message."""
    size, length = len(content), b""
    while size >= 128:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def piece(text: bytes, kind: bytes = b"") -> bytes:
    return message(1, message(1, text) + b"\x15" + struct.pack("<f", -9.0) + kind)


def hostile_models(sound: bytes) -> list[tuple[str, bytes]]:
    """Returns bad models, each with a part of its error message."""
    charsmap = message(3, message(1, b"x") + message(2, struct.pack("<I", 4) + b"\xff" * 8))
    return [
        ("not a valid tokenizer", b""),
        ("not a valid tokenizer", sound[:-7]),
        *(("not a valid tokenizer", random.Random(seed).randbytes(200)) for seed in range(20)),
        ("not a valid tokenizer", sound + piece(b"x\0y")),
        ("not a valid tokenizer", sound + charsmap),
        ("control character", sound + piece(b"a\x1b[2J")),
        ("control character", sound + piece("a\u2028".encode())),
        ("larger than 50,000,000 bytes", sound + bytes(50_000_000)),
        ("special or byte pieces", foreign()),
    ]


def test_r17_hostile_and_foreign_models_are_refused(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.model"
    for expected, content in hostile_models(model.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(NoModelError, match=re.escape(expected)) as error:
            Tokenizer.load(path)
        assert len(error.value.problems) == 1
    with pytest.raises(NoModelError, match="does not exist"):
        Tokenizer.load(tmp_path / "missing.model")


CHILD = r"""
import random, resource, struct, sys
from pathlib import Path
from nmt.data.tokenizer import Tokenizer
from nmt.errors import NoModelError
from tests.data.test_tokenizer import message, piece

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (400, 400))
sound, path, rng, loaded = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), random.Random(1), 0

def flipped():
    model = bytearray(sound)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(model) - 50)
        match rng.randrange(4):
            case 0: model[at] = rng.randrange(256)
            case 1: model[at] ^= 1 << rng.randrange(8)
            case 2: del model[at : at + rng.randint(1, 40)]
            case 3: model[at:at] = model[(start := rng.randrange(len(model))) : start + 30]
    return bytes(model)

def huge():
    return sound + piece(b"x" * rng.choice([65, 10_000, 200_000, 1_000_000]))

def with_nul():
    return sound + piece(rng.choice([b"\0", b"a\0b", b"\0a", b""]), rng.choice([b"", b"\x18\x04"]))

def with_characters():  # a map of characters: units of a double array, then what they stand for
    units = [rng.getrandbits(rng.choice([10, 31, 32])) for _ in range(512)]
    table = struct.pack("<I", 2048) + struct.pack("<512I", *units) + rng.choice([b"", b"a", b"a\0"])
    return sound + message(rng.choice([3, 5]), message(1, b"x") + message(2, table))

for number in range(500):
    path.write_bytes([flipped, flipped, huge, with_nul, with_characters][number % 5]())
    try:
        tokenizer = Tokenizer.load(path)
    except NoModelError:
        continue
    loaded += 1
    tokenizer.decode(tokenizer.encode("der Hund schl\u00e4ft \U0001f600 \x00" + "x" * 1000))
    tokenizer.decode(list(range(tokenizer.vocabulary_size)))
print(loaded)
"""


def test_r17_no_damaged_model_ends_the_process(model: Path, tmp_path: Path) -> None:
    """Flipped bytes, huge and NUL pieces, broken maps of characters, in a child.

    sentencepiece 0.2.1 crashes on the last two.
    """
    command = [sys.executable, "-c", CHILD, str(model), str(tmp_path / "changed.model")]
    child = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 30


def test_what_the_sentences_raise_is_raised(tmp_path: Path) -> None:
    """The signal's exception, not one of sentencepiece."""

    def stopped() -> Iterator[str]:
        yield from SENTENCES
        raise Stopped(15, "stopped")

    with pytest.raises(Stopped):
        train_tokenizer(stopped(), 330, tmp_path / "tokenizer.model")
    assert not list(tmp_path.iterdir())
