"""`muster replay`: recorded turns in, the first difference out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from muster.cli.ending import BAD_INPUT, ending_well
from muster.engine.kernels import suited_to
from muster.model.errors import InvalidValue
from muster.sim.table import clock
from muster.state.record import Record, RecordError, Replay
from muster.state.record.replay import Turn

SHOW_PROGRESS_FROM = 200  # turns

SAME, DIFFERENT = 0, 1


def run(file: str, output: str, *, last: int | None = None) -> int:
    """Replay the file and print; the exit code."""
    return ending_well(lambda: _run(file, output, last))


def _run(file: str, output: str, last: int | None) -> int:
    try:
        suited_to(0)  # a wrong setting is said before any work
        with open(file, "rb") as opened:
            replayed = Replayed()
            replayed.add(opened, last)
    except (InvalidValue, RecordError, OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else err
        print(f"{file}: {reason}", file=sys.stderr)
        return BAD_INPUT
    return replayed.told(output, lambda now_ms: clock(now_ms / 1000))


@dataclass(slots=True)
class Replayed:
    """What came of records, one after the other."""

    turns: int = 0
    jobs: int = 0
    events: int = 0
    by: str = ""
    differing: list[tuple[int, Turn]] = field(default_factory=list)  # with the number of the turn among all

    def add(self, file: BinaryIO, last: int | None = None) -> None:
        """Replay one more, or the last so many turns of it; raises RecordError."""
        replay = Replay(Record(file), last=last)
        before = self.turns - replay.skipped
        self.differing += [(before + turn.number, turn) for turn in _with_progress(replay) if turn.difference]
        self.turns += replay.record.turns - replay.skipped
        self.jobs += replay.jobs
        self.events += replay.events
        self.by = replay.record.by

    def told(self, output: str, moment: Callable[[int], str]) -> int:
        """Print it; the exit code."""
        print(self.as_json() if output == "json" else self.in_words(moment))
        return DIFFERENT if self.differing else SAME

    def in_words(self, moment: Callable[[int], str]) -> str:
        """For people."""
        by = f"recorded by Muster {self.by}"
        if not self.differing or (found := self.differing[0][1].difference) is None:
            return f"all {self.turns} plans are identical ({self.jobs} jobs, {self.events} events; {by})"
        number, first = self.differing[0]
        return (
            f"turn {number} of {self.turns}, at {moment(first.now_ms)}: {found.what} is another\n"
            f"  recorded  {found.recorded}\n"
            f"  now       {found.now}\n"
            f"{len(self.differing)} of {self.turns} plans differ; this is the first ({by})"
        )

    def as_json(self) -> str:
        """For machines."""
        first: dict[str, object] | None = None
        if self.differing and (found := self.differing[0][1].difference) is not None:
            number, turn = self.differing[0]
            first = {"turn": number, "t": turn.now_ms / 1000, "what": found.what}
            first |= {"recorded": found.recorded, "now": found.now}
        told = {
            "turns": self.turns,
            "jobs": self.jobs,
            "events": self.events,
            "recordedBy": self.by,
            "identical": not self.differing,
            "differing": [number for number, _ in self.differing],
            "first": first,
        }
        return json.dumps(told, ensure_ascii=False, indent=2)


def _with_progress(replay: Replay) -> Iterator[Turn]:
    """The turns, with a bar on standard error when there are many and someone is looking."""
    if replay.record.turns < SHOW_PROGRESS_FROM or not sys.stderr.isatty():
        yield from replay
        return
    columns = (TextColumn("replaying"), BarColumn(), TextColumn("{task.completed}/{task.total} turns"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("turns", total=replay.record.turns)
        for turn in replay:
            progress.advance(task)
            yield turn
