"""Test sets, sources with references: from files, from a model's run, or from sacreBLEU."""

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
from nmt.data.corpora import describe, read_corpus, with_prefix
from nmt.errors import ArgumentError, InputError, Note, StorageError, count
from nmt.evaluation.bleu import language_of
from nmt.runs.run_directory import RunDirectory
from nmt.storage.opening import read_lines

_MAX_DEMO_PAIRS = 10_000  # a model may come from anywhere and ask for more; these take seconds


@dataclass(frozen=True)
class TestSet:
    """Sentences to translate, with their references."""

    sources: list[str] | None  # None: not needed, the translations are given
    references: list[list[str]]  # one or more, each with one raw reference a sentence
    name: str  # for messages
    files: tuple[str, ...] = ()  # names of the references, where each has its own

    @property
    def reference_names(self) -> Sequence[str]:
        """A name of each list of references, for messages."""
        return self.files or [self.name] * len(self.references)


def from_files(source: str | Path | None, references: Sequence[str | Path]) -> TestSet:
    """From text files, plain or compressed, with the same number of lines.

    Args:
        references: one or more files.

    Raises:
        InputError: one cannot be read, or their numbers of lines differ.
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
                f"{count(len(first), of)} but {count(len(text), 'reference')}, "
                f"{name} and {other}, give each source line its reference"
            )
    return TestSet(sources, texts, ", ".join(names), names)


def own(folder: Path, config: Config) -> TestSet:
    """The model's own test set, as its run keeps it, or generated if it is the demo's.

    Files that the configuration names are not read: the model may come from anywhere.

    Args:
        folder: a model directory or checkpoint, perhaps in its run.

    Raises:
        ArgumentError: it has none, or its text is not kept.
        NoModelError: what is kept beside it is damaged, or of another run.
    """
    data = config.data
    if not data.test:
        raise ArgumentError(
            "no test set to translate, the data.test of the model's configuration is empty, "
            "give {source} and {reference}, or {test_set}; before the next training name files "
            "under data.test, which are then kept out of the training text"
        )
    run = RunDirectory.around(folder.resolve())
    recorded = run.data_of(folder) if run.test_set.is_dir() else None
    found = kept_test_set.read(run.test_set, data, recorded)
    if found is None:
        demo_pairs = [corpus.settings.pairs for corpus in data.test if isinstance(corpus, Demo)]
        if len(demo_pairs) < len(data.test) or sum(demo_pairs) > _MAX_DEMO_PAIRS:
            raise ArgumentError(
                "the text of its test set ({}) is not kept with it, {}, "
                "give {source} and {reference}, or {test_set}",
                describe(data.test[0]), folder,
            )  # fmt: skip
        pairs = [
            (with_prefix(corpus.source_prefix, source), target)
            for corpus in data.test
            for source, target in read_corpus(corpus, data, "test")
        ]
        found = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return TestSet(found[0], [found[1]], "data.test")


def from_sacrebleu(name: str, config: Config | None, target_language: str, note: Note) -> TestSet:
    """A test set that sacreBLEU knows, downloaded at first use.

    Args:
        config: of the model, which tells the source language; None: English, or any.

    Raises:
        ArgumentError: there is none of that name, or not in these languages.
        StorageError: it cannot be downloaded.
    """
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise ArgumentError("no such test set, {test_set} {}, see sacrebleu --list", name)
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
        raise ArgumentError(
            "no {}, {test_set} {}, choose a set that has it; here: {}", wanted, name, known
        )
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
    """Turns whatever sacreBLEU raises or exits with when a download fails into a StorageError."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (OSError, http.client.HTTPException, tarfile.TarError, zipfile.BadZipFile, EOFError,
            SystemExit) as error:  # fmt: skip
        raise StorageError(
            f"the test set cannot be downloaded ({error or type(error).__name__}), {name}, "
            "check the network, or score files of your own"
        ) from None
    finally:
        logger.setLevel(level)
