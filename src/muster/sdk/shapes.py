"""What a server answers, with the names of its API in Python's way. Times are seconds since the epoch."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

JobState = Literal["queued", "pending", "running", "succeeded", "failed", "cancelled"]

Stream = Literal["out", "err"]
"""What a task writes to: standard output, or standard error."""

By = Literal["queue", "user"]
Until = Literal["running", "over"]
"""Whose usage is told."""

BY: tuple[By, ...] = ("queue", "user")
STATES: tuple[JobState, ...] = ("queued", "pending", "running", "succeeded", "failed", "cancelled")
Unfinished = Literal["queued", "pending", "running"]
ALIVE: tuple[Unfinished, ...] = ("queued", "pending", "running")
OVER = frozenset({"succeeded", "failed", "cancelled"})


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something a server said. What a newer server says besides is not read."""


class Submitted(Answer, frozen=True, kw_only=True):
    """A job that was taken in: what it was called, and what it is called there."""

    id: str
    name: str


class Job(Answer, frozen=True, kw_only=True):
    """A job. `reason`: why its last attempt ended, or why the job failed or was cancelled.

    `failures`, `losses` and `preemptions`: how many of its attempts failed by themselves, were lost, were preempted.
    """

    id: str
    queue: str
    job_set: str = ""
    user: str = ""
    state: JobState
    attempt: int = 0
    priority: int = 0
    priority_class: int = 0
    submitted: float
    started: float | None = None
    ended: float | None = None
    failures: int = 0
    losses: int = 0
    preemptions: int = 0
    cluster: str = ""
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in OVER


class Lease(Answer, frozen=True, kw_only=True):
    """An attempt at an agent."""

    attempt: int
    cluster: str
    state: str
    reason: str = ""
    nodes: list[str] = []
    result: dict[str, Any] = {}


class JobDetail(Job, frozen=True, kw_only=True):
    """A job with what it was submitted as, and its attempts that are not over.

    Its level and freezing window (in seconds) as they are now, while it is not over.
    """

    spec: dict[str, Any]
    leases: list[Lease] = []
    level: str | None = None
    freezing_window: float | None = None


class JobPage(Answer, frozen=True, kw_only=True):
    """Some jobs, the latest first; `next` is where to go on, if there are more."""

    jobs: list[Job]
    next: int | None = None


class Why(Answer, frozen=True, kw_only=True):
    """Why a job waits: a paragraph, and the reason with its facts. `text` alone if it does not wait.

    It is what the last turn decided, at `as_of`; `turn` is the last one that was written down.
    """

    job: str
    text: str
    reason: str | None = None
    facts: dict[str, Any] = {}
    estimate: float | None = None
    turn: int | None = None
    as_of: float | None = None


class Log(Answer, frozen=True, kw_only=True):
    """A piece of what a task wrote; more is to be had from `next` on, until it is `over`. `attempt` 0: not begun."""

    job: str
    attempt: int
    offset: int
    next: int
    over: bool
    text: str


class Queue(Answer, frozen=True, kw_only=True):
    """A queue: its settings, how many jobs it has in each state, and what it holds."""

    name: str
    weight: float = 1.0
    quota: dict[str, str | int | float] = {}
    cordoned: bool = False
    excess_budget: float | None = None
    default_time_limit: float | None = None
    default_expected_runtime: float | None = None
    owners: list[str] = []
    labels: dict[str, str] = {}
    jobs: dict[str, int] = {}
    holds: dict[str, str] = {}
    share: float = 0.0
    entitled: float = 0.0


class Cluster(Answer, frozen=True, kw_only=True):
    """A cluster. `silent`: nothing was heard of its agent for a while.

    `honours`: keys of job files that not every cluster can do, and this one can.
    """

    name: str
    preference: int
    silent: bool
    heard: float | None = None
    nodes: int = 0
    honours: list[str] = []


class Drain(Answer, frozen=True, kw_only=True):
    """Who empties a node, and since when; from `leaves` on nothing may stay, and `leaving` are jobs that still stop."""

    by: str
    since: float
    leaves: float
    leaving: list[str] = []


class Node(Answer, frozen=True, kw_only=True):
    """A node and what is on it."""

    name: str
    cluster: str
    cordoned: bool
    allocatable: dict[str, str]
    used: dict[str, str]
    labels: dict[str, str] = {}
    jobs: list[str] = []
    drain: Drain | None = None

    @property
    def is_drained(self) -> bool:
        """Whether it was drained and nothing is left on it."""
        return self.drain is not None and not self.jobs and not self.drain.leaving


class Pool(Answer, frozen=True, kw_only=True):
    """A pool: the nodes with these labels, what is allowed there, and how many nodes it has now."""

    name: str
    node_selector: dict[str, str]
    disable_sharing: bool = False
    disable_borrowing: bool = False
    disable_preemption: bool = False
    borrowing_pools: list[str] = []
    keep: dict[str, str | int | float] = {}
    nodes: int = 0


class User(Answer, frozen=True, kw_only=True):
    """A user, and what all jobs of theirs together may hold."""

    name: str
    quota: dict[str, str | int | float] = {}


