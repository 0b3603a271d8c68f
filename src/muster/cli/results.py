"""What `muster simulate` writes beside what it prints: a report, and tables.

Where it will go is made sure of before the simulation begins. A file gets its name when it is whole, so that nobody
who stops the simulation is left with half of one.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation, Tick

if TYPE_CHECKING:
    from muster.sim.measures import Gauge

_PARQUET_FILES = ("jobs.parquet", "queues.parquet", "fleet.parquet")


class NoResult(Exception):
    """A result cannot be written where it should; the text says which and why."""


class Results:
    """The results asked for. `follow` the simulation, then `keep` them."""

    def __init__(self, report: str | None, tables: list[str] | None, name: str) -> None:
        self._report = report
        self._tables = tables
        self._name = name
        self._gauge: Gauge | None = None

    def follow(self, simulation: Simulation, ticks: Iterable[Tick]) -> Iterator[Tick]:
        """The same ticks, measured on their way."""
        if self._report is None and self._tables is None:
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
        measured = self._gauge.result()
        if self._report is not None:
            from muster.sim.report import page

            text = page(scenario, measured, self._name)
            with _writing("--report"), open(self._report, "w", encoding="utf-8") as target:
                target.write(text)
        if self._tables is not None:
            from muster.sim.parquet import tables, write

            for table, path in zip(tables(measured), self._tables, strict=True):
                with _writing("--parquet"):
                    write(table, path)


@contextmanager
def results(file: str, *, report: str | None, parquet: str | None) -> Iterator[Results]:
    """Places for the results, which get their names at the end if nothing went wrong. `file` is what is simulated."""
    with ExitStack() as stack:
        report_place = None if report is None else stack.enter_context(_place(report, f"--report {report}", file))
        table_places = None
        if parquet is not None:
            said = f"--parquet {parquet}"
            if find_spec("pyarrow") is None:
                raise NoResult(f"{said}: needs pyarrow: pip install 'muster-scheduler[parquet]'")
            stack.enter_context(_folder(parquet, said))
            table_places = [
                stack.enter_context(_place(os.path.join(parquet, name), said, file)) for name in _PARQUET_FILES
            ]
        name = "standard input" if file == "/dev/stdin" else os.path.basename(file)
        yield Results(report_place, table_places, name)


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
    with _writing(said):
        os.makedirs(path, exist_ok=True)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                os.rmdir(path)
        raise


@contextmanager
def _place(path: str, said: str, file: str) -> Iterator[str]:
    """Where to write what will be at `path`: a new file beside it, or the thing itself if it is no plain file."""
    if os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
        raise NoResult(f"{said}: that is what is to be simulated")
    if os.path.isdir(path):
        raise NoResult(f"{said}: cannot be written: Is a directory")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        yield path  # /dev/stdout, a pipe: nothing may take its place
        return
    target = os.path.realpath(path)  # a link stays a link
    with _writing(said):
        handle, draft = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
    os.close(handle)
    try:
        yield draft
        with _writing(said):
            os.chmod(draft, 0o666 & ~_umask())
            os.replace(draft, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
