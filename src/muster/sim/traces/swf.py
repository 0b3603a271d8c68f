"""The Standard Workload Format of the Parallel Workloads Archive.

18 fields a line, -1 for what nobody knows, comments behind a semicolon. Of the fields we read: job number, submit time,
run time, allocated processors, requested processors, requested time, user, group, queue. A job asks for the processors
it requested, else for those it got. It is expected to take the time it requested, and never less than it ran: real
schedulers kill what overruns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from muster.model.jobs import Job
from muster.sim.scenario.scenario import ScriptJob
from muster.sim.traces.choices import Expected, QueueBy
from muster.sim.traces.lines import Line, lines, opened
from muster.sim.traces.shaping import Machine

JOB, SUBMIT, RUN, GOT, ASKED, TIME, USER, GROUP, QUEUE = 0, 1, 3, 4, 7, 8, 11, 12, 14
FIELDS = 18
_SECOND_MS = 1000
_SIZE = re.compile(r";\s*(MaxProcs|MaxNodes):\s*(\d+)")
_NOBODY = -1


_FIELD_OF = {QueueBy.USER: USER, QueueBy.GROUP: GROUP, QueueBy.QUEUE: QUEUE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a log is read. `first` and `many`: only so many jobs from that place on, in the order of submission."""

    queue_by: QueueBy = QueueBy.ONE
    expected: Expected = Expected.REQUESTED
    first: int = 0
    many: int | None = None


def processors(path: str) -> int | None:
    """How many processors the log says its machine had."""
    with opened(path) as text:
        sizes: dict[str, int] = {}
        for line in text:
            if not line.startswith(";"):
                break
            if found := _SIZE.match(line):
                sizes.setdefault(found[1], int(found[2]))
    return sizes.get("MaxProcs") or sizes.get("MaxNodes")


def jobs(path: str, machine: Machine, reading: Reading) -> Iterator[ScriptJob]:
    """The jobs of a log, one by one. Those that never ran or asked for nothing are left out."""
    taken = place = 0
    for line in lines(path, comment=";"):
        entry = _entry(line, machine, reading)
        if entry is None:
            continue
        place += 1
        if place <= reading.first:
            continue
        if reading.many is not None and taken == reading.many:
            return
        taken += 1
        yield entry


def _entry(line: Line, machine: Machine, reading: Reading) -> ScriptJob | None:
    line.must_have(FIELDS, "a line of the Standard Workload Format")
    run_s = line.whole(RUN, "run time", none=_NOBODY)
    width = line.whole(ASKED, "requested processors", least=1, none=_NOBODY)
    if width == _NOBODY:
        width = line.whole(GOT, "allocated processors", none=_NOBODY)
    if run_s == _NOBODY or width <= 0:
        return None
    if width > machine.units:
        line.refuse("requested processors", str(width), f"at most the {machine.units} there are; see --nodes")
    return ScriptJob(
        job=Job(
            id=line.parts[JOB],
            queue=_queue(line, reading),
            profile=machine.profile(width),
            submit_ms=line.whole(SUBMIT, "submit time") * _SECOND_MS,
            user=_name("user", line.parts[USER]),
            expected_ms=_expected_ms(line, run_s, reading),
        ),
        runtime_ms=run_s * _SECOND_MS,
    )


def _expected_ms(line: Line, run_s: int, reading: Reading) -> int | None:
    if reading.expected is Expected.UNKNOWN:
        return None
    asked_s = line.whole(TIME, "requested time", none=_NOBODY) if reading.expected is Expected.REQUESTED else run_s
    return max(asked_s, run_s) * _SECOND_MS


def _queue(line: Line, reading: Reading) -> str:
    by = reading.queue_by
    return "all" if by is QueueBy.ONE else _name(by.value, line.parts[_FIELD_OF[by]])


@cache
def _name(kind: str, number: str) -> str:
    """The same text for all jobs of one, not a million that are equal."""
    return f"{kind}-{number}" if number != str(_NOBODY) else f"no-{kind}"
