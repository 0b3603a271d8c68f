"""Tables and sentences of docs/evidence.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table; numbers to the right."""
    made = [[_cell(value) for value in row] for row in rows]
    rule = ["---:" if all(_is_number(row[place]) for row in made) and made else "---" for place in range(len(headings))]
    return [f"| {' | '.join(row)} |" for row in ([*headings], rule, *made)]


def bar(words: str, is_met: bool) -> str:
    """One bar, and whether it is met."""
    return f"- {'met' if is_met else '**not met**'}: {words}"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(cell: str) -> bool:
    return cell.strip("*–%").replace(",", "").replace(".", "").replace("-", "").isdigit() or cell in {"", "–"}
