"""Converts a tokenizer to the format of the `tokenizers` library without changing token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.data.tokenizer import ESCAPES, Tokenizer
from nmt.errors import InputError
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

if TYPE_CHECKING:
    import tokenizers

_SPACE_SIGN = "\u2581"
# Characters that `cleaning.normalize` replaces with a space or removes
_LINE_ENDS = r"\t\n\x{0b}\x{0c}\r\x{1c}-\x{1e}\x{85}\x{2028}\x{2029}"
_CONTROLS = r"\x{00}-\x{08}\x{0e}-\x{1b}\x{1f}\x{7f}-\x{84}\x{86}-\x{9f}\x{feff}"
_BLANKS = r" \x{a0}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}"
_INVISIBLE = r"\x{ad}\x{200b}\x{2060}"


def tokenizer_json(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Returns a `tokenizers.Tokenizer` that normalizes, encodes and decodes text and appends EOS.

    Raises:
        InputError: the tokenizer has symbols, around which the `tokenizers` library splits text
            differently from nmt.
    """
    from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Theirs
    from tokenizers.processors import TemplateProcessing

    if tokenizer.symbols:
        raise InputError(
            f"The tokenizers library splits text around tokenizer.symbols "
            f"({', '.join(tokenizer.symbols)}) differently from nmt. Export to "
            "ctranslate2 instead."
        )
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    ids = {piece: i for i, piece in enumerate(pieces)}
    unknown, end = pieces[UNK_ID], pieces[EOS_ID]
    found = Theirs(models.BPE(ids, _merges(pieces), unk_token=unknown, byte_fallback=True))
    replace = normalizers.Replace
    found.normalizer = normalizers.Sequence([
        *_cleaning(),
        normalizers.NFC(),
        *(replace(text, escape) for text, escape in ESCAPES),
        normalizers.Prepend(_SPACE_SIGN),
        replace(" ", _SPACE_SIGN),
    ])  # fmt: skip
    # splits text before each space, because no token extends beyond a space
    found.pre_tokenizer = pre_tokenizers.Split(_SPACE_SIGN, "merged_with_next")
    found.decoder = decoders.Sequence([
        decoders.Replace(_SPACE_SIGN, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
        *(decoders.Replace(escape, text) for text, escape in reversed(ESCAPES)),
    ])  # fmt: skip
    found.post_processor = TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, EOS_ID)]
    )
    special = (PAD_ID, BOS_ID, EOS_ID, UNK_ID)
    found.add_special_tokens(
        [AddedToken(pieces[i], normalized=False, special=True) for i in special]
    )
    found.encode_special_tokens = True  # treats "<s>" in a text as text
    return found


def _cleaning() -> list[tokenizers.normalizers.Normalizer]:
    from tokenizers import Regex
    from tokenizers.normalizers import Replace, Strip

    return [
        Replace(Regex(f"[{_CONTROLS}{_INVISIBLE}]"), ""),
        Replace(Regex(f"[{_LINE_ENDS}{_BLANKS}]+"), " "),
        Strip(),
    ]


def _merges(pieces: list[str]) -> list[tuple[str, str]]:
    """Returns all pairs of pieces that form another piece, ordered by the id of the new piece."""
    known = set(pieces[UNK_ID + 257 :])
    return [
        (piece[:at], piece[at:])
        for piece in pieces[UNK_ID + 257 :]
        for at in range(1, len(piece))
        if piece[:at] in known and piece[at:] in known
    ]
