"""Adapts SentencePiece models from other sources to the token ids that nmt expects."""

from collections.abc import Sequence
from typing import Any

from nmt.data.tokenizer import BYTES, UNK_SURFACE, Tokenizer, with_target_model
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_DAMAGED = "it is damaged or not a SentencePiece model"
_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")  # in the order of their ids


def adapted(model: bytes) -> bytes:
    """Returns a SentencePiece model whose special and byte pieces have the ids that nmt expects.

    The special and byte pieces come first; all other pieces follow and keep their original order.
    The normalization, the pieces and the scores do not change, so the returned model splits every
    text into the same pieces as `model`. Pieces for PAD, BOS and EOS are added if `model` lacks
    them. The returned model encodes text as unknown pieces wherever `model` does.

    Args:
        model: content of a BPE or unigram model file.

    Raises:
        ValueError: the model is damaged, it is neither a BPE nor a unigram model, or its special or
            byte pieces cannot be used. The error message is a clause that begins with "it" or "its"
            and states the reason.
    """
    if _is_ours(model):
        return model
    proto = _parsed(model)
    spec, kinds = proto.trainer_spec, proto.SentencePiece
    rest = list(proto.pieces)
    special = [
        _control_piece(rest, name, proto)
        for name in (spec.pad_piece, spec.bos_piece, spec.eos_piece)
    ]
    unknown = [piece for piece in rest if piece.type == kinds.UNKNOWN]
    single_bytes = sorted((p for p in rest if p.type == kinds.BYTE), key=lambda p: p.piece)
    if len(unknown) != 1:
        raise ValueError(f"it has {len(unknown)} unknown pieces instead of one")
    if single_bytes and [piece.piece for piece in single_bytes] != BYTES:
        raise ValueError(f"it has {len(single_bytes)} byte pieces instead of 256 or none")
    first = [*special, *unknown, *single_bytes]
    others = [p for p in rest if p.type not in (kinds.UNKNOWN, kinds.BYTE) and p not in special]
    return _with_pieces(proto, first + others)


def joint(source: bytes, target: bytes, pieces: Sequence[str]) -> bytes:
    """Returns the content of a tokenizer file that joins the SentencePiece models of two languages.

    Each SentencePiece model keeps its normalization and its scores, but both models get the same
    pieces and ids: nmt's special tokens, then `pieces`. Pieces that a model lacks are added to it.
    When the model encodes text, it outputs only those added pieces that are single characters.
    Pieces of a model that are not in `pieces` are removed, and their text is split into smaller
    pieces.

    Args:
        source, target: content of the BPE or unigram model file for each side.
        pieces: the joint vocabulary without special tokens, in the order of the token ids.

    Raises:
        ValueError: a model is damaged, is neither a BPE nor a unigram model, or has byte pieces.
            The error message is a clause that begins with "it" or "its" and states the reason.
    """
    return with_target_model(_with_vocabulary(source, pieces), _with_vocabulary(target, pieces))


def _with_vocabulary(model: bytes, pieces: Sequence[str]) -> bytes:
    proto = _parsed(model)
    spec, new = proto.trainer_spec, proto.SentencePiece
    if any(piece.type == new.BYTE for piece in proto.pieces):
        raise ValueError("it has byte pieces, which are not supported here")
    spec.pad_piece, spec.bos_piece, spec.eos_piece, spec.unk_piece = _SPECIAL
    special = [
        new(piece=name, score=0.0, type=new.UNKNOWN if name == spec.unk_piece else new.CONTROL)
        for name in _SPECIAL
    ]
    own = {p.piece: p for p in proto.pieces if p.type in (new.NORMAL, new.USER_DEFINED)}
    least = min((piece.score for piece in own.values()), default=0.0)

    def added(name: str) -> Any:
        kind = new.NORMAL if len(name) == 1 else new.UNUSED
        return new(piece=name, score=least, type=kind)

    return _with_pieces(proto, special + [own.get(name) or added(name) for name in pieces])


def _parsed(model: bytes) -> Any:
    """Returns the ModelProto of a BPE or unigram model; raises ValueError for other files."""
    from google.protobuf.message import DecodeError  # late: few commands need protobuf
    from sentencepiece import sentencepiece_model_pb2

    messages: Any = sentencepiece_model_pb2  # its classes are created when it is imported
    proto = messages.ModelProto()
    try:
        proto.ParseFromString(model)
    except DecodeError:
        raise ValueError(_DAMAGED) from None
    spec = proto.trainer_spec
    if spec.model_type not in (spec.UNIGRAM, spec.BPE):
        name = spec.ModelType.Name(spec.model_type).lower()
        raise ValueError(f"it is a {name} model, not a BPE or unigram model")
    return proto


def _with_pieces(proto: Any, pieces: Sequence[Any]) -> bytes:
    """Replaces a model's pieces with `pieces` and returns the content of the model file."""
    spec, pieces = proto.trainer_spec, list(pieces)
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    spec.pad_id, spec.bos_id, spec.eos_id, spec.unk_id = PAD_ID, BOS_ID, EOS_ID, UNK_ID
    spec.unk_surface, spec.vocab_size = UNK_SURFACE, len(proto.pieces)
    found = proto.SerializeToString(deterministic=True)
    try:
        Tokenizer(found)
    except RuntimeError:
        raise ValueError(_DAMAGED) from None
    return found


def _is_ours(model: bytes) -> bool:
    try:
        Tokenizer(model)
    except (RuntimeError, ValueError):
        return False
    return True


def _control_piece(pieces: Sequence[Any], name: str, proto: Any) -> Any:
    """Returns the control piece with the given name, or a new one if the model lacks it."""
    for piece in pieces:
        if piece.piece == name:
            if piece.type != piece.CONTROL:
                raise ValueError(f"its piece {name} is ordinary text, not a control piece")
            return piece
    return proto.SentencePiece(piece=name, score=0.0, type=proto.SentencePiece.CONTROL)
