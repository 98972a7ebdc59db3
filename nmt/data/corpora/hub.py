"""Reads pairs from a dataset on the Hugging Face Hub or in a local folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt import config
from nmt.config import Data
from nmt.data.corpora.columns import BATCH, columns_of, leaves, pairs_of_table, resolve
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError, StorageError
from nmt.storage import manifest
from nmt.storage.opening import below


class Hub(Kind):
    """A corpus that the `datasets` library loads from the Hub or from a local folder."""

    def paths(self, settings: config.Hub) -> list[str]:
        return []

    def describe(self, settings: config.Hub) -> str:
        return " ".join(filter(None, (settings.hub, settings.name, settings.split)))

    def check(self, settings: config.Hub, data: Data) -> None:
        """Loads the dataset, and checks that it has the required columns."""
        _paths(_load(settings), settings, data)

    def pairs(self, settings: config.Hub, data: Data, split: str) -> Pairs:
        dataset = _load(settings)
        paths = _paths(dataset, settings, data)
        tables = dataset.with_format("arrow").iter(BATCH)
        yield from pairs_of_table(tables, paths, _where(settings))


def folder_files(settings: config.Hub) -> list[Path]:
    """Returns all files in a local folder except hidden files."""
    folder = Path(settings.hub)
    return [
        path
        for path in below(folder)
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    ]


def _where(settings: config.Hub) -> str:
    return f"hub {Hub().describe(settings)}"


def _paths(dataset: Any, settings: config.Hub, data: Data) -> dict[str, Sequence[str]]:
    """Maps each column of the pairs to its path in the dataset's schema.

    By default, the source and target columns are named after the language codes. Both columns may
    also be fields of a struct named `translation`.
    """
    schema = dataset.data.schema
    known = {".".join(path) for path, _ in leaves(schema)}
    languages = {"source": data.source_language, "target": data.target_language}
    columns = {
        side: nested if (nested := f"translation.{language}") in known else language
        for side, language in languages.items()
    }
    return resolve(schema, columns | columns_of(settings), _where(settings))


def _load(settings: config.Hub) -> Any:
    """Returns the dataset, memory-mapped from the cache of the `datasets` library."""
    import datasets
    import huggingface_hub

    if settings.hub.startswith((".", "/", "~")) and not Path(settings.hub).is_dir():
        raise InputError(
            f"{_where(settings)}: There is no directory {settings.hub}. Correct the path, or "
            "specify a dataset on the Hugging Face Hub as OWNER/NAME."
        )
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    huggingface_hub.logging.set_verbosity(50)  # it logs every retry as a warning
    # The library's cache identifies a local folder only by its name and configuration. Without a
    # cache of its own, a folder might get the text of an earlier version or of another folder with
    # the same name.
    files = [(str(file.resolve()), *_version(file)) for file in folder_files(settings)]
    cache = Path(datasets.config.HF_DATASETS_CACHE) / f"nmt-{manifest.value_hash(files)[:16]}"
    try:
        return datasets.load_dataset(
            settings.hub,
            settings.name,
            split=settings.split,
            cache_dir=str(cache) if files else None,
        )
    except MemoryError:  # not caused by the entry
        raise
    except Exception as error:  # the library raises dozens of exception types
        reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
        hint, kind = "Correct the entry.", InputError
        if isinstance(error, ConnectionError):
            hint, kind = "Check the network connection, or specify a local folder.", StorageError
        elif any(map(_is_of_storage, (error, error.__cause__))):
            hint, kind = "Free up disk space, or check the permissions.", StorageError
        raise kind(f"Cannot load {_where(settings)}: {reason}. {hint}") from None


def _version(file: Path) -> tuple[int, int]:
    """Returns the size and modification time of a file, which reveal most changes to the file."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def _is_of_storage(error: BaseException | None) -> bool:
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    return error.errno is not None or "disk space" in str(error)  # the wording of `datasets`
