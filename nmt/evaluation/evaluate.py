"""`nmt evaluate`: translate a test set, or take translations as they are, and score them."""

import contextlib
import http.client
import logging
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.config import Config, Demo
from nmt.data import test_set as kept_test_set
from nmt.data.corpora import describe, read_corpus
from nmt.data.languages import code_problem, is_translated
from nmt.decoding.lines import check_output, opened_output
from nmt.decoding.translator import Precision, SearchOptions, Translator
from nmt.errors import InputError, Status, count
from nmt.evaluation.bleu import (
    Comparison,
    Scores,
    bleu_interval,
    compare,
    language_of,
    score,
    ter,
)
from nmt.evaluation.comet import comet_score, load_comet
from nmt.evaluation.paper_bleu import CONVENTION, paper_bleu
from nmt.evaluation.plain_text import check_plain_text
from nmt.runs.model_directory import find_model, read_config
from nmt.runs.run_directory import RunDirectory
from nmt.storage.opening import read_lines

_HOPELESS_BLEU = 2.0  # what shuffled lines of one language have
_AS_IT_COMES = (None, None, SearchOptions())  # device, precision and options of a search
_MAX_DEMO_PAIRS = 10_000  # a model from elsewhere may ask for so many; the grammar takes seconds


@dataclass(frozen=True)
class TestSet:
    sources: list[str] | None  # None: not needed, the translations are given
    references: list[list[str]]  # one or more, each with one raw reference a sentence
    name: str  # for messages


@dataclass(frozen=True)
class Evaluation:
    scores: Scores
    bleu_interval: tuple[float, float]  # 95%
    ter: float  # edits for 100 words
    ter_signature: str
    paper_bleu: float | None  # 0 to 100; None: the target is not German
    paper_bleu_interval: tuple[float, float] | None  # 95%
    comparison: Comparison | None  # with a baseline
    test_set: TestSet
    translations: list[str]
    comet: float | None = None
    comet_model: str | None = None

    def as_json(self) -> dict[str, Any]:
        """What `nmt evaluate --json` prints, figures to six digits behind the point."""
        scores = self.scores
        content: dict[str, Any] = {
            "bleu": scores.bleu,
            "bleu_signature": scores.bleu_signature,
            "bleu_interval": list(self.bleu_interval),
            "chrf": scores.chrf,
            "chrf_signature": scores.chrf_signature,
            "ter": self.ter,
            "ter_signature": self.ter_signature,
            "sentences": scores.sentences,
        }
        if self.paper_bleu is not None and self.paper_bleu_interval is not None:
            content |= {
                "paper_bleu": self.paper_bleu,
                "paper_bleu_interval": list(self.paper_bleu_interval),
                "paper_bleu_convention": CONVENTION,
            }
        if self.comet is not None:
            content |= {"comet": self.comet, "comet_model": self.comet_model}
        if (baseline := self.comparison) is not None:
            content["baseline"] = {
                "bleu": baseline.bleu,
                "bleu_difference": scores.bleu - baseline.bleu,
                "bleu_p_value": baseline.bleu_p_value,
                "chrf": baseline.chrf,
                "chrf_difference": scores.chrf - baseline.chrf,
                "chrf_p_value": baseline.chrf_p_value,
            }
        return _rounded(content)

    def as_text(self) -> str:
        scores, (low, high) = self.scores, self.bleu_interval
        lines = [
            f"BLEU = {scores.bleu:.2f}  (95%: {low:.2f} to {high:.2f})  {scores.bleu_signature}",
            f"chrF = {scores.chrf:.2f}  {scores.chrf_signature}",
            f"TER = {self.ter:.2f}  {self.ter_signature}",
        ]
        if self.paper_bleu is not None and self.paper_bleu_interval is not None:
            low, high = self.paper_bleu_interval
            interval = f"95%: {low:.2f} to {high:.2f}"
            lines.append(f"paper BLEU = {self.paper_bleu:.2f}  ({interval})  {CONVENTION}")
        if self.comet is not None:
            lines.append(f"COMET = {self.comet:.4f}  {self.comet_model}")
        if (baseline := self.comparison) is not None:
            lines.append(
                f"baseline: BLEU = {baseline.bleu:.2f}, "
                f"difference {scores.bleu - baseline.bleu:+.2f} (p = {baseline.bleu_p_value:.4f}); "
                f"chrF = {baseline.chrf:.2f}, "
                f"difference {scores.chrf - baseline.chrf:+.2f} (p = {baseline.chrf_p_value:.4f})  "
                "paired bootstrap"
            )
        return "\n".join([*lines, f"sentences = {scores.sentences}"])


