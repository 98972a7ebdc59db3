"""Translating a test set, or taking translations as they are, and scoring them."""

from collections.abc import Callable
from pathlib import Path

from nmt.config import Config
from nmt.data.languages import code_problem, is_translated
from nmt.decoding.lines import check_output, opened_output
from nmt.decoding.translator import Precision, SearchOptions, Translator
from nmt.errors import ArgumentError, InputError, count
from nmt.evaluation import test_sets
from nmt.evaluation.bleu import bleu_interval, compare, language_of, score, ter
from nmt.evaluation.comet import Comet
from nmt.evaluation.paper_bleu import paper_bleu
from nmt.evaluation.plain_text import check_plain_text
from nmt.evaluation.result import Evaluation
from nmt.evaluation.test_sets import TestSet
from nmt.runs.model_directory import find_model, read_config
from nmt.storage.opening import read_lines

Note = Callable[[str], None]

_HOPELESS_BLEU = 2.0  # what shuffled lines of one language have


def evaluate(
    model: str | Path | None,
    *,
    source: str | Path | None = None,
    reference: str | Path | None = None,
    test_set: str | None = None,
    hypothesis: str | Path | None = None,
    baseline: str | Path | None = None,
    comet: str | None = None,
    target_language: str | None = None,
    output: str | Path | None = None,
    device: str | None = None,
    precision: Precision | None = None,
    options: SearchOptions | None = None,
    note: Note = lambda message: None,
) -> Evaluation:
    """Scores the translations of a test set against its references.

    Args:
        model: a model, checkpoint or run directory; None where `hypothesis` is given with
            references and `target_language`.
        source, reference: text files, plain or .gz, of as many lines.
        test_set: one of sacreBLEU's, such as "wmt14/full". With neither reference nor test set,
            the model's own `data.test` as its run keeps it.
        hypothesis: translations to score; nothing is translated. COMET wants their `source` too.
        device, precision, options: how to translate.
        baseline: translations by another system, for a paired significance test.
        comet: name of a COMET model that scores the translations as well.
        target_language: the model's if None.
        output: a file for the translations, one a line.
        note: takes what is said to the user on the way.

    Raises:
        ValueError: arguments that do not go together.
        InputError: files that cannot be read or do not match, text in subword pieces, a missing
            extra.
        StorageError: a test set or a COMET model that cannot be downloaded.
        NoModelError: no sound model.
    """
    if output is not None:
        check_output(Path(output))
    folder = find_model(Path(model))[0] if model is not None else None
    config = read_config(folder) if folder is not None else None
    language = _language(target_language, config, note)
    tests = _test_set(source, reference, test_set, folder, config, language, note)
    others = _given(baseline, tests, note) if baseline is not None else None
    judge = _comet(comet, tests) if comet is not None else None  # told if missing, before all work
    if hypothesis is not None:
        translations = _given(hypothesis, tests, note)
    else:
        translations = _translated(model, tests, options, device, precision, note)
    if output is not None:
        with opened_output(output) as file:
            file.write("".join(f"{line}\n" for line in translations).encode())
    result = _scored(translations, others, tests, language, judge)
    _warn(result, note)
    return result


def _language(given: str | None, config: Config | None, note: Note) -> str:
    """The target language: the one given, or the model's, which only warns if it is odd."""
    if given is None and config is None:
        raise ValueError("no target_language, and no model that tells it")
    language = given or (config.data.target_language if config else "")
    if problem := code_problem(language):
        if given is not None:
            raise ArgumentError("{}, {target_language}, give that of ISO 639", problem)
        note(f"nmt: warning: {problem}, the model's target language, name it when you evaluate")
    return language


def _test_set(
    source: str | Path | None,
    reference: str | Path | None,
    name: str | None,
    folder: Path | None,
    config: Config | None,
    language: str,
    note: Note,
) -> TestSet:
    """What is compared: files, sacreBLEU's of that name, or that of the model in `folder`."""
    if reference is not None and name is not None:
        raise ValueError("both reference and test_set: give one of them")
    if source is not None and reference is None:
        raise ValueError("source without reference")
    if reference is not None:
        tests = test_sets.from_files(source, reference)
    elif name is not None:
        tests = test_sets.from_sacrebleu(name, config, language, note)
    elif folder is not None and config is not None:
        tests = test_sets.own(folder, config)
    else:
        raise ValueError("nothing to compare with: give reference, test_set or model")
    for references in tests.references:
        check_plain_text(references, tests.name, note)
    return tests


def _comet(name: str, tests: TestSet) -> Comet:
    if tests.sources is None:
        raise ValueError("comet without source: it compares three texts")
    return Comet(name)


def _scored(
    translations: list[str],
    others: list[str] | None,
    tests: TestSet,
    language: str,
    judge: Comet | None,
) -> Evaluation:
    """Every measure; `others` are the baseline's translations, `language` is the target's."""
    texts = (translations, *tests.references)
    papers = papers_interval = comparison = None
    if language_of(language) == "de":
        papers, papers_interval = paper_bleu(*texts)
    if others is not None:
        comparison = compare(translations, others, *tests.references, target_language=language)
    return Evaluation(
        score(*texts, target_language=language),
        bleu_interval(*texts, target_language=language),
        *ter(*texts),
        papers,
        papers_interval,
        comparison,
        tests,
        translations,
        judge.score(tests.sources or [], translations, tests.references[0]) if judge else None,
        judge.name if judge else None,
    )


def _warn(result: Evaluation, note: Note) -> None:
    """Warns of translations in another language than the references', or of hardly any use."""
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


def _given(path: str | Path, tests: TestSet, note: Note) -> list[str]:
    """The translations in a file, one for each reference."""
    lines = list(read_lines(Path(path)))
    for references in tests.references:
        if len(references) != len(lines):
            raise InputError(
                f"{count(len(lines), 'translation')} but {count(len(references), 'reference')}, "
                f"{path} and {tests.name}, give each translation its reference"
            )
    check_plain_text(lines, str(path), note)
    return lines


def _translated(
    model: str | Path | None,
    tests: TestSet,
    options: SearchOptions | None,
    device: str | None,
    precision: Precision | None,
    note: Note,
) -> list[str]:
    """The model's translations, one for each source."""
    from tqdm import tqdm

    if model is None or tests.sources is None:
        raise ValueError("nothing to score: give hypothesis, or model and source")
    translator = Translator.load(model, device=device, precision=precision, note=note)
    with tqdm(desc="translated", unit=" lines", disable=None, leave=False) as bar:
        found = translator.translate(tests.sources, options, progress=bar.update)
    cut = sum(each.pieces > 1 for each in found)
    if cut:
        long = count(cut, "sentence")
        note(f"nmt: warning: translated in pieces, longer than the model takes: {long}")
    translations = [each.text for each in found]
    check_plain_text(translations, "the translations", note)
    return translations
