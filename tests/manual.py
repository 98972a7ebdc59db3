"""The commands that README and recipes tell a reader to type, as they stand there."""

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("recipes/*/README.md")), *ROOT.glob("docs/*.md")]
PROGRAMS = {
    "bash", "cat", "cd", "curl", "docker", "echo", "for", "git", "head", "make", "nmt", "pip",
    "printf", "python", "python3", "sacrebleu", "sacremoses", "sbatch", "sed", "tensorboard",
    "torchrun", "wget",
}  # fmt: skip
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?:(?:    .*)?\n)+")  # after a blank line
_LINE = re.compile(r"(?:[^\n]*\\\n)*[^\n]+")  # with those that continue it
_INLINE = re.compile(r"`([^`]+)`")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->\n+\Z")  # before a block; a reader does not see it


@dataclass(frozen=True)
class Command:
    """What a reader types: one line, those that end in a backslash joined, or a Python block."""

    where: str  # document:line
    text: str
    is_block: bool  # else it stands within a sentence, perhaps with words such as MODEL in it
    not_run: str = ""  # why no test can run it, as the document says
    is_python: bool = False

    @property
    def program(self) -> str:
        return re.split(r"[\s;]", self.text, maxsplit=1)[0].removeprefix(".venv/bin/")


def nearest(word: str) -> str | None:
    """The program that is meant, perhaps misspelt."""
    return next(iter(difflib.get_close_matches(word, PROGRAMS, n=1, cutoff=0.7)), None)


def commands(document: Path) -> list[Command]:
    """All blocks of commands and of Python, and all code in sentences that begins with a program.

    A block in which no line begins with a program, nor with what may be meant for one, shows what
    is printed, or a formula.
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
    """The YAML blocks of a document, each by the name that stands last in the text before it."""
    text = document.read_text(encoding="utf-8")
    found = {}
    for match in _FENCED.finditer(text):
        names = re.findall(r"`([\w/]+\.yaml)`", text[: match.start()])
        if match[1] == "yaml" and names:
            found[names[-1]] = match[2]
    return found


def broken_links(document: Path) -> list[str]:
    """Relative links to what is not there, a file or a heading of a page."""
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
    """The names by which headings are linked to."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def messages(document: Path) -> list[str]:
    """The errors and warnings that a document quotes in blocks, without `nmt: error:`."""
    text = document.read_text(encoding="utf-8")
    return re.findall(r"^ *nmt: (?:error|warning): (.+)$", text, re.MULTILINE)


def what_the_code_says() -> list[re.Pattern[str]]:
    """All texts in the code, as the beginning or end of a message; what is filled in may differ."""
    found = []
    for path in (ROOT / "nmt").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        inside = {v for node in nodes if isinstance(node, ast.JoinedStr) for v in node.values}
        for node in nodes:
            if node in inside:
                continue
            fixed = list(_fixed_parts(node))
            # "{problem}, {remedy}" would fit any message
            if sum(map(len, fixed)) >= 15:
                pattern = ".+".join(map(re.escape, fixed)).removeprefix("nmt:\\ warning:\\ ")
                found.append(re.compile(f"^{pattern}|{pattern}$"))  # of either end of a message
    return found


def _fixed_parts(node: ast.AST) -> Iterator[str]:
    """The text between what is filled in, by an f-string or later by braces."""
    match node:
        case ast.Constant(value=str(text)):
            yield from re.split(r"\{\w*\}", text)
        case ast.JoinedStr(values=values):
            parts = [v.value if isinstance(v, ast.Constant) else "\0" for v in values]
            yield from re.split(r"\0|\{\w*\}", "".join(map(str, parts)))