class Budget(Answer, frozen=True, kw_only=True):
    """A disruption budget: at least so many tasks of a group are to stay while the job runs."""

    job: str
    queue: str = ""
    group: str
    min_available: int


class Policy(Answer, frozen=True, kw_only=True):
    """The numbers of the rules, as turns go by them; ageing in seconds. `set`: those that operators have set."""

    aging_after: float
    over_share: float | str
    cores_per_gpu: float
    calendar: list[dict[str, Any]] = []
    set: list[str] = []


class Turn(Answer, frozen=True, kw_only=True):
    """What a turn decided, how many seconds that took, and how many waited after it for which reason."""

    number: int
    at: float
    took: float
    decided: dict[str, Any]
    waiting: dict[str, int] = {}


class Wait(Answer, frozen=True, kw_only=True):
    """Jobs of a queue that wait for one reason; `asks`: what each asks for, `job`: one of them that was looked at."""

    queue: str
    asks: str
    reason: str
    text: str
    jobs: int
    job: str = ""
    facts: dict[str, Any] = {}


class TurnDetail(Turn, frozen=True, kw_only=True):
    """A turn with all that it said of those who wait, as turn `reasons_of` wrote it down; None: nothing is known."""

    reasons: list[Wait] = []
    reasons_of: int | None = None


class Token(Answer, frozen=True, kw_only=True):
    """Who may come in; the token itself is known to nobody but them."""

    id: str
    name: str
    admin: bool
    queues: dict[str, list[str]] = {}
    cluster: str = ""


class NewToken(Token, frozen=True, kw_only=True):
    """A token that was just made: nobody will be shown it again."""

    token: str


class Held(Answer, frozen=True, kw_only=True):
    """What attempts held, from the moment they were given nodes until their agent said that they were over."""

    attempts: int
    core_hours: float
    gib_hours: float
    gpu_hours: float


class UsageLine(Held, frozen=True, kw_only=True):
    """What a queue or a user had: what of it was `good`, and what was thrown away, by why.

    Good are attempts that succeeded or still run. Attempts that were preempted, lost or moved, or that failed, threw
    away what they held, and so did those of cancelled jobs.
    """

    name: str
    good: Held
    preempted: Held
    lost: Held
    failed: Held
    moved: Held
    cancelled: Held


class UsageReport(Answer, frozen=True, kw_only=True):
    """What queues or users had from `from_` until `until`. `from_` is later than `since` where less is kept."""

    by: str
    since: float
    from_: float = msgspec.field(name="from")
    until: float
    lines: list[UsageLine]


class Status(Answer, frozen=True, kw_only=True):
    """How the server is."""

    version: str
    turns: int
    last_event: int = 0
    store_down: bool
    paused: bool = False
    preemption: str
    most_jobs: int = 5_000  # in one request


class Event(Answer, frozen=True, kw_only=True):
    """Something that happened. `id` is its number, by which to ask for those after it; `facts` is all that is known."""

    id: int
    t: float
    event: str
    job: str = ""
    queue: str = ""
    facts: dict[str, Any] = {}


class Record(Answer, frozen=True, kw_only=True):
    """A record of turns. `open`: more turns come."""

    name: str
    bytes: int
    changed: float
    open: bool


# --- what if -------------------------------------------------------------------------------------


class WhatIfFuture(Answer, frozen=True, kw_only=True):
    """What lies ahead of a job: since when it runs, when it starts (again), where it starts last, why it waits."""

    running_since: float | None = None
    starts: list[float] = []
    assumed: bool = False
    cluster: str = ""
    nodes: list[str] = []
    reason: str | None = None
    text: str = ""


class WhatIfJob(Answer, frozen=True, kw_only=True):
    """A job without a change (None: it is new) and with it; `earlier`: by how many seconds it starts for good."""

    job: str
    queue: str
    new: bool
    asked: bool
    without: WhatIfFuture | None
    with_it: WhatIfFuture = msgspec.field(name="with")
    earlier: float | None = None


class WhatIfPreemption(Answer, frozen=True, kw_only=True):
    """Who would give way, when, for whom, by which rule."""

    t: float
    job: str
    by: str
    rule: str


class WhatIfPreempted(Answer, frozen=True, kw_only=True):
    """Who would give way without a change, and with it."""

    without: list[WhatIfPreemption]
    with_it: list[WhatIfPreemption] = msgspec.field(name="with")


class WhatIf(Answer, frozen=True, kw_only=True):
    """What would happen from `at` on: the jobs asked about, and those for which something changes.

    Not `complete`: only starts until `until` are known. `more` and `hidden` count jobs that are not listed.
    """

    at: float
    until: float
    complete: bool
    paused: bool = False
    jobs: list[WhatIfJob]
    more: int = 0
    earlier: int = 0
    later: int = 0
    same: int = 0
    hidden: int = 0
    preempted: WhatIfPreempted

    def job(self, name: str) -> WhatIfJob | None:
        """One job of the answer."""
        return next((it for it in self.jobs if it.job == name), None)