def _rounded(value: Any) -> Any:
    """Without the dust of binary arithmetic, 100.00000000000004, at any depth."""
    match value:
        case float():
            return round(value, 6)
        case list():
            return [_rounded(item) for item in value]
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
    return value


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
    note: Callable[[str], None] = lambda message: None,
) -> Evaluation:
    """Scores the translations of a test set against its references.

    Args:
        model: a MODEL; may be None where `hypothesis` is given with references.
        source, reference: text files, plain or .gz, of as many lines.
        test_set: one of sacreBLEU's, "wmt14/full" for instance. With neither reference nor test
            set, the model's own `data.test` as its run keeps it.
        hypothesis: translations to score; nothing is translated. COMET wants their `source` too.
        device, precision, options: how to translate.
        baseline: translations by another system, for a paired significance test.
        comet: name of a COMET model that scores the translations as well.
        target_language: the model's if None.
        output: a file for the translations, one a line.
        note: takes what is said to the user on the way.

    Raises:
        InputError: arguments that do not go together, files that cannot be read or do not match,
            text in subword pieces, a missing extra (status 2); a test set or a COMET model that
            cannot be downloaded (status 5).
        NoModelError: no sound model (status 3).
    """
    _check_arguments(
        model, source, reference, test_set, hypothesis, target_language, comet is not None
    )
    if hypothesis is not None:
        _refuse_options(device, precision, options)
    if output is not None:
        check_output(Path(output))
    folder = find_model(Path(model))[0] if model is not None else None
    config = read_config(folder) if folder is not None else None
    language = target_language or (config.data.target_language if config else "")
    if problem := code_problem(language):
        if target_language is not None:
            raise InputError(f"{problem}, --target-language, give that of ISO 639")
        note(f"nmt: warning: {problem}, the model's target language, give --target-language")
    if reference is not None:
        tests = _from_files(source, reference)
    elif test_set is not None:
        tests = _from_sacrebleu(test_set, config, language, note)
    else:
        tests = _own(folder, config)
    for references in tests.references:
        check_plain_text(references, tests.name, note)
    others = _given(baseline, tests, note) if baseline is not None else None
    comet_model = load_comet(comet) if comet is not None else None
    if hypothesis is not None:
        translations = _given(hypothesis, tests, note)
    else:
        assert model is not None
        translator = Translator.load(model, device=device, precision=precision, note=note)
        translations = _translate(translator, tests, options, note)
    if output is not None:
        with opened_output(output) as file:
            file.write("".join(f"{line}\n" for line in translations).encode())
    if hypothesis is None:
        check_plain_text(translations, "the translations", note)
    result = _scored(translations, others, tests, language)
    _check_language(result, note)
    if comet_model is None:
        return result
    value = comet_score(comet_model, tests.sources or [], translations, tests.references[0])
    return replace(result, comet=value, comet_model=comet)


def _refuse_options(
    device: str | None, precision: Precision | None, options: SearchOptions | None
) -> None:
    """Raises InputError for options of translating where nothing is translated."""
    if (device, precision, options or SearchOptions()) != _AS_IT_COMES:
        raise InputError(
            "options of translating beside --hypothesis, command line, leave out --beam, "
            "--length-penalty, --batch-tokens, --device and --precision"
        )


def _scored(
    translations: list[str], others: list[str] | None, tests: TestSet, language: str
) -> Evaluation:
    """All but COMET; `others` are the baseline's translations, `language` is the target's."""
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
    )


def _check_language(result: Evaluation, note: Callable[[str], None]) -> None:
    """Warns of translations in another language than the references'."""
    tests = result.test_set
    # without the source only what is no translation at all is suspected
    is_suspect = tests.sources is not None or result.scores.bleu < _HOPELESS_BLEU
    if is_suspect and not is_translated(result.translations, tests.references[0], tests.sources):
        than = "the source's" if tests.sources is not None else "another"
        note(
            f"nmt: warning: the translations seem to be in {than} language, not the reference's, "
            f"{tests.name}, check which files are compared"
        )


def _check_arguments(
    model: str | Path | None,
    source: str | Path | None,
    reference: str | Path | None,
    test_set: str | None,
    hypothesis: str | Path | None,
    target_language: str | None,
    for_comet: bool,
) -> None:
    if reference is not None and test_set is not None:
        raise InputError("both --reference and --test-set, command line, give one of them")
    if source is not None and reference is None:
        raise InputError("--source without --reference, command line, give the reference too")
    if source is not None and hypothesis is not None and not for_comet:
        raise InputError("both --source and --hypothesis, command line, leave out --source")
    if for_comet and reference is not None and source is None:
        raise InputError("--comet without --source, command line, give the source too")
    if reference is not None and source is None and hypothesis is None:
        raise InputError("--reference without --source, command line, give the source too")
    if model is None and hypothesis is None:
        raise InputError("neither MODEL nor --hypothesis, command line, give one of them")
    if model is None and reference is None and test_set is None:
        raise InputError("nothing to compare with, command line, give --reference or --test-set")
    if model is None and target_language is None:
        raise InputError("no --target-language, command line, give it or a MODEL that tells it")


