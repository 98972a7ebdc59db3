"""Represents tables of results and formats the tables as text or Markdown."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of strings. The first cell of each row contains the name of the row."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Returns the table as text with aligned columns."""
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in lines
        ]
        return "\n".join([self.caption, *aligned, *self.notes])

    def as_markdown(self) -> str:
        """Returns the table and the notes in Markdown. Omits the caption."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        table = [f"| {' | '.join(cells)} |" for cells in lines]
        return "\n".join([*table, "", *self.notes]) + "\n"
