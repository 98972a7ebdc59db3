"""The tokenizer gives back every normalized text, is reproducible, and refuses foreign models."""

import io
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.cleaning import normalize
from nmt.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, train_tokenizer
from nmt.errors import InputError, NoModelError

TEXT = "der die das ein Hund Katze Haus läuft schläft the a dog cat house runs sleeps 12 7, ß Ü ."
WORDS = TEXT.split()
SENTENCES = [
    " ".join(WORDS[(i * step + i // 7) % len(WORDS)] for i in range(5 + step % 9))
    for step in range(1, 200)
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    train_tokenizer(SENTENCES, 330, 1, path)
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
    assert tokenizer.encode_batch([text, "Hund"], threads=2) == [ids, tokenizer.encode("Hund")]
    assert tokenizer.decode([BOS_ID, *ids, EOS_ID, PAD_ID]) == text


def test_bytes_that_are_no_text_become_replacement_characters(tokenizer: Tokenizer) -> None:
    byte = [UNK_ID + 1 + value for value in range(256)]
    assert tokenizer.pieces([byte[0x41], EOS_ID]) == ["<0x41>", "</s>"]
    assert tokenizer.decode([byte[0xC3], *tokenizer.encode("Hund")]).startswith("\ufffd")
    assert tokenizer.decode([byte[0xF0], byte[0x9F]]) in ("\ufffd", "\ufffd\ufffd")
    assert tokenizer.decode([UNK_ID]) == "\ufffd"


def test_same_text_same_bytes_and_quiet(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train_tokenizer(iter(SENTENCES), 330, 2, tmp_path / "again.model")
    assert (tmp_path / "again.model").read_bytes() == model.read_bytes()
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["again.model"]


def test_vocabulary_that_does_not_fit_names_the_one_that_does(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    with pytest.raises(
        InputError, match=r"no 5,000 different pieces.*set it to (\d+) or less"
    ) as caught:
        train_tokenizer(SENTENCES, 5000, 1, path)
    largest = int(str(caught.value).split(" or less")[0].split()[-1])
    with pytest.raises(InputError, match=f"set it to {largest} or less"):
        train_tokenizer(SENTENCES, largest + 1, 1, path)
    with pytest.raises(InputError, match=r"too small for the characters .*set it to (\d+) or more"):
        train_tokenizer(SENTENCES, 264, 1, path)
    with pytest.raises(InputError, match="no text"):
        train_tokenizer([], 300, 1, path)
    assert not path.exists()
    train_tokenizer(SENTENCES, largest, 1, path)
    assert Tokenizer.load(path).vocabulary_size == largest


def foreign(**options: object) -> bytes:
    """A model of sentencepiece's that is not made as ours are."""
    model = io.BytesIO()
    common = {"vocab_size": 330, "model_type": "bpe", "byte_fallback": True, "minloglevel": 2}
    identity = {"normalization_rule_name": "identity"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, **common | identity | options
    )
    return model.getvalue()


def test_damaged_and_foreign_models_are_refused(model: Path, tmp_path: Path) -> None:
    sound = model.read_bytes()
    ours: dict[str, object] = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    piece = b"\x0a" + b"\xc0\x9a\x0c" + b"\x0a\xbc\x9a\x0c" + b"x" * 200_000  # one of 200 kB
    cases = {
        "no sentencepiece model": [sound[:-7], b"\x0b\xff\xff", bytes(range(256))],
        "a piece of 200,": [sound + piece],
        "empty": [b""],
        "special ids": [foreign()],
        "byte fallback": [foreign(**ours | {"byte_fallback": False, "vocab_size": 60})],
        "character map": [foreign(**ours | {"normalization_rule_name": "nmt_nfkc"})],
    }
    for message, models in cases.items():
        for content in models:
            (tmp_path / "bad.model").write_bytes(content)
            with pytest.raises(NoModelError, match=message):
                Tokenizer.load(tmp_path / "bad.model")
    with pytest.raises(NoModelError, match="no tokenizer"):
        Tokenizer.load(tmp_path / "missing.model")
