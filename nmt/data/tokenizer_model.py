"""The form of our tokenizer models, special ids included; checked before C++ code sees one.

A model may come from anywhere. Versions of sentencepiece up to 0.2.1 crash on very long pieces
(its issue 1263) and read beyond a crafted character map (1269); so nothing is let through but what
`train_tokenizer` writes: BPE without normalization, our special pieces, the symbols of the
configuration, the 256 bytes, ordinary pieces. Numbers of fields are those of
sentencepiece_model.proto.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any

from nmt.config import symbols_fault
from nmt.data.cleaning import needs_repair
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

UNK_SURFACE = "\ufffd"  # what the unknown id is decoded as
MAX_MODEL_BYTES = 50_000_000
_MAX_PIECES = 1_000_000
_MAX_PIECE_BYTES = 64  # 16 characters, sentencepiece's own bound in training

_VARINT, _BYTES, _FLOAT = 0, 2, 5  # wire types of protobuf
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6  # types of pieces
_FIRST_PIECES = {
    PAD_ID: (b"<pad>", _CONTROL),
    BOS_ID: (b"<s>", _CONTROL),
    EOS_ID: (b"</s>", _CONTROL),
    UNK_ID: (b"<unk>", _UNKNOWN),
}
_BYTES_OF_TEXT = [(b"<0x%02X>" % byte, _BYTE) for byte in range(256)]
# model_type BPE, byte_fallback, unk_id, bos_id, eos_id, pad_id
_TRAINER = {3: 2, 35: 1, 40: UNK_ID, 41: BOS_ID, 42: EOS_ID, 43: PAD_ID}
_SYMBOLS = 31  # user_defined_symbols, a field for each


def check_model(model: bytes) -> tuple[str, ...]:
    """The symbols of a model; ValueError unless it has the form of those that we write."""
    if len(model) > MAX_MODEL_BYTES:
        raise ValueError(f"more than {MAX_MODEL_BYTES:,} bytes")
    pieces: list[tuple[bytes, int]] = []
    trainer: dict[int, Any] = {}
    declared: list[str] = []
    try:
        for number, wire, value in _fields(model):
            if (number, wire) == (1, _BYTES):
                pieces.append(_checked_piece(value, len(pieces)))
            elif (number, wire) == (2, _BYTES):
                trainer |= _values(value, {44: [UNK_SURFACE.encode()]}, declared)
            elif (number, wire) == (3, _BYTES):  # normalizer_spec: name, character map
                _values(value, {1: [b"identity"], 2: [b""]})
            else:
                raise ValueError(f"it has a field {number}, which ours do not have")
    except (IndexError, struct.error):
        raise ValueError("no sentencepiece model") from None
    if fault := symbols_fault(declared):
        raise ValueError(fault)
    _check_kinds(pieces, declared)
    if not trainer.items() >= _TRAINER.items():
        raise ValueError("no BPE with byte fallback and special ids 0, 1, 2, 3")
    return tuple(declared)


def _check_kinds(pieces: list[tuple[bytes, int]], symbols: list[str]) -> None:
    """Raises ValueError unless special pieces, symbols, bytes and text follow in this order."""
    first = [_FIRST_PIECES[i] for i in range(len(_FIRST_PIECES))]
    first += [(symbol.encode(), _USER_DEFINED) for symbol in symbols]
    first += _BYTES_OF_TEXT
    for index, (piece, expected) in enumerate(zip(pieces, first, strict=False)):
        if piece != expected:
            raise ValueError(f"piece {index} is of another kind than ours")
    if len(pieces) <= len(first):
        raise ValueError(f"only {len(pieces)} pieces")
    for index, (_, kind) in enumerate(pieces[len(first) :], len(first)):
        if kind != _NORMAL:
            raise ValueError(f"piece {index} is of another kind than ours")


def _checked_piece(message: bytes, index: int) -> tuple[bytes, int]:
    """The text of a piece, and its type."""
    text, score, kind = b"", 0.0, _NORMAL
    for number, wire, value in _fields(message):
        if (number, wire) == (1, _BYTES):
            text = value
        elif (number, wire) == (2, _FLOAT):
            score = value
        elif (number, wire) == (3, _VARINT):
            kind = value
        else:
            raise ValueError(f"a piece has a field {number}, which ours do not have")
    if not 0 < len(text) <= _MAX_PIECE_BYTES:
        raise ValueError(f"a piece of {len(text):,} bytes")
    if index >= _MAX_PIECES:
        raise ValueError(f"more than {_MAX_PIECES:,} pieces")
    if not math.isfinite(score):
        raise ValueError(f"piece {index} has no finite score")
    if needs_repair(text.decode()):  # UnicodeDecodeError is a ValueError
        raise ValueError(f"piece {index} holds a line end or another control character")
    return text, kind


def _values(
    message: bytes, texts: dict[int, list[bytes]], symbols: list[str] | None = None
) -> dict[int, Any]:
    """The values in a message that may hold numbers, and of texts only `texts`.

    Args:
        symbols: user_defined_symbols are allowed as well, and are appended to this.
    """
    found = {}
    for number, wire, value in _fields(message):
        if wire == _BYTES and number == _SYMBOLS and symbols is not None:
            symbols.append(value.decode())  # UnicodeDecodeError is a ValueError
            continue
        if wire == _BYTES and value not in texts.get(number, ()):
            raise ValueError(f"a setting of {len(value):,} bytes in field {number}")
        found[number] = value
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of each field of a protobuf message, in order.

    Raises:
        ValueError, IndexError, struct.error: no message, or wire types that our models do not use.
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == _BYTES:
            size, at = _varint(message, at)
            if size > end - at:
                raise IndexError
            yield number, wire, message[at : at + size]
            at += size
        elif wire == _VARINT:
            value, at = _varint(message, at)
            yield number, wire, value
        elif wire == _FLOAT:
            yield number, wire, struct.unpack_from("<f", message, at)[0]
            at += 4
        else:
            raise IndexError


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = message[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for shift in range(7, 64, 7):
        at += 1
        byte = message[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
    raise IndexError
