"""Runs `nmt prepare` with small shards, halted or with a limit on the size of files.

`python -m tests.data.halting LIMIT HALT_AT prepare CONFIG ...` learns the vocabulary in another
process. Once HALT_AT files are finished, the command begins a call in a worker and then waits until
a file `go on` exists beside CONFIG. A test can therefore act on a command that is still at work,
however slow the test is. LIMIT is in bytes; 0 means no limit.
"""

from pathlib import Path

SHARD_PAIRS = 50


def finished(directory: Path) -> dict[str, int]:
    """Returns the inode of each finished file in data/.work of a directory."""
    files = {}
    for path in (directory / "data/.work").rglob("*"):
        is_whole = path.with_suffix(".json").exists()
        if is_whole and not path.name.startswith(".tmp-") and path.is_file():
            files[str(path)] = path.stat().st_ino
    return files


if __name__ == "__main__":  # not in the workers
    import resource
    import sys
    import time

    from nmt.cli import main
    from nmt.data import workers
    from nmt.data.stages import clean, vocabulary

    clean.SHARD_PAIRS, vocabulary._LEARN_APART_BYTES = SHARD_PAIRS, 0
    limit, halt_at, give = int(sys.argv.pop(1)), int(sys.argv.pop(1)), workers._Worker.give
    directory = Path(sys.argv[2]).parent

    def give_and_halt(*arguments) -> None:
        give(*arguments)
        while halt_at and len(finished(directory)) >= halt_at:
            if (directory / "go on").exists():
                break
            time.sleep(0.02)

    workers._Worker.give = give_and_halt  # type: ignore[method-assign]
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.exit(main())
