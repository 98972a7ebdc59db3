"""BLEU as the paper reports it for English-German: of Moses tokens, compounds split at hyphens.

The convention is that of the authors' get_ende_bleu.sh (tensor2tensor): Unicode punctuation
replaced, Moses tokens, `rich-text` written `rich ##AT##-##AT## text`, then multi-bleu.perl. Their
reference had straight quotation marks as well (tensor2tensor issue 317); here both sides get them,
so that „so“ and "so" are the same. The score is about a point above sacreBLEU's on the same text,
and compares only with the paper's and with others computed in this way.

On 269,089 German sentences (news, captions, web, parliament) the tokens are those of the Perl
scripts, without exception. They differ, for example, where a Chinese letter precedes a full stop
inside a sentence.
"""

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.evaluation.bleu import check_texts, interval

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

CONVENTION = (
    "case-sensitive multi-bleu of Moses tokens, straight quotes, compounds split at hyphens; "
    "not sacreBLEU"
)

_QUOTES = dict.fromkeys("„“”‟«»", '"') | dict.fromkeys("‚‘’‛‹›", "'")
# As replace-unicode-punctuation.perl has it. Spaces behind 。 and ． vanish in tokenization.
_PUNCTUATION = dict(
    zip("，、∶：？《》）！（；」「～━〈〉【】％０１２３４５６７８９",
        ",,::?\"\")!(;\"\"~-<>[]%0123456789", strict=True),
    **{"…": "...", "。": ". ", "．": ". "},
)  # fmt: skip
_TO_ASCII = str.maketrans(_PUNCTUATION | _QUOTES)
# On bytes, as the authors' perl -ple has it: of "vis-à-vis" both hyphens are split, of "a-b-c" one
_COMPOUND = re.compile(rb"(\S)-(\S)")


def paper_bleu(
    hypotheses: Sequence[str], *references: Sequence[str]
) -> tuple[float, tuple[float, float]]:
    """Corpus BLEU of detokenized German text in the paper's convention, 0 to 100.

    Args:
        hypotheses: one translation a sentence.
        references: one or more lists, each with one reference a sentence, as raw text.

    Returns:
        The score, and the bounds of its 95% confidence interval, see `bleu_interval`.

    Raises:
        InputError: nothing to score, or unequal numbers of lines.
    """
    from sacrebleu.metrics.bleu import BLEU

    check_texts(hypotheses, references)
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)  # as multi-bleu.perl counts
    tokenized = [[paper_tokens(line) for line in side] for side in (hypotheses, *references)]
    texts = tokenized[0], tokenized[1:]
    return bleu.corpus_score(*texts).score, interval(bleu, *texts)


def paper_tokens(line: str) -> str:
    """The tokens of a German sentence, joined by spaces.

    'Er sagte: „Rock-Musik.“' -> 'Er sagte : &quot; Rock ##AT##-##AT## Musik . &quot;'
    """
    tokens = _tokenizer().tokenize(line.translate(_TO_ASCII), return_str=True)
    tokens = _split_last_stop(tokens)
    return _COMPOUND.sub(rb"\1 ##AT##-##AT## \2", tokens.encode()).decode()


def _split_last_stop(tokens: str) -> str:
    """Splits off the full stop that ends a line, even that of an abbreviation.

    tokenizer.perl does this, sacremoses does not: "usw." -> "usw ."; "usw ..." stays.
    """
    ends_in_one = tokens[-1:] == "." and tokens[-2:-1] not in ("", " ", ".")
    return f"{tokens[:-1]} ." if ends_in_one else tokens


@functools.cache
def _tokenizer() -> "MosesTokenizer":
    import regex
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer("de")
    # sacremoses's list of letters lacks Chinese ones and all that Unicode has added since 2015
    tokenizer.PAD_NOT_ISALNUM = regex.compile(r"([^\p{Alnum}\s.'`,\-])"), r" \1 "
    return tokenizer
