"""What every agent has, is to start, and is to stop.

A lease is told to its agent until the agent says it has it; a stop until the agent says the attempt is over. The next
attempt of a job is told to nobody before the last one is over, wherever that ran.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from threading import RLock
from typing import Any

from msgspec.structs import replace

from muster.agent.protocol import Report
from muster.store.rows import LeaseChange, LeaseRow

LEASED, ACCEPTED, RUNNING, STOPPING, ENDED = "leased", "accepted", "running", "stopping", "ended"

NOTED_MS = 5_000  # for which what an agent said of an attempt that goes on may wait to be written

Key = tuple[str, int]
"""A job and the number of its attempt."""


@dataclass(slots=True)
class Line:
    """To one cluster's agent: who called in last and when, how often, and what this session was told already.

    `number` is that of the last answer; what `it_said` counts as told once the agent says that it got that one.
    `heard`: the last of its calls of which all is durable, and the one that it was told of.
    """

    session: str = ""
    seen_ms: int = 0
    calls: int = 0
    number: int = 0
    heard: int = 0
    heard_told: int = 0
    it_said: dict[Key, tuple[str, int]] = field(default_factory=dict)
    told: dict[Key, tuple[str, int]] = field(default_factory=dict)


class Leases:
    """All leases that are not over."""

    def __init__(self, rows: Iterable[LeaseRow] = ()) -> None:
        self.live: dict[Key, LeaseRow] = {}
        self._of_job: dict[str, list[int]] = {}
        self._untold: dict[str, dict[Key, None]] = {}
        self.lines: dict[str, Line] = {}
        self.woken: Callable[[str], None] | None = None  # called with a cluster that has something to be told
        self._lock = RLock()  # turns change leases while agents ask for theirs
        self._unsettled: dict[Key, int] = {}  # how many changes are not durable yet
        self._noted: dict[Key, int] = {}  # what only we know of so far, by when we heard of it
        for row in sorted(rows, key=lambda row: (row.job, row.attempt)):
            self.put(row)

    def put(self, row: LeaseRow) -> None:
        """A lease is made or changed."""
        key = (row.job, row.attempt)
        with self._lock:
            if row.state == ENDED:
                self._end(key)
                return
            if key not in self.live:
                self._of_job.setdefault(row.job, []).append(row.attempt)
            self.live[key] = row
            untold = self._untold.setdefault(row.cluster, {})
            if is_to_be_told(row) and not self._is_told(key, row):
                untold[key] = None
            else:
                untold.pop(key, None)

    def _is_told(self, key: Key, row: LeaseRow) -> bool:
        """Whether the agent's present session was told of the lease as it is."""
        line = self.lines.get(row.cluster)
        return line is not None and key in line.told and line.told[key] == _version(row)

    def note(self, row: LeaseRow, now_ms: int) -> None:
        """An agent said of an attempt that it goes on. It would say so again: that need not be written at once.

        Most attempts of short jobs are over before it is, and are written once less.
        """
        with self._lock:
            self.put(row)
            self._noted.setdefault((row.job, row.attempt), now_ms)

    def as_noted(self, row: LeaseRow) -> LeaseRow:
        """A lease that was found written down, with what its agent said since."""
        key = (row.job, row.attempt)
        with self._lock:
            return self.live[key] if key in self._noted else row

    def noted(self, now_ms: int) -> list[LeaseRow]:
        """Leases of which something has waited long enough to be written."""
        with self._lock:
            old = takewhile(lambda noted: noted[1] + NOTED_MS <= now_ms, self._noted.items())
            return [self.live[key] for key, _ in old]

    def noted_due_ms(self) -> int | None:
        """When the next of these will have waited long enough."""
        with self._lock:
            return next((heard_ms + NOTED_MS for heard_ms in self._noted.values()), None)

    def decide(self, rows: Collection[LeaseRow]) -> None:
        """A turn makes and changes leases. Turns know them from now on; agents are told once they are settled."""
        with self._lock:
            for row in rows:
                key = (row.job, row.attempt)
                self._unsettled[key] = self._unsettled.get(key, 0) + 1
                self._noted.pop(key, None)
                self.put(row)

    def settle(self, rows: Collection[LeaseRow | LeaseChange]) -> None:
        """What was decided about these is durable."""
        with self._lock:
            for row in rows:
                key = (row.job, row.attempt)
                left = self._unsettled.pop(key) - 1
                if left:
                    self._unsettled[key] = left
            clusters = {row.cluster for row in rows}
        for cluster in clusters:
            self._wake(cluster)

    def _end(self, key: Key) -> None:
        row = self.live.pop(key, None)
        self._noted.pop(key, None)
        if row is None:
            return
        self._untold[row.cluster].pop(key, None)
        for line in self.lines.values():
            line.told.pop(key, None)
            line.it_said.pop(key, None)
        left = self._of_job[row.job]
        left.remove(row.attempt)
        if not left:
            del self._of_job[row.job]
        else:  # the next attempt may be told now
            self._wake(self.live[row.job, left[0]].cluster)

    def _wake(self, cluster: str) -> None:
        if self.woken is not None:
            self.woken(cluster)

    def of_job(self, job: str) -> list[LeaseRow]:
        """The leases of a job that are not over, first attempt first."""
        with self._lock:
            return [self.live[job, attempt] for attempt in self._of_job.get(job, ())]

    def of_cluster(self, cluster: str) -> list[LeaseRow]:
        """The leases of a cluster that are not over."""
        with self._lock:
            return [row for row in self.live.values() if row.cluster == cluster]

    def get(self, job: str, attempt: int) -> LeaseRow | None:
        """A lease that is not over."""
        with self._lock:
            return self.live.get((job, attempt))

    def stopping(self) -> list[LeaseRow]:
        """Those whose attempts are told to end and have not yet."""
        with self._lock:
            return [row for row in self.live.values() if row.state == STOPPING]

    # -- agents ------------------------------------------------------------------------------------------

    def call(self, cluster: str, session: str, got: int, now_ms: int, *, hello: bool) -> int:
        """An agent calls in, and got that answer last; how many calls that makes, 0 if this session never said hello.

        Whoever called before gets no more answer: an agent has one call at a time, and has given up the others.
        """
        with self._lock:
            line = self.lines.setdefault(cluster, Line())
            if hello:
                line.session, line.told, line.it_said, line.heard, line.heard_told = session, {}, {}, 0, 0
                self._untold[cluster] = {key: None for key, row in self.live.items() if _is_for(cluster, row)}
            if line.session != session:
                return 0
            line.seen_ms = now_ms
            if got == line.number:
                line.told.update(line.it_said)
                for key in line.it_said:
                    if (row := self.live.get(key)) is not None and self._is_told(key, row):
                        self._untold[cluster].pop(key, None)
            line.it_said = {}
            line.calls += 1
            calls = line.calls
        self._wake(cluster)
        return calls

    def hear(self, cluster: str, session: str, call: int) -> None:
        """What that call said, and those before it, is durable."""
        with self._lock:
            line = self.lines[cluster]
            if line.session != session or call <= line.heard:
                return
            line.heard = call
        self._wake(cluster)

    def has_heard_more(self, cluster: str) -> bool:
        """Whether the agent could be told that more of what it said is durable."""
        with self._lock:
            line = self.lines.get(cluster)
            return line is not None and line.heard > line.heard_told

    def is_current(self, cluster: str, session: str) -> bool:
        """Whether the agent need not say hello again."""
        with self._lock:
            return cluster in self.lines and self.lines[cluster].session == session

    def is_last(self, cluster: str, calls: int) -> bool:
        """Whether the agent has not called again since."""
        with self._lock:
            return cluster in self.lines and self.lines[cluster].calls == calls

    def end_session(self, cluster: str) -> None:
        """Whatever the agent has, it must say all of it when it calls again."""
        with self._lock:
            if cluster in self.lines:
                self.lines[cluster].session = ""
        self._wake(cluster)

    def to_tell(self, cluster: str, most: int) -> list[LeaseRow]:
        """What the agent's present session was not told yet, the oldest first."""
        found: list[LeaseRow] = []
        with self._lock:
            for key in self._untold.get(cluster, ()):
                if key not in self._unsettled and self._is_first(key):
                    found.append(self.live[key])
                    if len(found) == most:
                        break
        return found

    def note_answer(self, cluster: str, calls: int, rows: Iterable[LeaseRow]) -> tuple[int, int]:
        """The agent is being told these; the number of the answer, and the last call that was heard.

        0 and 0 if it has called again since: then it will not hear of this answer.
        """
        with self._lock:
            line = self.lines[cluster]
            if line.calls != calls:
                return 0, 0
            line.number += 1
            line.it_said = {(row.job, row.attempt): _version(row) for row in rows}
            line.heard_told = line.heard
            return line.number, line.heard

    def stale(self, cluster: str, reports: Iterable[Report]) -> list[Report]:
        """Attempts that an agent has and should not: nobody here knows of them."""
        with self._lock:
            return [
                it
                for it in reports
                if it.stage != "ended"
                and ((row := self.live.get((it.job, it.attempt))) is None or row.cluster != cluster)
            ]

    def _is_first(self, key: Key) -> bool:
        """Whether no earlier attempt of the job is still about."""
        return self._of_job[key[0]][0] == key[1]

    def lost_by(self, cluster: str, has: Iterable[Report]) -> list[LeaseRow]:
        """Those that the agent, which says all it has, once had and has no more."""
        there = {(report.job, report.attempt) for report in has}
        return [row for row in self.of_cluster(cluster) if row.state != LEASED and (row.job, row.attempt) not in there]


def _is_for(cluster: str, row: LeaseRow) -> bool:
    return row.cluster == cluster and is_to_be_told(row)


def is_to_be_told(row: LeaseRow) -> bool:
    """Whether the agent must hear of the lease as it is."""
    return row.state in (LEASED, STOPPING) or revision(row) > int(row.result.get("revision", 0))


def revision(row: LeaseRow) -> int:
    """Which of its widths a lease has come to."""
    return int(row.spec["revision"])


def reported(row: LeaseRow, report: Report, now_ms: int) -> LeaseRow:
    """The lease after an agent spoke of it."""
    if report.stage == "ended":
        state = ENDED
    elif row.state == STOPPING:
        state = STOPPING
    else:
        state = RUNNING if report.stage == "running" else ACCEPTED
    result: dict[str, Any] = {"revision": report.revision}
    if report.stage == "ended":
        result |= {"result": report.result, "message": report.message, "exitCode": report.exit_code}
    return replace(row, state=state, result=result, changed_ms=now_ms)


def _version(row: LeaseRow) -> tuple[str, int]:
    return (STOPPING if row.state == STOPPING else LEASED, revision(row))
