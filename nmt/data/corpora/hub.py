"""A dataset of the Hugging Face hub, or a local folder laid out like one."""

from pathlib import Path
from typing import Any

from nmt.config import Data, Hub
from nmt.data.corpora.columns import BATCH, leaves, resolve, strings
from nmt.data.corpora.pairs import Pairs
from nmt.errors import InputError, StorageError


def describe(corpus: Hub) -> str:
    return " ".join(filter(None, ("hub", corpus.hub, corpus.name, corpus.split)))


def files(corpus: Hub) -> list[Path]:
    """None by name: the library finds what it needs in its folder or on the hub."""
    return []


def folder_files(corpus: Hub) -> list[Path]:
    """All files of a local folder, hidden ones left out."""
    folder = Path(corpus.hub)
    inside = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in inside if not _is_hidden(path.relative_to(folder))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def check(corpus: Hub, data: Data) -> None:
    """Fetches the dataset, and finds its columns."""
    _columns(_load(corpus), corpus, data)


def pairs(corpus: Hub, data: Data, split: str) -> Pairs:
    dataset = _load(corpus)
    columns = _columns(dataset, corpus, data)
    for rows in dataset.with_format("arrow").iter(BATCH):
        sides = (strings(rows, column, describe(corpus)) for column in columns)
        yield from zip(*sides, strict=True)


def _columns(dataset: Any, corpus: Hub, data: Data) -> list[tuple[str, ...]]:
    """The columns of the two languages: in a struct `translation`, or each by itself."""
    schema = dataset.data.schema
    known = {".".join(path) for path, _ in leaves(schema)}
    inside = [
        f"translation.{language}" for language in (data.source_language, data.target_language)
    ]
    names = [name if name in known else name.removeprefix("translation.") for name in inside]
    return [resolve(schema, name, describe(corpus)) for name in names]


def _load(corpus: Hub) -> Any:
    """The dataset, memory-mapped from the cache that the `datasets` library keeps."""
    import datasets
    import huggingface_hub

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    huggingface_hub.logging.set_verbosity(50)  # it logs every retry as a warning
    try:
        return datasets.load_dataset(corpus.hub, corpus.name, split=corpus.split)
    except MemoryError:  # of the machine, not of the entry
        raise
    except Exception as error:  # the library raises dozens of kinds: everything becomes one line
        reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
        hint, kind = "correct the entry", InputError
        if isinstance(error, ConnectionError):
            hint, kind = "check the network, or name a local folder", StorageError
        elif any(map(_is_of_storage, (error, error.__cause__))):
            hint, kind = "make room or allow access", StorageError
        raise kind(f"{reason}, {describe(corpus)}, {hint}") from None


def _is_of_storage(error: BaseException | None) -> bool:
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    return error.errno is not None or "disk space" in str(error)  # so `datasets` words its own
