"""A plan: what a turn decided, action by action, and one verdict for every job.

Actions stand in the order of their effects: jobs that shrink and evictions first, so that a node may be
promised twice inside one turn but is never over-full; growth last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from muster.model.jobs import Reservation, Task
from muster.model.reasons import Facts, Reason
from muster.model.snapshot import Snapshot

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass


class Rule(Enum):
    """Which rule takes a victim (design.md 4.5, 4.6, 5.5). DRAIN is no turn's: an operator empties a node."""

    FAIR_SHARE = "fair-share"
    PRIORITY = "priority"
    RESERVATION = "reservation"
    BORROWER = "borrower"
    CLASS = "class"
    DRAIN = "drain"

    @property
    def asks_for_age(self) -> bool:
        """Whether a lifetime protects from it: then each eviction doubles that lifetime."""
        return self in (Rule.FAIR_SHARE, Rule.PRIORITY, Rule.RESERVATION)


class Evict(NamedTuple):
    """Stop these tasks; `whole` when the job goes back to its queue."""

    job: str
    attempt: int
    tasks: tuple[Task, ...]
    whole: bool
    rule: Rule
    by: str


class Admit(NamedTuple):
    """Queued to pending: the job has a firm reservation, or starts further on in the same plan."""

    job: str
    attempt: int
    cluster: str
    charge: int = 0
    reservation: Reservation | None = None


class Return(NamedTuple):
    """Pending to queued: the job can no longer have a reservation."""

    job: str
    attempt: int


class Start(NamedTuple):
    """Start every task at once. A job that is still queued is admitted with it, for its `charge`. For `safe_ms` it is
    not evicted for others."""

    job: str
    queue: str
    attempt: int
    cluster: str
    tasks: tuple[Task, ...]
    overtook: tuple[str, ...] = ()
    by_preemption: bool = False
    charge: int = 0
    safe_ms: int = 0


class Promise(NamedTuple):
    """A pending job's firm reservation changed, or is no longer firm (None)."""

    job: str
    attempt: int
    reservation: Reservation | None


class Why(Enum):
    """Why a job's width changes (design.md 5.6)."""

    GROWTH = "growth"  # there is room nobody waits for
    ROOM = "room"  # a job that waits starts in it
    QUOTA = "quota"  # a job of the same queue or user that waits starts with that part of a quota
    LOAD = "load"  # more is in use than may be, or than the calendar leaves
    SHARE = "share"  # a queue below its entitled share takes its place
    EVENNESS = "evenness"  # one was served much more than another, which takes its place
    BENEFIT = "benefit"  # a task is worth much more to another


class Resize(NamedTuple):
    """Tasks of a group come (`added`) or go (`removed`), never both; `by`: the jobs that take their room."""

    job: str
    attempt: int
    group: str
    before: int
    after: int
    why: Why
    added: tuple[Task, ...] = ()
    removed: tuple[Task, ...] = ()
    by: tuple[str, ...] = ()


class Move(NamedTuple):
    """A running job goes on as a new attempt in another cluster. All who move leave their places before any comes."""

    job: str
    attempt: int
    cluster: str
    tasks: tuple[Task, ...]
    charge: int = 0


