"""SentencePiece models trained elsewhere keep their pieces, with nmt's ids, or are refused."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import sentencepiece
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from nmt.cli import main
from nmt.config import validate
from nmt.data.foreign_tokenizer import adapted
from nmt.data.prepared_data import PreparedData
from nmt.data.tokenizer import BYTES, Tokenizer
from nmt.errors import InputError
from nmt.export.huggingface import export_huggingface
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.runs.model_directory import load_model
from nmt.translator import Translator
from tests.fixtures.make import TRAINED
from tests.tiny import tiny_settings

TEXT = ["The man reads a book.", "Der Mann liest ein Buch.", "ﬁve  ½ Straße", "日本"] * 3
TEXT += [line for side in ("en", "de") for line in (TRAINED / f"train.{side}").open()]
KINDS = {
    "unigram": {"model_type": "unigram", "vocab_size": 90},
    "bpe with bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 330},
    "of T5's kind": {"vocab_size": 90, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "names of its own": {"vocab_size": 90, "bos_piece": "[BOS]", "eos_piece": "[EOS]",
                         "control_symbols": "<mask>", "user_defined_symbols": "<de>"},
    "lower case, no normal order": {
        "vocab_size": 90, "normalization_rule_name": "nmt_nfkc_cf", "unk_id": 2, "eos_id": 0,
    },
}  # fmt: skip


def trained(**options) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, minloglevel=2, **options
    )
    return model.getvalue()


def retyped(model: bytes, name: str, kind: int) -> bytes:
    proto = ModelProto.FromString(model)
    for piece in proto.pieces:
        if piece.piece == name:
            piece.type = kind
    return proto.SerializeToString()


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_split_as_before_and_special_ids_are_ours(kind):
    before = sentencepiece.SentencePieceProcessor(model_proto=trained(**KINDS[kind]))
    after = Tokenizer(adapted(trained(**KINDS[kind])))
    processor = sentencepiece.SentencePieceProcessor(model_proto=after.model)
    special = processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()
    assert special == (PAD_ID, BOS_ID, EOS_ID, UNK_ID)
    missing = [before.pad_id(), before.bos_id(), before.eos_id()].count(-1)
    assert after.vocabulary_size == before.vocab_size() + missing
    assert after.has_bytes == ("bytes" in kind)
    for text in [*TEXT[:4], "Ein <de> Haus!", "  zwei   Blanks ", "<0x41> <s> <mask>", "x" * 99]:
        pieces = before.id_to_piece(before.encode(text))
        assert after.pieces(after.encode(text)) == pieces
        if "<unk>" not in pieces and "\u2047" not in before.decode(before.encode(text)):
            assert after.decode(after.encode(text)) == before.decode(before.encode(text))
    assert adapted(after.model) == after.model and after.decode([UNK_ID]) == "\ufffd"
    spelt = b"".join(after.spelling(after.encode("The man")))
    assert spelt.decode().lower() == " the man"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (b"nothing of the kind", "damaged"),
        (b"", "0 unknown pieces"),
        (trained(model_type="char", vocab_size=40), "char model"),
        (retyped(trained(vocab_size=90), "</s>", 1), "</s> is ordinary text"),
        (retyped(trained(**KINDS["bpe with bytes"]), BYTES[7], 1), "255 byte pieces"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(model, message):
    with pytest.raises(ValueError, match=message):
        adapted(model)


def test_prepare_uses_the_model(tmp_path: Path, capsys):
    content = tiny_settings(tmp_path)
    content["tokenizer"] = {"vocabulary_size": 300, "model": str(tmp_path / "their.model")}
    path = tmp_path / "their.model"
    config = tmp_path / "config.yaml"
    config.write_text(validate(content, {}, "test").to_yaml(), encoding="utf-8")
    assert main(["prepare", str(config)]) == 2
    path.write_bytes(trained(**KINDS["bpe with bytes"]))
    assert main(["prepare", str(config)]) == 2
    assert "has 331 tokens" in capsys.readouterr().err
    path.write_bytes(b"no model")
    assert main(["prepare", str(config)]) == 2
    assert "(tokenizer.model) cannot be used: it is damaged" in capsys.readouterr().err
    assert not Path(content["data"]["directory"]).exists()  # found before the text is cleaned
    path.write_bytes(trained(**KINDS["bpe with bytes"]))
    for theirs in (path.read_bytes(), trained(**KINDS["bpe with bytes"], split_digits=True)):
        path.write_bytes(theirs)
        assert main(["prepare", str(config), "tokenizer.vocabulary_size=331"]) == 0
        used = PreparedData.open(Path(content["data"]["directory"])).tokenizer()
        assert used.model == adapted(theirs)
    with pytest.raises(InputError, match="cannot be added"):
        validate(content | {"tokenizer": {"model": "x", "symbols": ["<BT>"]}}, {}, "test")


def test_an_export_that_would_split_text_in_another_way_is_refused(tmp_path: Path):
    model = load_model(TRAINED / "run", device=torch.device("cpu"))
    tokenizer = model.config.tokenizer.model_copy(update={"model": "their.model"})
    plain = model.config.model.model_copy(update={"attention_window": None, "d_k": 8, "d_v": 8})
    config = model.config.model_copy(update={"tokenizer": tokenizer, "model": plain})
    with pytest.raises(InputError, match=r"their\.model \(tokenizer\.model\)"):
        export_huggingface(
            Translator.load(TRAINED / "run"), tmp_path, replace(model, config=config)
        )
    assert not list(tmp_path.iterdir())
