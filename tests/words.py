"""Finds words that the project does not use in its prose, and names their replacements.

    python tests/words.py [PATTERN ...]

Prose is Markdown outside of code, comments in YAML files, and docstrings, comments and messages in
Python files. To allow a listed word on one line, write for example `word ok: drawn` in a comment
on that line.
"""

import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

FILES = ["README.md", "*/README.md", "docs/*.md", "recipes/**/*.[my]*", "configs/**/*.yaml"]
CODE = ["nmt/**/*.py"]
GENERATED = Path("docs/reference.md")  # docs/reference.py writes it
WORDS = {  # patterns by replacement; a space matches any white space, and case is ignored
    "EOS": "end symbols?",
    "attend to": "sees",
    "prefix": "given beginnings?",
    "sample or plot": "draws?|drawn|drew|drawing",
    "report": "told",
    "package or buffers": "rooms?",
    "decided or warmed up": "settled",
    "maximum or largest": "greatest",
    "minimum or smallest": "the least|least (?:length|size|number|power|time)",
    "because ... ran out": "for want of",
    "buffered": "held back",
    "latency": "promptness",
    "ensemble": "several as one",
    "learned": "learnt",
    "token": "(?:a|per|each) piece|pieces? of the vocabulary",
    "per": "(?:token|sentence|byte|number|pair|step|line|word|time|reference|translation|process)"
    "(?:s|es)? an? (?:second|line|token|side|step|parameter|pair|row|sentence|GPU|epoch|batch)",
    "non-padding": "no padding",
    "a caller that": "whoever",
    "so that ... not": "lest",
    "duplicated": "doubled",
    "most likely": "likeliest",
    "more likely": "likelier",
    "continue": "(?:go|goes|going|went) on",
    "fix": "mend(?:s|ed|ing)?",
    "lowercased": "small letters",
    "forever": "for ever",
    "space": "blanks|an? blank(?! line)",
    "skip": "pass(?:ed|ing) over",
    "valid": "(?:not an?|no|newest|last) sound",
    "choose another": "name another",
    "data is": "data are",
    "spelled or misspelled": "(?:mis)?spelt",
    "the American spelling": r"\w*(?:(?:neighb|behavi|col|fav|hon)our|(?:al|token|optim)is[ei])\w*",
}
PATTERNS = {
    meant: re.compile(rf"\b(?:{words})\b".replace(" ", r"\s+"), re.IGNORECASE)
    for meant, words in WORDS.items()
}
PROSE = ("COMMENT", "STRING", "FSTRING_MIDDLE")
CODE_OF = {
    ".py": [re.compile(r"\{[^{}\n]*\}")],
    ".md": [re.compile(r"^```.*?^```$", re.M | re.S), re.compile(r"(?<=\n\n)(?:(?:    .*)?\n)+")],
    ".yaml": [re.compile(r"^[^#\n]*#?", re.M)],
}
INLINE = re.compile(r"`(?:[^`\n]|\n(?!\n))+`|\]\([^)]*\)|word ok: [\w ]+")


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def prose_of_python(text: str) -> str:
    """Returns the text with everything except comments and strings replaced by spaces."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    prose = blank(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] in PROSE and " " in token.string:
            (row, column), (last_row, last_column) = token.start, token.end
            begin, end = starts[row - 1] + column, starts[last_row - 1] + last_column
            prose = prose[:begin] + text[begin:end].replace("#", " ") + prose[end:]
    return prose


def unwanted(path: Path) -> Iterator[str]:
    """Yields a message for each word of a file that the project does not use."""
    text = path.read_text("utf-8")
    lines = text.lower().split("\n")
    if path.suffix == ".py":
        text = prose_of_python(text)
    for code in (*CODE_OF.get(path.suffix, ()), INLINE):
        text = code.sub(lambda match: blank(match[0]), text)
    for meant, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            line, word = text.count("\n", 0, match.start()), " ".join(match[0].split())
            if f"word ok: {word.lower()}" not in lines[line]:
                yield f'{path}:{line + 1}: The project does not use "{word}". Write "{meant}".'


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    paths = {path for pattern in sys.argv[1:] or FILES + CODE for path in Path().glob(pattern)}
    messages = [each for path in sorted(paths - {GENERATED}) for each in unwanted(path)]
    sys.exit("\n".join(messages) or 0)