Action = Evict | Return | Admit | Start | Promise | Resize | Move


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The job starts in this turn."""

    cluster: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StillRunning:
    """The job runs and goes on."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The job waits, for one reason. `estimate_ms` only when the turn itself knows a start."""

    reason: Reason
    facts: Facts = field(default_factory=dict)
    estimate_ms: int | None = None

    def explain(self) -> str:
        """The reason as a sentence."""
        return self.reason.explain(self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """The job, or its tasks above min, must give way."""

    rule: Rule
    by: str
    whole: bool


Verdict = Started | StillRunning | Waiting | Victim


class Standing(NamedTuple):
    """Which queues came to stand in line with jobs that may start, each with the service that is put down to it for the
    time it was away; and which stand there no more, though they have jobs in line: a limit holds all of them, or none
    ever fits."""

    entered: tuple[tuple[str, int], ...] = ()
    closed: tuple[str, ...] = ()


class Later(NamedTuple):
    """A verdict that is made when someone looks at it; why the job waits, if it does, is known before."""

    make: Callable[[int], Verdict]
    place: int
    reason: Reason | None = None


_WITH_REASON = (Later, Waiting)  # the many first


class Verdicts(Mapping[str, Verdict]):
    """Verdicts, each made when someone looks at it: most are never needed."""

    def __init__(
        self,
        make: Callable[[], dict[str, Verdict | Later]],
        in_line: Callable[[], dict[str, Waiting | Later]] | None = None,
        aside: Sequence[tuple[str, Waiting]] = (),
    ) -> None:
        """`in_line`: only those who wait, without the many who start or stand `aside` until others let them go."""
        self._make = make
        self._make_line = in_line
        self.aside = aside

    @cached_property
    def _entries(self) -> dict[str, Verdict | Later]:
        return self._make()

    @cached_property
    def _line(self) -> dict[str, Waiting | Later]:
        if self._make_line is not None:
            return self._make_line()
        aside = {job for job, _ in self.aside}
        return {
            job: it
            for job, it in self._entries.items()
            if job not in aside and (isinstance(it, Waiting) or (isinstance(it, Later) and it.reason is not None))
        }

    def in_line(self) -> Iterable[str]:
        """Those who wait and were looked at, in the order in which they were."""
        return self._line

    def waiting(self, job: str) -> Waiting | None:
        """Why one of those in line waits; None if it was not looked at, or does not wait."""
        entry = self._line.get(job)
        if isinstance(entry, Later):
            made = entry.make(entry.place)
            assert isinstance(made, Waiting)
            entry = self._line[job] = made
        return entry

    def reasons(self) -> Iterator[tuple[str, Reason]]:
        """Why each job waits that does."""
        for job, entry in self._entries.items():
            if isinstance(entry, _WITH_REASON) and entry.reason is not None:
                yield job, entry.reason

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __getitem__(self, job: str) -> Verdict:
        entry = self._entries[job]
        if isinstance(entry, Later):
            entry = self._entries[job] = entry.make(entry.place)
        return entry

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, Verdict]], tuple[dict[str, Verdict]]]:
        return dict, (dict(self),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The turn's decision. `verdicts` holds the jobs it looked at; `verdict_of` answers for all.

    `wake_ms` is the first later moment at which time alone could change the decision. `waits_ms` counts only what
    could start or stop those who wait, `runs_ms` only widths and places of those who run, which may change for ever; so
    may the order inside queues.
    """

    now_ms: int
    actions: Sequence[Action] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    wake_ms: int | None = None
    waits_ms: int | None = None
    runs_ms: int | None = None
    standing: Standing = Standing()

    @property
    def is_empty(self) -> bool:
        """Whether the turn changes nothing."""
        return not self.actions

    def again(self, now_ms: int) -> Plan:
        """The plan of a turn that has nothing more to say than this one, and nothing to do."""
        return Plan(
            now_ms=now_ms,
            verdicts=self.verdicts,
            heads=self.heads,
            wake_ms=self.wake_ms,
            waits_ms=self.waits_ms,
            runs_ms=self.runs_ms,
        )

    def placed_by_queue(self) -> dict[str, int]:
        """How many jobs of each queue start."""
        counts: dict[str, int] = {}
        for action in self.actions:
            if isinstance(action, Start):
                counts[action.queue] = counts.get(action.queue, 0) + 1
        return counts

    def reasons(self) -> Iterator[tuple[str, Reason]]:
        """Why each job waits that the turn looked at; quicker than its verdicts, which know more."""
        if isinstance(self.verdicts, Verdicts):
            return self.verdicts.reasons()
        return ((job, it.reason) for job, it in self.verdicts.items() if isinstance(it, Waiting))

    def behind(self, queue: str) -> Waiting:
        """The verdict of a queued job the turn did not need to look at."""
        return Waiting(reason=Reason.BEHIND, facts={"queue": queue, "head": self.heads.get(queue, "others")})


def verdicts(snapshot: Snapshot, plan: Plan) -> dict[str, Verdict]:
    """Exactly one verdict for every job of the snapshot."""
    given: dict[str, Verdict] = {run.job.id: StillRunning(cluster=run.cluster) for run in snapshot.running}
    for state in snapshot.queues:
        behind = plan.behind(state.queue.name)
        given |= {job.id: behind for job in state.jobs()}
    return given | dict(plan.verdicts)
