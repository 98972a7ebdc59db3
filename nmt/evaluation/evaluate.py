"""Implements `nmt evaluate`, which scores a model's translations or translations in a file.

Like `nmt.translator`, this module does not import torch unless the model is a PyTorch model.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.data.languages import code_problem, is_translated, language_of, wrong_languages
from nmt.errors import ArgumentError, InputError, Note, count
from nmt.evaluation import test_sets
from nmt.evaluation.analysis import analyze
from nmt.evaluation.bleu import Counting, bleu_interval, bleu_metric, compare, score, ter
from nmt.evaluation.comet import Comet
from nmt.evaluation.contrastive import contrastive_accuracy, read_contrastive
from nmt.evaluation.paper_bleu import CONVENTIONS, paper_bleu
from nmt.evaluation.plain_text import check_plain_text
from nmt.evaluation.result import Evaluation
from nmt.evaluation.test_sets import TestSet
from nmt.lines.files import check_output, opened_output
from nmt.runs.exported_model import KIND, is_exported, read_exported_config
from nmt.runs.found_model import FoundModel
from nmt.storage import manifest
from nmt.storage.opening import read_lines
from nmt.translator import SearchOptions, Translator

if TYPE_CHECKING:
    from nmt.model.kernels.prepacking import Precision

_HOPELESS_BLEU = 2.0  # about the BLEU of shuffled lines


def evaluate(
    model: str | Path | None,
    *,
    source: str | Path | None = None,
    reference: str | Path | Sequence[str | Path] | None = None,
    test_set: str | None = None,
    hypothesis: str | Path | None = None,
    baseline: str | Path | None = None,
    comet: str | None = None,
    analysis: bool = False,
    contrastive: str | Path | None = None,
    target_language: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    output: str | Path | None = None,
    device: str | None = None,
    precision: "Precision | None" = None,
    options: SearchOptions | None = None,
    note: Note = lambda message: None,
) -> Evaluation:
    """Scores the translations of a test set against its references.

    Args:
        model: path of a model, checkpoint, run directory or exported CTranslate2 model. The path
            may be None if `hypothesis` is given.
        source: path of the text file to translate, which may be compressed.
        reference: one or more text files, each with one reference per line of `source`. If there
            are several files, COMET uses only the first file.
        test_set: name of a sacreBLEU test set, such as "wmt14/full". If neither `reference` nor
            `test_set` is given, the test set is `data.test` of the model's configuration.
        hypothesis: file of translations to score instead of the model's translations. If
            `reference` is given, COMET and the analysis also require `source`.
        baseline: file of another system's translations, which a paired significance test compares
            with the scored translations.
        comet: name of a COMET model, which computes an additional score.
        analysis: whether to analyze the translations (see `nmt.evaluation.analysis`). Word
            frequencies are computed only if `data.directory` of the model's configuration contains
            the data that the model was trained on.
        contrastive: file of contrastive pairs on which to measure the model's accuracy (see
            `nmt.evaluation.contrastive`).
        target_language: the target language. If None, the model's target language is used.
        lowercase, tokenize: options for computing BLEU (see `Counting`).
        output: file to which the translations are written, one per line.
        device, precision: see `Translator.load`. The default precision is fp32 on every device.
        options: search options for the model's translations.
        note: called with each user-facing message.

    Raises:
        ArgumentError: arguments conflict, a required argument is missing, or COMET is not
            installed.
        InputError: a file cannot be read, the files have different numbers of lines, or a text is
            split into subword pieces.
        StorageError: a test set or a COMET model cannot be downloaded.
        NoModelError: there is no usable model, or the copy of the test set in the model's run is
            damaged or belongs to another run.
    """
    files = [reference] if isinstance(reference, str | Path) else list(reference or [])
    _refuse_conflicts(
        model=model, source=source, reference=files or None, test_set=test_set,
        hypothesis=hypothesis, comet=comet, analysis=analysis or None, contrastive=contrastive,
        target_language=target_language, device=device, precision=precision,
        options=None if options == SearchOptions() else options,
    )  # fmt: skip
    if output is not None:
        read = [("source", source), ("hypothesis", hypothesis), ("baseline", baseline),
                ("contrastive", contrastive)]  # fmt: skip
        check_output(Path(output), read=[*read, *(("reference", file) for file in files)])
    found = _found(Path(model), note) if model is not None else None
    language = _language(target_language, found, note)
    tests = _test_set(found, source, files, test_set, language, note)
    wrong = _wrong_languages(found, source, tests, language)
    if wrong:
        note(f"nmt: warning: {wrong}")
    counting = Counting(target_language=language, lowercase=lowercase, tokenize=tokenize)
    bleu_metric(**counting)  # raises early if its tokenizer is missing
    check = partial(check_plain_text, may_be_tokenized=tokenize == "none", note=note)
    for references, name in zip(tests.references, tests.reference_names, strict=True):
        check(references, name)
    others = _given(baseline, tests, check) if baseline is not None else None
    judge = Comet(comet) if comet is not None else None  # raises early if COMET is missing
    pairs = read_contrastive(Path(contrastive)) if contrastive is not None else None
    translator = None
    if found is not None and (hypothesis is None or analysis or pairs is not None):
        translator = _loaded(found, device, precision, is_scoring=pairs is not None, note=note)
    if hypothesis is not None:
        translations = _given(hypothesis, tests, check)
    else:
        assert translator is not None
        translations = _translated(translator, tests, options, note)
        check(translations, "the translations")
    if output is not None:
        _write(translations, output)
    result = _scored(translations, others, tests, counting, judge)
    if analysis:
        result = replace(result, analysis=analyze(translations, tests, counting, found, translator))
    if contrastive is not None and pairs is not None:
        assert translator is not None
        accuracy = contrastive_accuracy(translator, pairs, Path(contrastive))
        result = replace(result, contrastive=accuracy)
    if not wrong:
        _warn(result, note)
    return result


def _refuse_conflicts(**arguments: object) -> None:
    """Raises ArgumentError if arguments conflict or if a required argument is missing."""
    has = {name for name, value in arguments.items() if value is not None}
    is_compared, is_given = has & {"reference", "test_set"}, "hypothesis" in has
    search = arguments["options"] or SearchOptions()
    changed = [each.name for each in fields(SearchOptions)
               if getattr(search, each.name) != each.default]  # fmt: skip
    uses_model = has & {"analysis", "contrastive"}
    translating = [*changed, *(() if uses_model else sorted(has & {"device", "precision"}))]
    without_source = "source" not in has
    for is_so, problem, remedy in (
        (len(is_compared) == 2,
         "{reference} conflicts with {test_set}.", "Remove one of them."),
        (has & {"source", "reference"} == {"source"},
         "{source} requires {reference}.", "Add {reference}."),
        (is_given and not without_source and not has & {"analysis", "comet"},
         "{source} conflicts with {hypothesis}.", "Remove {source}."),
        *(({name, "reference"} <= has and without_source,
           f"{{{name}}} requires {{source}}.", "Add {source}.") for name in ("analysis", "comet")),
        ("contrastive" in has and "model" not in has,
         "{contrastive} requires {model}.", "Add {model}."),
        ("reference" in has and without_source and not is_given,
         "{reference} requires {source}.", "Add {source}."),
        (not has & {"model", "hypothesis"},
         "There is nothing to score.", "Add {model} or {hypothesis}."),
        (not is_compared and "model" not in has,
         "There are no references.", "Add {reference} or {test_set}."),
        (not has & {"model", "target_language"},
         "The target language is unknown.", "Add {target_language} or {model}."),
        (is_given and translating,
         "{hypothesis} conflicts with translation options.",
         f"Remove {' and '.join(f'{{{name}}}' for name in translating)}."),
    ):  # fmt: skip
        if is_so:
            raise ArgumentError(f"{problem} {remedy}")


def _test_set(
    model: FoundModel | None,
    source: str | Path | None,
    reference: Sequence[str | Path],
    name: str | None,
    language: str,
    note: Note,
) -> TestSet:
    """Returns the test set in the given files, a sacreBLEU test set or the model's test set."""
    if reference:
        return test_sets.from_files(source, reference)
    if name is not None:
        return test_sets.from_sacrebleu(name, model.config if model else None, language, note)
    assert model is not None
    return test_sets.own(model)


