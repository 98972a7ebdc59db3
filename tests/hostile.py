"""Generates hostile or corrupted input."""

import os
import random
from pathlib import Path


class Canary:
    """An object whose pickle runs code when it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch '{self.path}'",)


def fuzzed_lines(n: int, seed: int, longest: int = 25_000) -> list[bytes]:
    """Returns random lines without line endings, half unusual, of at most `longest` bytes."""
    rng = random.Random(seed)
    few = min(20, longest // 10)
    planes = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]
    kinds = [
        lambda: b"",
        lambda: b" " * rng.randint(1, 9),
        lambda: b" \t\x00\xef\xbb\xbf \r",
        lambda: b"a\x00b\x00",
        lambda: "emoji 😀👩‍👩‍👧 \U0010ffff".encode(),
        lambda: "שלום \u202eעולם".encode(),
        lambda: b"word " * (longest // 5),
        lambda: b"x" * rng.randint(1, 3 * few),
        lambda: rng.randbytes(rng.randint(0, 3 * few)),
        lambda: b"\xff\xfe\xc0\x80\xed\xa0\x80",
        lambda: b"carriage return\r",
        lambda: b"in\rside\x0b\x0c\x1c\x85",
        lambda: "one\u2028two\u2029three\x85four\u3000".encode(),
        lambda: b"\xef\xbb\xbfmarked",
        lambda: "".join(chr(rng.randint(*rng.choice(planes))) for _ in range(few)).encode(),
    ]
    lines = [rng.choice(kinds)() if rng.random() < 0.5 else b"plain %d" % i for i in range(n)]
    return [line.replace(b"\n", b"") for line in lines]
