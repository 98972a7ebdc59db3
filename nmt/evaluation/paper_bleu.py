"""BLEU to set beside the paper's: of Moses tokens, words split at hyphens, counted as in 2017.

The paper does not say how it counts. For German this is what the authors' published evaluation
script does, get_ende_bleu.sh of tensor2tensor: it replaces the translations' Unicode punctuation
as replace-unicode-punctuation.perl does (“ ” ’ become straight; „ ‚ ‘ and guillemets stay), makes
Moses tokens, writes `rich-text` as `rich ##AT##-##AT## text`, and calls multi-bleu.perl. Its
reference was tokenized already and has straight quotation marks (tensor2tensor, issue 317), so
here the reference gets these: a translation with „ loses that token, as it did there. For French
no script was published; the same steps with Moses' French rules are taken on both sides alike.

How far it is from sacreBLEU depends on the text: see docs/paper.md. It
compares only with the paper's figures and with others computed in this way.

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

CONVENTIONS = {  # by target language
    "de": "case-sensitive multi-bleu of Moses tokens, split at hyphens, as get_ende_bleu.sh: "
    "straight quotes in the reference, „ ‚ ‘ and guillemets kept in the translation; not sacreBLEU",
    "fr": "case-sensitive multi-bleu of Moses tokens, split at hyphens, punctuation as in "
    "get_ende_bleu.sh on both sides; not sacreBLEU",
}

# As replace-unicode-punctuation.perl has it. Spaces behind 。 and ． vanish in tokenization.
_PUNCTUATION = dict(
    zip("，、∶：？《》）！（；」「～━〈〉【】％０１２３４５６７８９“”’",
        ",,::?\"\")!(;\"\"~-<>[]%0123456789\"\"'", strict=True),
    **{"…": "...", "。": ". ", "．": ". "},
)  # fmt: skip
_QUOTES = dict.fromkeys("„‟«»", '"') | dict.fromkeys("‚‘‛‹›", "'")
_OF_THE_SCRIPT = str.maketrans(_PUNCTUATION)
_OF_THE_GERMAN_REFERENCE = str.maketrans(_PUNCTUATION | _QUOTES)
# On bytes, as the authors' perl -ple has it: of "vis-à-vis" both hyphens are split, of "a-b-c" one
_COMPOUND = re.compile(rb"(\S)-(\S)")


def paper_bleu(
    hypotheses: Sequence[str], *references: Sequence[str], target_language: str = "de"
) -> tuple[float, tuple[float, float]]:
    """Corpus BLEU of detokenized German or French text, to set beside the paper's, 0 to 100.

    Args:
        hypotheses: one translation a sentence.
        references: one or more lists, each with one reference a sentence, as raw text.
        target_language: a key of `CONVENTIONS`.

    Returns:
        The score, and the bounds of its 95% confidence interval, see `bleu_interval`.

    Raises:
        InputError: nothing to score, or unequal numbers of lines.
    """
    from sacrebleu.metrics.bleu import BLEU

    check_texts(hypotheses, references)
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)  # as multi-bleu.perl counts
    translated = [paper_tokens(line, target_language) for line in hypotheses]
    to_match = [
        [paper_tokens(line, target_language, of_reference=True) for line in side]
        for side in references
    ]
    return bleu.corpus_score(translated, to_match).score, interval(bleu, translated, to_match)


def paper_tokens(line: str, target_language: str = "de", *, of_reference: bool = False) -> str:
    """The tokens of a sentence, joined by spaces.

    'Er sagte: „Rock-Musik.“' -> 'Er sagte : „ Rock ##AT##-##AT## Musik . &quot;', and of a
    reference 'Er sagte : &quot; Rock ...'.
    """
    is_straight = of_reference and target_language == "de"
    line = line.translate(_OF_THE_GERMAN_REFERENCE if is_straight else _OF_THE_SCRIPT)
    tokens = _tokenizer(target_language).tokenize(line, return_str=True)
    tokens = _split_last_stop(tokens)
    return _COMPOUND.sub(rb"\1 ##AT##-##AT## \2", tokens.encode()).decode()


def _split_last_stop(tokens: str) -> str:
    """Splits off the full stop that ends a line, even that of an abbreviation.

    tokenizer.perl does this, sacremoses does not: "usw." -> "usw ."; "usw ..." stays.
    """
    ends_in_one = tokens[-1:] == "." and tokens[-2:-1] not in ("", " ", ".")
    return f"{tokens[:-1]} ." if ends_in_one else tokens


@functools.cache
def _tokenizer(language: str) -> "MosesTokenizer":
    import regex
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    # sacremoses's list of letters lacks Chinese ones and all that Unicode has added since 2015
    tokenizer.PAD_NOT_ISALNUM = regex.compile(r"([^\p{Alnum}\s.'`,\-])"), r" \1 "
    return tokenizer
