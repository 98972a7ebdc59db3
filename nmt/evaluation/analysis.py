"""Analyzes the translations of a test set: their scores, word accuracy, faults and calibration.

docs/analysis.md defines each measure and cites its source. In this module, "word" means a token of
sacreBLEU's BLEU tokenizer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from nmt.data.prepared_data import PreparedData
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError
from nmt.evaluation.bleu import Counting, bleu_interval, bleu_metric, score
from nmt.evaluation.calibration import Calibration, calibration
from nmt.evaluation.test_sets import TestSet
from nmt.runs.found_model import FoundModel
from nmt.translator import Translator

LENGTHS = (10, 20, 30, 40, 50, 60)  # source words; both lists are compare-mt's defaults
FREQUENCIES = (1, 2, 3, 4, 5, 10, 100, 1000)  # occurrences in the training data

_REPEATED_WORDS, _EXCESS = 4, 2  # n and t of Guerreiro et al. (2023)

Words = Callable[[str], list[str]]  # splits a text into words


@dataclass(frozen=True)
class LengthBucket:
    """The scores of the sentences whose source length falls into a given range."""

    words: str  # such as "10-19"
    sentences: int
    bleu: float | None  # None if there are no sentences
    bleu_interval: tuple[float, float] | None  # 95% confidence interval
    chrf: float | None


@dataclass(frozen=True)
class FrequencyBucket:
    """The accuracy on words whose frequency in the training targets falls into a given range."""

    occurrences: str  # such as "5-9"
    reference_words: int
    translation_words: int
    matches: int  # words that translations share with their references (clipped counts)
    precision: float | None  # matches per translation word; None if there are none
    recall: float | None  # matches per reference word; None if there are none
    f_measure: float | None


@dataclass(frozen=True)
class Faults:
    """The number of translations or references with each kind of fault."""

    empty: int  # empty, although the source is not empty
    copies: int  # equal to the source
    repetitive: int  # the maximum count of a 4-gram exceeds the count in the source by 2 or more


@dataclass(frozen=True)
class Analysis:
    """An analysis of the translations of a test set."""

    sentences: int
    length_ratio: float  # words of the translations per word of the references
    translations: Faults
    references: Faults  # in the first list of references
    by_source_length: list[LengthBucket]
    by_word_frequency: list[FrequencyBucket] | None
    calibration: Calibration | None
    missing: list[str]  # what could not be computed, and the reason


def analyze(
    translations: Sequence[str],
    tests: TestSet,
    counting: Counting,
    found: FoundModel | None = None,
    translator: Translator | None = None,
) -> Analysis:
    """Analyzes the translations of a test set.

    Args:
        counting: the options for computing BLEU.
        found: the model. Word frequencies are counted in the model's training data.
        translator: the loaded model, which is used to measure its calibration. If `found` or
            `translator` is None, the analysis contains neither word frequencies nor calibration.
    """
    assert tests.sources is not None
    words, missing = words_of(counting), list[str]()
    language = found.config.data.source_language if found else None
    try:
        of_source = words_of({"target_language": language})
    except InputError:  # sacreBLEU's tokenizer for this language is not installed
        missing.append(f"source lengths in words of {language}; they are given in characters")
        of_source = words_of({"tokenize": "char"})
    of_target = words_of({"target_language": counting.get("target_language")})
    sources = list(map(of_source, tests.sources))
    frequencies = calibrated = None
    if found is None or translator is None:
        missing.append("word frequencies and calibration: no model was given")
    else:
        try:
            counts = training_counts(training_data(found), translator.tokenizer, words)
            ours, theirs = ([*map(words, side)] for side in (translations, tests.references[0]))
            frequencies = by_word_frequency(ours, theirs, counts)
        except InputError as error:
            missing.append(f"word frequencies: {error.problems[0]}")
        try:
            calibrated = calibration(translator, tests.sources, tests.references[0])
        except InputError as error:
            missing.append(f"calibration: {error.problems[0]}")
    whole = bleu_metric(**counting).corpus_score(translations, tests.references)
    return Analysis(
        sentences=len(translations),
        length_ratio=whole.sys_len / max(1, whole.ref_len),
        translations=_faults(translations, tests.sources, of_target, sources),
        references=_faults(tests.references[0], tests.sources, of_target, sources),
        by_source_length=by_source_length(translations, tests.references, sources, counting),
        by_word_frequency=frequencies,
        calibration=calibrated,
        missing=missing,
    )


def words_of(counting: Counting) -> Words:
    """Returns a function that splits a text into words with sacreBLEU's BLEU tokenizer."""
    metric = bleu_metric(**counting)
    return lambda text: metric._preprocess_segment(text).split()


