"""Reads the commands that README, docs and recipes tell a reader to type."""

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("recipes/*/README.md")), *ROOT.glob("docs/*.md")]
PROGRAMS = {
    "bash", "cat", "cd", "curl", "docker", "echo", "for", "git", "head", "hf", "make", "nmt",
    "paste", "pip", "printf", "python", "python3", "sacrebleu", "sacremoses", "sbatch", "sed",
    "tail", "tensorboard", "torchrun", "wget",
}  # fmt: skip
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?:(?:    .*)?\n)+")  # after a blank line
_LINE = re.compile(r"(?:[^\n]*\\\n)*[^\n]+")  # with its continuation lines
_INLINE = re.compile(r"`([^`]+)`")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->\n+\Z")  # precedes a block; not displayed


@dataclass(frozen=True)
class Command:
    """A command line (with its continuation lines joined), or a Python block."""

    where: str  # document:line
    text: str
    is_block: bool  # else inline, perhaps with placeholders such as MODEL
    not_run: str = ""  # the document's reason why no test can run it
    is_python: bool = False

    @property
    def program(self) -> str:
        return re.split(r"[\s;]", self.text, maxsplit=1)[0].removeprefix(".venv/bin/")


def nearest(word: str) -> str | None:
    """Returns the program whose name is most similar to a word, or None."""
    return next(iter(difflib.get_close_matches(word, PROGRAMS, n=1, cutoff=0.7)), None)


def commands(document: Path) -> list[Command]:
    """Returns all blocks of commands or Python, and all inline code that begins with a program.

    A block in which no line begins with a program, or with a similar word, is taken for output or
    a formula.
    """
    text, name = document.read_text(encoding="utf-8"), str(document.relative_to(ROOT))
    found: list[tuple[int, Command]] = []

    def add(at: int, line: str, *how: bool | str) -> None:
        where = f"{name}:{text.count(chr(10), 0, at) + 1}"
        found.append((at, Command(where, line, *how)))  # type: ignore[arg-type]

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    fenced = list(_FENCED.finditer(text))
    prose = _FENCED.sub(blank, text)
    blocks = [(m.start(), m.start(2), m[2], m[1]) for m in fenced]
    blocks += [(m.start(), m.start(), m[0], "") for m in _INDENTED.finditer(prose)]
    for begin, start, block, language in blocks:
        mark = _NOT_RUN.search(text[:begin])
        reason = mark[1] if mark else ""
        if language == "python":
            add(start, block, True, reason, True)
        elif language in ("", "sh", "bash", "console"):
            lines = list(_LINE.finditer(block))
            if any(nearest(Command("", line[0].strip(), True).program) for line in lines):
                for line in lines:
                    if joined := re.sub(r"\\\n\s*", "", line[0]).strip():
                        add(start + line.end() - len(line[0].lstrip()), joined, True, reason)
    for match in _INLINE.finditer(_INDENTED.sub(blank, prose)):
        line = " ".join(match[1].split())
        if line.split(" ")[0].removeprefix(".venv/bin/") in PROGRAMS:
            add(match.start(1), line, False)
    return [command for _, command in sorted(found, key=lambda entry: entry[0])]


def yaml_files(document: Path) -> dict[str, str]:
    """Maps the last file name that precedes each YAML block of a document to the block."""
    text = document.read_text(encoding="utf-8")
    found = {}
    for match in _FENCED.finditer(text):
        names = re.findall(r"`([\w/]+\.yaml)`", text[: match.start()])
        if match[1] == "yaml" and names:
            found[names[-1]] = match[2]
    return found


def broken_links(document: Path) -> list[str]:
    """Returns the relative links whose file or heading does not exist."""
    text = document.read_text(encoding="utf-8")
    found = []
    for link in re.findall(r"\]\(([^)]+)\)", text):
        name, _, heading = link.partition("#")
        target = document.parent / name if name else document
        if "://" not in link and not (
            target.exists() and (not heading or heading in _anchors(target))
        ):
            found.append(link)
    return found


def _anchors(document: Path) -> set[str]:
    """Returns the anchors of all headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def messages(document: Path) -> list[str]:
    """Returns the errors and warnings that a document quotes in blocks, without `nmt: error:`."""
    text = document.read_text(encoding="utf-8")
    return re.findall(r"^ *nmt: (?:error|warning): (.+)$", text, re.MULTILINE)


def what_the_code_says() -> list[re.Pattern[str]]:
    """Returns patterns for the texts in the code, which match the start or the end of a message."""
    found = []
    for path in (ROOT / "nmt").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        inside = {v for node in nodes if isinstance(node, ast.JoinedStr) for v in node.values}
        for node in nodes:
            if node in inside:
                continue
            fixed = list(_fixed_parts(node))
            # short texts are left out: "{problem}, {remedy}" would match any message
            if sum(map(len, fixed)) >= 15:
                pattern = ".+".join(map(re.escape, fixed)).removeprefix("nmt:\\ warning:\\ ")
                found.append(re.compile(f"^{pattern}|{pattern}$"))
    return found


def _fixed_parts(node: ast.AST) -> Iterator[str]:
    """Yields the text between the placeholders of an f-string or of a string with braces."""
    match node:
        case ast.Constant(value=str(text)):
            yield from re.split(r"\{\w*\}", text)
        case ast.JoinedStr(values=values):
            parts = [v.value if isinstance(v, ast.Constant) else "\0" for v in values]
            yield from re.split(r"\0|\{\w*\}", "".join(map(str, parts)))
