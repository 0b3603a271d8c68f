"""What `muster watch` and `muster top` show: a table that stays in its place, or lines where nobody looks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from muster.cli.remote.asking import FAILED, client, ended
from muster.cli.remote.listing import FOLLOWING_PATIENCE_S
from muster.cli.remote.tables import JOBS, NODES, QUEUES, Column, amounts, as_lines, clean, clock, is_looked_at
from muster.cli.remote.where import Format, Where
from muster.model.resources import GPU, format_amount, parse_amount
from muster.sdk.asking import MOST_IN_A_PAGE
from muster.sdk.client import Client
from muster.sdk.shapes import Job, JobState, Node

_ALIVE: tuple[JobState, ...] = ("running", "pending", "queued")
_MILLI = 1000


def watch_jobs(where: Where, which: Mapping[str, str], every_s: float) -> int:
    """Show jobs until all of them are over; the exit code is 0 if all succeeded."""

    def run() -> int:
        with client(where, FOLLOWING_PATIENCE_S) as to, _view(where) as view:
            jobs: dict[str, Job] = {}
            while True:
                jobs = looked_again(to, which, jobs)
                view.show(jobs.values())
                if all(job.is_over for job in jobs.values()):
                    break
                time.sleep(every_s)
        if not jobs:
            print("no such jobs that are not over")
        return 0 if all(job.state == "succeeded" for job in jobs.values()) else FAILED

    return ended(run)


def looked_again(to: Client, which: Mapping[str, str], before: Mapping[str, Job]) -> dict[str, Job]:
    """The jobs of before and those that came since, as they are by now; in the order in which they were first seen."""
    alive = {job.id: job for state in _ALIVE for job in _page(to, which, state)}
    now = {
        name: alive.get(name) or (job if job.is_over else to.job(name))  # who is not among them ended, or hides in many
        for name, job in before.items()
    }
    return now | {name: alive[name] for name in reversed(alive) if name not in now}


def _page(to: Client, which: Mapping[str, str], state: JobState) -> Sequence[Job]:
    return to.jobs(**which, state=state, limit=MOST_IN_A_PAGE, after=None).jobs


class _Lines:
    """For files and pipes: a line whenever the state of a job changes."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, jobs: Iterable[Job]) -> None:
        """Say what is new."""
        for job in jobs:
            now = (job.state, job.attempt)
            if self._shown.get(job.id) != now:
                self._shown[job.id] = now
                again = f"attempt {job.attempt}" if job.attempt > 1 else ""
                about = f"{job.id:<24}  {job.queue:<12}  {job.state:<10}  {again}  {job.reason}".rstrip()
                print(f"{clock(time.time())}  {clean(about)}", flush=True)


class Screen:
    """For people: lines that stay in their place; what does not fit is cut off at the lower end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(highlight=False), auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._live.__exit__(*raised)

    def draw(self, lines: Iterable[str]) -> None:
        """Show these instead of those before."""
        from rich.text import Text

        self._live.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)


class _Table(Screen):
    """Jobs on a terminal, those that run first."""

    def __init__(self, *, wide: bool) -> None:
        super().__init__()
        self._columns = _shown(JOBS, wide=wide)

    def show(self, jobs: Iterable[Job]) -> None:
        """Draw it anew."""
        order = {state: place for place, state in enumerate(_ALIVE)}
        rows = sorted(jobs, key=lambda job: order.get(job.state, len(_ALIVE)))
        self.draw(as_lines(rows, self._columns, coloured=True))


def _view(where: Where) -> _Lines | _Table:
    return _Table(wide=where.output is Format.WIDE) if is_looked_at() else _Lines()


# --- top -----------------------------------------------------------------------------------------


def show_top(where: Where, every_s: float, *, once: bool) -> int:
    """Show queues and nodes until Ctrl-C, or once; the exit code."""
    wide = where.output is Format.WIDE

    def run() -> int:
        if once or not is_looked_at():
            with client(where) as to:
                print("\n".join(top_of(to, wide=wide, coloured=False)))
            return 0
        with client(where, FOLLOWING_PATIENCE_S) as to, Screen() as screen:
            while True:
                screen.draw(top_of(to, wide=wide, coloured=True))
                time.sleep(every_s)

    return ended(run)


def top_of(to: Client, *, wide: bool, coloured: bool) -> Iterator[str]:
    """How the server is, its queues and its nodes, as lines."""
    status, queues, nodes = to.status(), to.queues(), to.nodes()
    paused = ", paused" if status.paused else ""
    yield f"{to.server}  {clock(time.time())}  {status.turns} turns, preemption {status.preemption}{paused}"
    yield ""
    yield from as_lines(queues, _shown(_TOP_QUEUES, wide=wide), coloured=coloured)
    yield ""
    yield from as_lines(nodes, _shown(_TOP_NODES, wide=wide), coloured=coloured)


def free(node: Node) -> dict[str, str]:
    """What a node has left; what it lacks is left out."""
    left = {
        name: _units(name, text) - _units(name, node.used.get(name, "0")) for name, text in node.allocatable.items()
    }
    return {name: format_amount(name, amount) for name, amount in left.items() if amount > 0}


def _units(name: str, text: str) -> int:
    """Base units; parts of GPUs too, which no node has but which jobs use."""
    return round(float(text) * _MILLI) if name == GPU else parse_amount(name, text)


def _shown(columns: Sequence[Column], *, wide: bool) -> list[Column]:
    return [column for column in columns if wide or not column.wide]


_TOP_QUEUES = [column._replace(wide=column.wide and column.head != "ENTITLED") for column in QUEUES]
_TOP_NODES = [
    *(column for column in NODES if column.head not in ("OF", "LABELS")),
    Column("FREE", lambda node: amounts(free(node))),
    *(column._replace(wide=True) for column in NODES if column.head in ("OF", "LABELS")),
]
