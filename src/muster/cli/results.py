"""What `muster simulate` writes beside what it prints: a report, and tables.

Where it will go is made sure of before the simulation begins. A file gets its name when it is whole, so that nobody
who stops the simulation is left with half of one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation, Tick

if TYPE_CHECKING:
    from muster.sim.measures import Gauge

_PARQUET_FILES = ("jobs.parquet", "queues.parquet", "fleet.parquet")


class NoResult(Exception):
    """A result cannot be written where it should; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a result will be, and where it is written: beside it, or there itself if it is no plain file."""

    said: str  # the flag, for those who must be told that it cannot be written
    target: str
    draft: str

    def take(self) -> None:
        """What was written is whole: it gets its name."""
        if self.draft != self.target:
            with _writing(self.said):
                os.replace(self.draft, self.target)


class Results:
    """The results asked for. `follow` the simulation, then `keep` them."""

    def __init__(self, report: Place | None, tables: list[Place], name: str) -> None:
        self._report = report
        self._tables = tables
        self._name = name
        self._gauge: Gauge | None = None

    def follow(self, simulation: Simulation, ticks: Iterable[Tick]) -> Iterator[Tick]:
        """The same ticks, measured on their way."""
        if self._report is None and not self._tables:
            yield from ticks
            return
        from muster.sim.measures import Gauge

        self._gauge = gauge = Gauge(simulation)
        for tick in ticks:
            gauge.add(tick)
            yield tick

    def keep(self, scenario: Scenario) -> None:
        """Write what was asked for."""
        if self._gauge is None:
            return
        measured, places = self._gauge.result(), [*self._tables]
        if self._report is not None:
            from muster.sim.report import page

            text = page(scenario, measured, self._name)
            with _writing(self._report.said), open(self._report.draft, "w", encoding="utf-8") as target:
                target.write(text)
            places.append(self._report)
        if self._tables:
            from muster.sim.parquet import tables, write

            for table, place in zip(tables(measured), self._tables, strict=True):
                with _writing(place.said):
                    write(table, place.draft)
        for place in places:
            place.take()


@contextmanager
def results(inputs: Sequence[str], *, report: str | None, parquet: str | None) -> Iterator[Results]:
    """Places for the results. `inputs` are files that must stay as they are; the last is what is simulated."""
    with ExitStack() as stack:
        page_place, table_places = None, []
        if report is not None:
            page_place = stack.enter_context(_place(report, f"--report {report}", inputs))
        if parquet is not None:
            said = f"--parquet {parquet}"
            if find_spec("pyarrow") is None:
                raise NoResult(f"{said}: needs pyarrow: pip install 'muster-scheduler[parquet]'")
            stack.enter_context(_folder(parquet, said))
            paths = [os.path.join(parquet, name) for name in _PARQUET_FILES]
            table_places = [stack.enter_context(_place(path, said, inputs)) for path in paths]
        name = os.path.basename(inputs[-1]) if inputs else ""
        yield Results(page_place, table_places, "standard input" if name == "stdin" else name)


@contextmanager
def _writing(said: str) -> Iterator[None]:
    """Trouble with a file is told, not traced."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as err:
        raise NoResult(f"{said}: cannot be written: {err.strerror or err}") from err


@contextmanager
def _folder(path: str, said: str) -> Iterator[None]:
    """The folder is there; one that was made for this is gone again if nothing came of it."""
    is_new = not os.path.exists(path)
    try:
        with _writing(said):
            os.makedirs(path, exist_ok=True)
        yield
    finally:
        if is_new:
            with suppress(OSError):  # something is in it
                os.rmdir(path)


@contextmanager
def _place(path: str, said: str, inputs: Sequence[str]) -> Iterator[Place]:
    """A place for one file, with a draft that is gone at the end if it was not taken."""
    if any(os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file) for file in inputs):
        raise NoResult(f"{said}: that is what is to be simulated")
    if os.path.isdir(path):
        raise NoResult(f"{said}: cannot be written: Is a directory")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        yield Place(said, path, path)  # /dev/stdout, a pipe: nothing may take its place
        return
    target = os.path.realpath(path)  # a link stays a link
    draft = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}.part")
    try:
        with _writing(said):
            open(draft, "x").close()
        yield Place(said, target, draft)
    finally:
        with suppress(OSError):
            os.unlink(draft)
