"""`nmt evaluate`: translates a test set, or takes given translations, and scores them."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from nmt.config import Config
from nmt.data.languages import code_problem, is_translated
from nmt.errors import ArgumentError, InputError, Note, count
from nmt.evaluation import test_sets
from nmt.evaluation.bleu import (
    Counting,
    bleu_interval,
    bleu_metric,
    compare,
    language_of,
    score,
    ter,
)
from nmt.evaluation.comet import Comet
from nmt.evaluation.paper_bleu import CONVENTIONS, paper_bleu
from nmt.evaluation.plain_text import check_plain_text
from nmt.evaluation.result import Evaluation
from nmt.evaluation.test_sets import TestSet
from nmt.lines.translate import check_output, opened_output
from nmt.model.kernels.prepacking import Precision
from nmt.runs.model_directory import find_model, read_config
from nmt.storage.opening import read_lines
from nmt.translator import SearchOptions, Translator

_HOPELESS_BLEU = 2.0  # that of shuffled lines of one language


def evaluate(
    model: str | Path | None,
    *,
    source: str | Path | None = None,
    reference: str | Path | Sequence[str | Path] | None = None,
    test_set: str | None = None,
    hypothesis: str | Path | None = None,
    baseline: str | Path | None = None,
    comet: str | None = None,
    target_language: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    output: str | Path | None = None,
    device: str | None = None,
    precision: Precision | None = None,
    options: SearchOptions | None = None,
    note: Note = lambda message: None,
) -> Evaluation:
    """Scores the translations of a test set against its references.

    Args:
        model: a model, checkpoint or run directory; not needed beside `hypothesis`.
        source, reference: text files, plain or compressed, with the same number of lines; several
            references as a list of files. COMET sees the first alone.
        test_set: one of sacreBLEU's, such as "wmt14/full". With neither reference nor test set,
            the model's own `data.test` as its run keeps it.
        hypothesis: translations to score; nothing is translated. COMET needs their `source` too.
        baseline: translations by another system, for a paired significance test.
        comet: name of a COMET model that scores the translations as well.
        target_language: the model's if None.
        lowercase, tokenize: how BLEU is counted, as sacreBLEU's options of these names.
        output: a file for the translations, one a line.
        device, precision, options: how to translate; precision None is fp32 on every device, so
            that figures compare.
        note: receives messages for the user.

    Raises:
        ArgumentError: arguments that do not go together, or a missing extra.
        InputError: files that cannot be read or do not match, or text in subword pieces.
        StorageError: a test set or a COMET model that cannot be downloaded.
        NoModelError: no sound model, or another run's test set beside it.
    """
    files = [reference] if isinstance(reference, str | Path) else list(reference or [])
    _refuse_conflicts(
        model=model, source=source, reference=files or None, test_set=test_set,
        hypothesis=hypothesis, comet=comet, target_language=target_language, device=device,
        precision=precision, options=None if options == SearchOptions() else options,
    )  # fmt: skip
    if output is not None:
        read = [("source", source), ("hypothesis", hypothesis), ("baseline", baseline)]
        check_output(Path(output), read=[*read, *(("reference", file) for file in files)])
    tests, language = _test_set(model, source, files, test_set, target_language, note)
    counting = Counting(target_language=language, lowercase=lowercase, tokenize=tokenize)
    bleu_metric(**counting)  # before all work: its tokenizer may be missing
    check = partial(check_plain_text, may_be_tokenized=tokenize == "none", note=note)
    for references, name in zip(tests.references, tests.reference_names, strict=True):
        check(references, name)
    others = _given(baseline, tests, check) if baseline is not None else None
    judge = Comet(comet) if comet is not None else None  # before all work: it may be missing
    if hypothesis is None:
        translations = _translated(model, tests, options, device, precision or "fp32", note)
        check(translations, "the translations")
    else:
        translations = _given(hypothesis, tests, check)
    if output is not None:
        with opened_output(output) as file:
            file.write("".join(f"{line}\n" for line in translations).encode())
    result = _scored(translations, others, tests, counting, judge)
    _warn(result, note)
    return result


def _refuse_conflicts(**arguments: object) -> None:
    """Raises ArgumentError for the first arguments of `evaluate` that do not go together."""
    has = {name for name, value in arguments.items() if value is not None}
    is_compared, is_given = has & {"reference", "test_set"}, "hypothesis" in has
    options = "{beam}, {length_penalty}, {batch_tokens}, {device} and {precision}"
    without_source = "source" not in has
    for is_so, problem, remedy in (
        (len(is_compared) == 2, "both {reference} and {test_set}", "leave out one"),
        (has & {"source", "reference"} == {"source"},
         "{source} without {reference}", "give the reference too"),
        (is_given and not without_source and "comet" not in has,
         "both {source} and {hypothesis}", "leave out {source}"),
        ({"comet", "reference"} <= has and without_source,
         "{comet} without {source}", "give the source too"),
        ("reference" in has and without_source and not is_given,
         "{reference} without {source}", "give the source too"),
        (not has & {"model", "hypothesis"}, "nothing to score", "give {model} or {hypothesis}"),
        (not is_compared and "model" not in has,
         "nothing to compare with", "give {reference} or {test_set}"),
        (not has & {"model", "target_language"},
         "no {target_language}", "give it, or a {model} that tells it"),
        (is_given and has & {"options", "device", "precision"},
         "options of translating beside {hypothesis}", f"leave out {options}"),
    ):  # fmt: skip
        if is_so:
            raise ArgumentError(f"{problem}, what to evaluate, {remedy}")


def _test_set(
    model: str | Path | None,
    source: str | Path | None,
    reference: Sequence[str | Path],
    name: str | None,
    language: str | None,
    note: Note,
) -> tuple[TestSet, str]:
    """What is compared (files, sacreBLEU's of that name, or the model's own), and its language."""
    folder = find_model(Path(model))[0] if model is not None else None
    config = read_config(folder) if folder is not None else None
    language = _language(language, config, note)
    if reference:
        tests = test_sets.from_files(source, reference)
    elif name is not None:
        tests = test_sets.from_sacrebleu(name, config, language, note)
    else:
        assert folder and config
        tests = test_sets.own(folder, config)
    return tests, language


def _language(given: str | None, config: Config | None, note: Note) -> str:
    """The target language: the one given, or the model's, which only warns if it is odd."""
    language = given or (config.data.target_language if config else "")
    if problem := code_problem(language):
        if given is not None:
            raise ArgumentError("{}, {target_language}, give that of ISO 639", problem)
        note(f"nmt: warning: {problem}, the model's target language, name it when you evaluate")
    return language