def by_source_length(
    translations: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[Sequence[str]],
    counting: Counting,
) -> list[LengthBucket]:
    """Computes BLEU and chrF for each range of source lengths. Lengths are counted in words."""
    places: list[list[int]] = [[] for _ in range(len(LENGTHS) + 1)]
    for index, words in enumerate(sources):
        places[_bucket(len(words), LENGTHS)].append(index)
    found = []
    for name, indices in zip(_names((0, *LENGTHS)), places, strict=True):
        texts = [[side[i] for i in indices] for side in (translations, *references)]
        if not indices:
            found.append(LengthBucket(name, 0, None, None, None))
            continue
        scores, interval = score(*texts, **counting), bleu_interval(*texts, **counting)
        found.append(LengthBucket(name, len(indices), scores.bleu, interval, scores.chrf))
    return found


def by_word_frequency(
    translations: Iterable[Sequence[str]],
    references: Iterable[Sequence[str]],
    counts: Counter[str],
) -> list[FrequencyBucket]:
    """Computes the word accuracy for each frequency range, like compare-mt (Neubig et al., 2019).

    Args:
        translations, references: the list of words in each translation and in each reference.
        counts: maps each word to its frequency in the training targets.
    """
    totals = [[0, 0, 0] for _ in range(len(FREQUENCIES) + 1)]
    for translation, reference in zip(translations, references, strict=True):
        ours, theirs = Counter(translation), Counter(reference)
        for column, words in enumerate((theirs, ours, ours & theirs)):
            for word, times in words.items():
                totals[_bucket(counts[word], FREQUENCIES)][column] += times
    return [
        FrequencyBucket(
            name, reference, translation, matches,
            precision=matches / translation if translation else None,
            recall=matches / reference if reference else None,
            f_measure=2 * matches / (translation + reference) if translation + reference else None,
        )
        for name, (reference, translation, matches) in zip(
            _names((0, *FREQUENCIES)), totals, strict=True
        )
    ]  # fmt: skip


def training_data(model: FoundModel) -> PreparedData:
    """Opens the data that the model was trained on.

    Raises:
        InputError: `data.directory` does not contain the data that the model was trained on.
    """
    directory = Path(model.config.data.directory)
    data = PreparedData.open(directory, "To count word frequencies, restore the training data.")
    if data.manifest["data_sha256"] != model.manifest.get("data_sha256"):
        raise InputError(
            f"The data in {directory} is not the data that the model was trained on. Restore the "
            "training data."
        )
    return data


def training_counts(data: PreparedData, tokenizer: Tokenizer, words: Words) -> Counter[str]:
    """Counts how often each word occurs in the training targets.

    Each sentence pair is counted once, even if its corpus has a larger weight.

    Raises:
        InputError: a shard of the training data is damaged.
    """
    from tqdm import tqdm

    counts: Counter[str] = Counter()
    shards = data.shards("train")
    with tqdm(desc="counted", unit=" pairs", total=sum(map(len, shards)), disable=None,
              leave=False) as bar:  # fmt: skip
        for shard in shards:
            data.verify(shard)
            for index in range(len(shard)):
                counts.update(words(tokenizer.decode(shard.target[index].tolist())))
                bar.update()
    return counts


def _faults(
    texts: Sequence[str],
    sources: Sequence[str],
    words: Words,
    source_words: Sequence[Sequence[str]],
) -> Faults:
    pairs = [(text.strip(), source.strip()) for text, source in zip(texts, sources, strict=True)]
    return Faults(
        empty=sum(not text and bool(source) for text, source in pairs),
        copies=sum(text == source != "" for text, source in pairs),
        repetitive=sum(
            _repeats(words(text)) >= _repeats(of_source) + _EXCESS
            for text, of_source in zip(texts, source_words, strict=True)
        ),
    )


def _repeats(words: Sequence[str]) -> int:
    """Returns how often the most frequent sequence of `_REPEATED_WORDS` words occurs."""
    shifted = (words[i:] for i in range(_REPEATED_WORDS))
    return max(Counter(zip(*shifted, strict=False)).values(), default=0)


def _bucket(value: int, bounds: Sequence[int]) -> int:
    return sum(value >= bound for bound in bounds)


def _names(bounds: Sequence[int]) -> list[str]:
    """Returns the names of ranges, such as "0", "1", "2-4" and "5 or more" for [0, 1, 2, 5]."""
    inner = [f"{a:,}-{b - 1:,}" if b - a > 1 else f"{a:,}" for a, b in pairwise(bounds)]
    return [*inner, f"{bounds[-1]:,} or more"]
