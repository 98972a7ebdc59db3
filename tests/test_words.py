"""Unwanted words are found in prose, and not in code."""

from pathlib import Path

from tests.words import unwanted

MARKDOWN = """\
Ids of end
symbols, `drawn` and [links](told.md).

    nmt told

```
learnt
```

Told on purpose. <!-- word ok: told -->
One sentence a line.
"""
PYTHON = '''\
"""Ids that are drawn."""
told = {"learnt": 1}  # for
# want of memory
raise ValueError(f"{told} no padding")  # word ok: no padding
'''
YAML = "learnt: told # one sentence a line\n"


def test_unwanted_words_are_found_in_prose_only(tmp_path: Path):
    found = {}
    for name, text in (("a.md", MARKDOWN), ("a.py", PYTHON), ("a.yaml", YAML)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        messages = [message.split(":", 2)[1:] for message in unwanted(tmp_path / name)]
        found[name] = sorted((int(line), text.split('"')[1]) for line, text in messages)
    assert found == {
        "a.md": [(1, "end symbols"), (11, "sentence a line")],
        "a.py": [(1, "drawn"), (2, "for want of")],
        "a.yaml": [(1, "sentence a line")],
    }