def _from_files(source: str | Path | None, reference: str | Path) -> TestSet:
    references = list(read_lines(Path(reference)))
    sources = list(read_lines(Path(source))) if source is not None else None
    if sources is not None and len(sources) != len(references):
        raise InputError(
            f"{count(len(sources), 'source line')} but {count(len(references), 'reference')}, "
            f"{source} and {reference}, give each source line its reference"
        )
    return TestSet(sources, [references], str(reference))


def _own(folder: Path | None, config: Config | None) -> TestSet:
    """The model's own test set: as its run keeps it, or written by the demo's grammar.

    Never read from what the configuration names: the model may come from anywhere.

    Args:
        folder: a model directory or checkpoint, perhaps in its run.
    """
    assert folder is not None and config is not None  # see `_check_arguments`
    data = config.data
    if not data.test:
        raise InputError(
            "no test set to translate, the data.test of the model's configuration is empty, "
            "give --source F --reference F, or --test-set NAME; before the next training name "
            "files under data.test, which are then kept out of the training text"
        )
    found = kept_test_set.read(RunDirectory.around(folder.resolve()).test_set, data)
    if found is None:
        demo_pairs = [corpus.demo.pairs for corpus in data.test if isinstance(corpus, Demo)]
        if len(demo_pairs) < len(data.test) or sum(demo_pairs) > _MAX_DEMO_PAIRS:
            raise InputError(
                f"the text of its test set ({describe(data.test[0])}) is not kept with it, "
                f"{folder}, give --source and --reference, or --test-set"
            )
        pairs = [pair for corpus in data.test for pair in read_corpus(corpus, data, "test")]
        found = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return TestSet(found[0], [found[1]], "data.test")


def _from_sacrebleu(
    name: str, config: Config | None, target_language: str, note: Callable[[str], None]
) -> TestSet:
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise InputError(f"no such test set, --test-set {name}, see sacrebleu --list")
    dataset = DATASETS[name]
    source_language = config.data.source_language if config else None
    target = language_of(target_language)
    pairs = [pair for pair in dataset.langpairs if pair.split("-")[1] == target]
    if source_language is not None:
        source = language_of(source_language)
        pairs = [pair for pair in pairs if pair.split("-")[0] == source]
    if not pairs:
        wanted = f"{source_language or '*'}-{target_language}"
        known = ", ".join(sorted(dataset.langpairs))
        raise InputError(f"no {wanted}, --test-set {name}, choose a set that has it; here: {known}")
    pair = next((pair for pair in pairs if pair.startswith("en-")), pairs[0])
    note(f"test set {name}, {pair}")
    with _one_line_if_it_fails(name):
        file = dataset.get_source_file(pair)
        references = dataset.get_reference_files(pair)
    return TestSet(
        list(read_lines(Path(file))),
        [list(read_lines(Path(reference))) for reference in references],
        f"{name} {pair}",
    )


@contextlib.contextmanager
def _one_line_if_it_fails(name: str) -> Iterator[None]:
    """Turns what sacreBLEU logs, raises or exits with when a download fails into one error line."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (OSError, http.client.HTTPException, tarfile.TarError, zipfile.BadZipFile, EOFError,
            SystemExit) as error:  # fmt: skip
        raise InputError(
            f"the test set cannot be downloaded ({error or type(error).__name__}), "
            f"--test-set {name}, check the network or give --source and --reference",
            status=Status.STORAGE,
        ) from None
    finally:
        logger.setLevel(level)


def _given(path: str | Path, tests: TestSet, note: Callable[[str], None]) -> list[str]:
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


def _translate(
    translator: Translator,
    tests: TestSet,
    options: SearchOptions | None,
    note: Callable[[str], None],
) -> list[str]:
    from tqdm import tqdm

    assert tests.sources is not None
    with tqdm(desc="translated", unit=" lines", disable=None, leave=False) as bar:
        found = translator.translate(tests.sources, options, progress=bar.update)
    cut = sum(best[0].pieces > 1 for best in found)
    if cut:
        long = count(cut, "sentence")
        note(f"nmt: warning: translated in pieces, longer than the model takes: {long}")
    return [best[0].text for best in found]
