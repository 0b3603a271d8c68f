"""Lines of a trace file, one after the other: plain or compressed, each with its number for errors."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, NoReturn

from muster.documents.problems import Problem, quoted
from muster.sim.scenario.problems import ScenarioError

GZIP = b"\x1f\x8b"
NEVER_S = 1 << 42  # seconds; later than any trace goes


class TraceError(ScenarioError):
    """A trace that cannot be used. It may be read from several files, so each problem comes with its own."""

    def __str__(self) -> str:
        return "\n".join(f"{self.name}: {problem}" for problem in self.problems)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, cut into its fields."""

    file: str
    number: int
    parts: tuple[str, ...]

    def refuse(self, field: str, value: str, allowed: str) -> NoReturn:
        """Something on this line is not allowed."""
        raise TraceError((Problem(field, self.number, f"{quoted(value)} is not allowed: {allowed}"),), self.file)

    def whole(self, place: int, field: str, *, least: int = 0, none: int | None = None) -> int:
        """A whole number of at least `least`, or the one that stands for none; decimals are cut off."""
        text = self.parts[place]
        try:
            number = int(text) if text.lstrip("-").isdigit() else int(float(text))
        except (ValueError, OverflowError):
            number = NEVER_S
        if number != none and not least <= number < NEVER_S:
            self.refuse(field, text, f"a number from {least} on" + ("" if none is None else f", or {none} for none"))
        return number

    def must_have(self, fields: int, what: str) -> None:
        """The line is cut off, or of another format."""
        if len(self.parts) < fields:
            allowed = f"{what} has {fields} fields, this line has {len(self.parts)}"
            raise TraceError((Problem("", self.number, allowed),), self.file)


@contextmanager
def opened(path: str) -> Iterator[IO[str]]:
    """The text of a trace, decompressed if need be."""
    try:
        with open(path, "rb") as raw:
            is_packed = raw.read(2) == GZIP
            raw.seek(0)
            packed = gzip.GzipFile(fileobj=raw) if is_packed else raw
            yield io.TextIOWrapper(packed, encoding="utf-8", errors="replace")
    except (OSError, EOFError) as err:
        message = f"cannot be read: {getattr(err, 'strerror', None) or err}"
        raise TraceError((Problem("", 0, message),), path) from err


def table(path: str, columns: tuple[str, ...]) -> Iterator[tuple[Line, Mapping[str, int]]]:
    """Comma-separated lines after the first, which must begin with these columns; each with where every column is."""
    every = lines(path, ",")
    head = next(every, None)
    if head is None or head.parts[: len(columns)] != columns:
        (head or Line(path, 1, ())).refuse("header", ",".join(head.parts if head else ()), ",".join(columns))
    places = {name: place for place, name in enumerate(head.parts)}
    for line in every:
        line.must_have(len(columns), "a line of this trace")
        yield line, places


def lines(path: str, separator: str | None = None, comment: str = "") -> Iterator[Line]:
    """All lines that are neither empty nor a comment."""
    with opened(path) as text:
        for number, line in enumerate(text, 1):
            stripped = line.strip()
            if stripped and not (comment and stripped.startswith(comment)):
                yield Line(path, number, tuple(stripped.split(separator)))