def _found(model: Path, note: Note) -> FoundModel:
    """Finds a PyTorch model, or a model that was exported to CTranslate2."""
    if is_exported(model):
        return FoundModel(model, manifest.read(model, KIND), read_exported_config(model))
    from nmt.runs.model_directory import find_model  # imports torch

    return find_model(model, note)


def _loaded(
    found: FoundModel,
    device: str | None,
    precision: "Precision | None",
    *,
    is_scoring: bool,
    note: Note,
) -> Translator:
    """Loads a model for translation, and also for scoring translations if `is_scoring` is true.

    Raises:
        NoModelError: `is_scoring` is true, but the model is exported and cannot score translations.
            See also `Translator.load`.
    """
    if is_exported(found.directory):
        if is_scoring:
            from nmt.runs.model_directory import refuse_exported  # imports torch

            refuse_exported(found.directory)
    else:
        precision = precision or "fp32"
    return Translator.load(found.directory, device=device, precision=precision, note=note)


def _write(translations: Sequence[str], output: str | Path) -> None:
    with opened_output(output) as file:
        file.write("".join(f"{line}\n" for line in translations).encode())


def _language(given: str | None, model: FoundModel | None, note: Note) -> str:
    """Returns the given target language, or the model's target language if none is given.

    Raises ArgumentError if the given target language is not valid. If no language is given and the
    model's target language is not valid, calls `note` with a warning.
    """
    language = given or (model.config.data.target_language if model else "")
    if problem := code_problem(language):
        if given is not None:
            raise ArgumentError("{target_language} {}", problem)
        note(
            f"nmt: warning: In the model's configuration, {problem} Set the target language for "
            "the evaluation."
        )
    return language