def _scored(
    translations: list[str],
    others: list[str] | None,
    tests: TestSet,
    counting: Counting,
    judge: Comet | None,
) -> Evaluation:
    """Every measure; `others` are the baseline's translations."""
    texts = (translations, *tests.references)
    language = language_of(counting["target_language"] or "")
    papers = papers_interval = comparison = None
    if language in CONVENTIONS:
        papers, papers_interval = paper_bleu(*texts, target_language=language)
    if others is not None:
        comparison = compare(translations, others, *tests.references, **counting)
    return Evaluation(
        score(*texts, **counting),
        bleu_interval(*texts, **counting),
        *ter(*texts),
        papers,
        papers_interval,
        comparison,
        tests,
        translations,
        judge.score(tests.sources or [], translations, tests.references[0]) if judge else None,
        judge.name if judge else None,
        CONVENTIONS.get(language),
    )


def _warn(result: Evaluation, note: Note) -> None:
    """Warns of translations in another language than the references', and of a BLEU near 0."""
    tests = result.test_set
    is_hopeless = result.scores.bleu < _HOPELESS_BLEU
    # without the source only what is no translation at all is suspected
    is_suspect = tests.sources is not None or is_hopeless
    if is_suspect and not is_translated(result.translations, tests.references[0], tests.sources):
        than = "the source's" if tests.sources is not None else "another"
        note(
            f"nmt: warning: the translations seem to be in {than} language, not the reference's, "
            f"{tests.name}, check which files are compared"
        )
    elif is_hopeless:
        note(
            f"nmt: warning: BLEU near 0, {tests.name}, read some translations: sentences that fit "
            "other sources mean lines that do not match, repeated words a model that has learnt "
            "too little; train it longer, or see whether its loss fell"
        )


def _given(
    path: str | Path, tests: TestSet, check: Callable[[Sequence[str], str], None]
) -> list[str]:
    """The translations in a file, one for each reference, once `check` has seen them."""
    lines = list(read_lines(Path(path)))
    for references, name in zip(tests.references, tests.reference_names, strict=True):
        if len(references) != len(lines):
            raise InputError(
                f"{count(len(lines), 'translation')} but {count(len(references), 'reference')}, "
                f"{path} and {name}, give each translation its reference"
            )
    check(lines, str(path))
    return lines


def _translated(
    model: str | Path | None,
    tests: TestSet,
    options: SearchOptions | None,
    device: str | None,
    precision: Precision,
    note: Note,
) -> list[str]:
    """The model's translations, one for each source."""
    from tqdm import tqdm

    assert model is not None and tests.sources is not None
    translator = Translator.load(model, device=device, precision=precision, note=note)
    with tqdm(desc="translated", unit=" lines", disable=None, leave=False) as bar:
        found = translator.translate(tests.sources, options, progress=bar.update)
    if cut := sum(each.parts > 1 for each in found):
        long = count(cut, "sentence")
        note(f"nmt: warning: translated in parts, longer than the model takes: {long}")
    return [each.text for each in found]
