"""Our tokenizer for the `tokenizers` library, which gives the same ids for every text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.data.tokenizer import ESCAPES, Tokenizer
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

if TYPE_CHECKING:
    import tokenizers

_SPACE_SIGN = "\u2581"
# as `cleaning.normalize` has them
_CONTROLS = "[\\x{00}-\\x{08}\\x{0e}-\\x{1b}\\x{1f}\\x{7f}-\\x{84}\\x{86}-\\x{9f}\\x{feff}]"
_LINE_ENDS = "[\\t\\n\\x{0b}\\x{0c}\\r\\x{1c}-\\x{1e}\\x{85}\\x{2028}\\x{2029}]"


def tokenizer_json(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """The tokenizer, its normalization included, with an end symbol after each text."""
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Theirs
    from tokenizers.processors import TemplateProcessing

    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    ids = {piece: i for i, piece in enumerate(pieces)}
    unknown, end = pieces[UNK_ID], pieces[EOS_ID]
    found = Theirs(models.BPE(ids, _merges(pieces), unk_token=unknown, byte_fallback=True))
    replace = normalizers.Replace
    found.normalizer = normalizers.Sequence([
        replace(Regex(_LINE_ENDS), " "),
        replace(Regex(_CONTROLS), ""),
        normalizers.NFC(),
        *(replace(text, escape) for text, escape in ESCAPES),
        normalizers.Prepend(_SPACE_SIGN),
        replace(" ", _SPACE_SIGN),
    ])  # fmt: skip
    # no piece goes beyond a space
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
    found.encode_special_tokens = True  # "<s>" in a text is text
    return found


def _merges(pieces: list[str]) -> list[tuple[str, str]]:
    """All pairs of pieces that join to a piece; that of a lower id first, as it is merged first."""
    known = set(pieces[UNK_ID + 257 :])
    return [
        (piece[:at], piece[at:])
        for piece in pieces[UNK_ID + 257 :]
        for at in range(1, len(piece))
        if piece[:at] in known and piece[at:] in known
    ]