def _wrong_languages(
    model: FoundModel | None, source: str | Path | None, tests: TestSet, language: str
) -> str | None:
    """Returns a warning if a file of the test set seems to be in the wrong language, else None."""
    if not tests.files:
        return None
    texts = [(*each, language) for each in zip(tests.files, tests.references, strict=True)]
    own = model and language_of(model.config.data.target_language)
    if model is not None and tests.sources is not None and own == language_of(language):
        texts.insert(0, (str(source), tests.sources, model.config.data.source_language))
    return wrong_languages(*texts)


def _scored(
    translations: list[str],
    others: list[str] | None,
    tests: TestSet,
    counting: Counting,
    judge: Comet | None,
) -> Evaluation:
    """Computes all scores. If there is a baseline, `others` contains its translations."""
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
    """Warns if BLEU is near 0, or if translations and references seem to differ in language."""
    tests = result.test_set
    is_hopeless = result.scores.bleu < _HOPELESS_BLEU
    # without sources, the check is reliable only if BLEU is near 0
    is_suspect = tests.sources is not None or is_hopeless
    if is_suspect and not is_translated(result.translations, tests.references[0], tests.sources):
        problem = "in another language than the references"
        if tests.sources is not None:
            problem = "in the language of the sources, or the sources and references are exchanged"
        note(
            f"nmt: warning: The translations for {tests.name} seem to be {problem}. Check the "
            "files."
        )
    elif is_hopeless:
        note(
            f"nmt: warning: BLEU on {tests.name} is near 0. If the translations are good, check "
            "that line i of the references is the translation of line i of the sources. If the "
            "translations repeat words, train longer, or check that the loss decreased."
        )


def _given(
    path: str | Path, tests: TestSet, check: Callable[[Sequence[str], str], None]
) -> list[str]:
    """Reads translations from a file and checks the number of lines and the text."""
    lines = list(read_lines(Path(path)))
    for references, name in zip(tests.references, tests.reference_names, strict=True):
        if len(references) != len(lines):
            raise InputError(
                f"{path} has {count(len(lines), 'translation')}, but {name} has "
                f"{count(len(references), 'reference')}. Provide one reference per translation."
            )
    check(lines, str(path))
    return lines


def _translated(
    translator: Translator, tests: TestSet, options: SearchOptions | None, note: Note
) -> list[str]:
    """Returns the model's translations, one per source."""
    from tqdm import tqdm

    assert tests.sources is not None
    with tqdm(desc="translated", unit=" lines", disable=None, leave=False) as bar:
        found = translator.translate(tests.sources, options, progress=bar.update)
    if cut := sum(each.parts > 1 for each in found):
        long = count(cut, "sentence")
        note(f"nmt: warning: Translated {long} in parts because of the maximum length.")
    return [each.text for each in found]
