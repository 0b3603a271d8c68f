"""Tables of the page. Everything that comes from a scenario is escaped here: names are input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers stand to the right, sentences get room. `meaning` is shown when someone points at it."""

    name: str
    holds: Literal["numbers", "names", "words"] = "numbers"
    meaning: str = ""

    @property
    def css(self) -> str:
        """As an attribute."""
        return {"numbers": ' class="number"', "names": "", "words": ' class="words"'}[self.holds]


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell with a bar behind it, from 0 to 1."""

    text: str
    part: float


Cell = str | Bar


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> str:
    """A table that scrolls by itself where it is too wide. The first cell of a row is its heading."""
    heads = "".join(_head(column) for column in columns)
    body = "".join(f"<tr>{''.join(_cells(columns, row))}</tr>" for row in rows)
    return (
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(column: Column) -> str:
    meaning = f' title="{escape(column.meaning)}"' if column.meaning else ""
    return f'<th scope="col"{column.css}{meaning}>{escape(column.name)}</th>'


def _cells(columns: Sequence[Column], row: Sequence[Cell]) -> Iterable[str]:
    for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
        text = _text(cell)
        yield f'<th scope="row"{column.css}>{text}</th>' if number == 0 else f"<td{column.css}>{text}</td>"


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return escape(cell)
    wide = round(100 * min(max(cell.part, 0.0), 1.0), 1)
    bar = '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
    return f'{escape(cell.text)}{bar}<rect width="{wide:g}" height="8"/></svg>'
