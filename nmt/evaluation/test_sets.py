"""Loads test sets from files, from the run directory of a model, or from sacreBLEU."""

import contextlib
import http.client
import logging
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Config, Demo
from nmt.data import kept_test_set
from nmt.data.corpora import describe
from nmt.data.languages import language_of
from nmt.errors import ArgumentError, InputError, Note, StorageError, count
from nmt.runs.exported_model import is_exported
from nmt.runs.found_model import FoundModel
from nmt.runs.run_directory import RunDirectory
from nmt.storage.opening import read_lines

_MAX_DEMO_PAIRS = 10_000  # generated in seconds; limits what an untrusted model can request


@dataclass(frozen=True)
class TestSet:
    """Source sentences with one or more references per sentence."""

    sources: list[str] | None  # None if given translations are scored without sources
    references: list[list[str]]  # one or more lists, each with one reference per sentence
    name: str  # name of the test set in messages
    files: tuple[str, ...] = ()  # names of the reference files

    @property
    def reference_names(self) -> Sequence[str]:
        """The name of each list of references, for use in messages."""
        return self.files or [self.name] * len(self.references)


def from_files(source: str | Path | None, references: Sequence[str | Path]) -> TestSet:
    """Reads a test set from plain or compressed text files with equal numbers of lines.

    Args:
        references: one or more files, each with one reference per line.

    Raises:
        InputError: a file cannot be read, or the files have different numbers of lines.
    """
    names = tuple(map(str, references))
    texts = [list(read_lines(Path(name))) for name in names]
    first, of, name = (texts[0], "reference", names[0])
    sources = list(read_lines(Path(source))) if source is not None else None
    if sources is not None:
        first, of, name = sources, "source line", str(source)
    for text, other in zip(texts, names, strict=True):
        if len(text) != len(first):
            raise InputError(
                f"{name} has {count(len(first), of)}, but {other} has "
                f"{count(len(text), 'reference')}. All files need the same number of lines."
            )
    return TestSet(sources, texts, ", ".join(names), names)


def own(model: FoundModel) -> TestSet:
    """Reads the test set from the model's run, or generates the sentences of a demo test set.

    The model may be untrusted, so files that are named in its configuration are not read.

    Args:
        model: a model, checkpoint or exported model. The model directory may have been moved out of
            its run directory.

    Raises:
        ArgumentError: `data.test` is empty, or the test set can neither be generated nor be read
            from the run.
        NoModelError: the copy of the test set is damaged or belongs to another run.
    """
    data = model.config.data
    if not data.test:
        raise ArgumentError(
            "The model's configuration has no data.test. Add {source} and {reference}, or "
            "{test_set}. For future models, set data.test before you run nmt prepare, so that "
            "the test sentences are removed from the training text."
        )
    run, recorded = RunDirectory.around(model.directory.resolve()), None
    if run.test_set.is_dir() and not is_exported(model.directory):
        recorded = run.identity().data_of(model.directory, model.manifest)
    found = kept_test_set.read(run.test_set, data, recorded)
    if found is None:
        demo_pairs = [corpus.settings.pairs for corpus in data.test if isinstance(corpus, Demo)]
        if len(demo_pairs) < len(data.test) or sum(demo_pairs) > _MAX_DEMO_PAIRS:
            raise ArgumentError(
                "{} has no copy of its test set ({}). Add {source} and {reference}, or {test_set}.",
                model.directory, describe(data.test[0]),
            )  # fmt: skip
        sources, references = map(list, zip(*kept_test_set.pairs(data), strict=True))
        found = sources, references
    return TestSet(found[0], [found[1]], "data.test")


def from_sacrebleu(name: str, config: Config | None, target_language: str, note: Note) -> TestSet:
    """Returns a sacreBLEU test set, which is downloaded at first use.

    Args:
        config: the model's configuration, which determines the source language. If `config` is
            None, English is the preferred source language.

    Raises:
        ArgumentError: the test set does not exist or is not available in the required languages.
        StorageError: the test set cannot be downloaded.
    """
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise ArgumentError(
            '{test_set}: Unknown test set {}. Run "sacrebleu --list" to list all test sets.', name
        )
    dataset = DATASETS[name]
    source_language = config.data.source_language if config else None
    target = language_of(target_language)
    pairs = [pair for pair in dataset.langpairs if pair.split("-")[1] == target]
    if source_language is not None:
        source = language_of(source_language)
        pairs = [pair for pair in pairs if pair.split("-")[0] == source]
    if not pairs:
        target_only = f"with target language {target_language}"
        wanted = f"{source_language}-{target_language}" if source_language else target_only
        known = ", ".join(sorted(dataset.langpairs))
        raise ArgumentError(
            "{test_set} {} has no language pair {}. Its pairs are {}. Choose another test set.",
            name,
            wanted,
            known,
        )
    pair = next((pair for pair in pairs if pair.startswith("en-")), pairs[0])
    note(f"Test set {name}, {pair}")
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
    """Converts the exceptions of a failed download, such as SystemExit, to StorageError."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (OSError, http.client.HTTPException, tarfile.TarError, zipfile.BadZipFile, EOFError,
            SystemExit) as error:  # fmt: skip
        raise StorageError(
            f"Test set {name} cannot be downloaded ({error or type(error).__name__}). Check the "
            "network connection, or use your own files."
        ) from None
    finally:
        logger.setLevel(level)
