"""Computes BLEU as in the paper, with multi-bleu on Moses tokens that are split at hyphens.

The paper does not describe how BLEU was computed. For German, this module follows the authors'
published script, get_ende_bleu.sh of tensor2tensor. The script replaces Unicode punctuation in the
translations with replace-unicode-punctuation.perl, which replaces the quotation marks “ ” ’ with
straight quotation marks, but keeps „ ‚ ‘ and guillemets. The script then tokenizes the translations
with Moses, replaces hyphens (`rich-text` becomes `rich ##AT##-##AT## text`), and calls
multi-bleu.perl. The authors' reference was already tokenized and had straight quotation marks
(tensor2tensor, issue 317). Therefore, this module replaces all quotation marks in the reference
with straight quotation marks. As in the authors' evaluation, a „ in a translation never matches the
reference. The authors did not publish a script for French. This module applies the same steps, with
Moses' French rules, to French translations and references.

The difference between paper BLEU and sacreBLEU's BLEU depends on the text (see docs/paper.md).
Paper BLEU is comparable only with the paper's scores and with scores computed in the same way.

This module and the Perl scripts produced the same tokens for 269,089 German sentences (news,
captions, web pages and debates). For other text, the tokens can differ, for example if a full stop
follows a Chinese character within a sentence.
"""

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.evaluation.bleu import check_texts, interval

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

ABOUT_PAPER_BLEU = (
    "computed with the steps of the authors' get_ende_bleu.sh; compare it with the paper's BLEU, "
    "not with sacreBLEU's"
)
# By target language. Stored with scores, which are computed again if the text has changed.
CONVENTIONS = {
    "de": "case-sensitive multi-bleu of Moses tokens, split at hyphens, as get_ende_bleu.sh: "
    "straight quotes in the reference, „ ‚ ‘ and guillemets kept in the translation; not sacreBLEU",
    "fr": "case-sensitive multi-bleu of Moses tokens, split at hyphens, punctuation as in "
    "get_ende_bleu.sh on both sides; not sacreBLEU",
}

# As in replace-unicode-punctuation.perl; tokenization removes spaces after 。 and ．
_PUNCTUATION = dict(
    zip("，、∶：？《》）！（；」「～━〈〉【】％０１２３４５６７８９“”’",
        ",,::?\"\")!(;\"\"~-<>[]%0123456789\"\"'", strict=True),
    **{"…": "...", "。": ". ", "．": ". "},
)  # fmt: skip
_QUOTES = dict.fromkeys("„‟«»", '"') | dict.fromkeys("‚‘‛‹›", "'")
_OF_THE_SCRIPT = str.maketrans(_PUNCTUATION)
_OF_THE_GERMAN_REFERENCE = str.maketrans(_PUNCTUATION | _QUOTES)
# Matches bytes, as the authors' perl -ple does, and thus both hyphens in "vis-à-vis" but only one
# in "a-b-c"
_COMPOUND = re.compile(rb"(\S)-(\S)")


def paper_bleu(
    hypotheses: Sequence[str], *references: Sequence[str], target_language: str = "de"
) -> tuple[float, tuple[float, float]]:
    """Computes the paper BLEU of a corpus of detokenized German or French translations.

    Args:
        hypotheses: one detokenized translation per sentence.
        references: one or more lists, each with one detokenized reference per sentence.
        target_language: language of the translations, "de" or "fr".

    Returns:
        The score (0 to 100) and a 95% confidence interval, computed as in `bleu_interval`.

    Raises:
        InputError: there are no translations, the numbers of translations and references differ, or
            a line has too many words.
    """
    from sacrebleu.metrics.bleu import BLEU

    check_texts(hypotheses, references)
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)  # like multi-bleu.perl
    translated = [paper_tokens(line, target_language) for line in hypotheses]
    to_match = [
        [paper_tokens(line, target_language, of_reference=True) for line in side]
        for side in references
    ]
    return bleu.corpus_score(translated, to_match).score, interval(bleu, translated, to_match)


def paper_tokens(line: str, target_language: str = "de", *, of_reference: bool = False) -> str:
    """Tokenizes a sentence for paper BLEU and joins the tokens with spaces.

    For example, the translation 'Er sagte: „Rock-Musik.“' becomes 'Er sagte : „ Rock ##AT##-##AT##
    Musik . &quot;', whereas the same text as a reference begins with 'Er sagte : &quot; Rock'.
    """
    is_straight = of_reference and target_language == "de"
    line = line.translate(_OF_THE_GERMAN_REFERENCE if is_straight else _OF_THE_SCRIPT)
    tokens = _tokenizer(target_language).tokenize(line, return_str=True)
    tokens = _split_last_stop(tokens)
    return _COMPOUND.sub(rb"\1 ##AT##-##AT## \2", tokens.encode()).decode()


def _split_last_stop(tokens: str) -> str:
    """Separates the full stop at the end of a line from the last word, even after abbreviations.

    For example, "usw." becomes "usw .", but "usw ..." is not changed. Moses' tokenizer.perl also
    separates this full stop, but sacremoses does not.
    """
    ends_in_one = tokens[-1:] == "." and tokens[-2:-1] not in ("", " ", ".")
    return f"{tokens[:-1]} ." if ends_in_one else tokens


@functools.cache
def _tokenizer(language: str) -> "MosesTokenizer":
    import regex
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    # sacremoses's list of letters lacks Chinese characters and additions to Unicode since 2015
    tokenizer.PAD_NOT_ISALNUM = regex.compile(r"([^\p{Alnum}\s.'`,\-])"), r" \1 "
    return tokenizer
