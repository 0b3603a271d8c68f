"""The bodies of requests and answers, as OpenAPI shows them. Times are seconds since the epoch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from muster.documents.storable import STORABLE, can_be_stored

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
LabelName = Annotated[str, Field(min_length=1, max_length=317, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$")]
JobState = Literal["queued", "pending", "running", "succeeded", "failed", "cancelled"]
LAST = 2**63 - 1  # no store counts further
Amount = str | int | float
MOST_SECONDS = 100 * 366 * 86_400


class Shape(BaseModel):
    """Names as in job files: `jobSet`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Body(Shape):
    """Something people send: what is not known is refused, and nothing is taken for something else."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _must_be_storable(cls, value: Any) -> Any:
        if not can_be_stored(value):
            raise ValueError(f"only {STORABLE} can be kept")
        return value


class Submitted(Shape):
    """A job that was taken in. `name` is what it was called, `id` what it is called here."""

    id: str
    name: str


class SubmitAnswer(Shape):
    """Every job of a submission, in its order; all of them are durable."""

    jobs: list[Submitted]


class Lease(Shape):
    """An attempt at an agent."""

    attempt: int
    cluster: str
    state: str
    reason: str = ""
    nodes: list[str] = []
    result: dict[str, Any] = {}


class JobView(Shape):
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


class JobDetail(JobView):
    """A job with the file it was submitted as, and its attempts that are not over.

    Its level and freezing window (in seconds) as they are now, while it is not over.
    """

    spec: dict[str, Any]
    leases: list[Lease] = []
    level: str | None = None
    freezing_window: float | None = None


class JobPage(Shape):
    """Some jobs; `next` is where to go on, if there are more."""

    jobs: list[JobView]
    next: int | None = None


class Why(Shape):
    """Why a job waits: a paragraph, and the reason with its facts. `text` alone if it does not wait.

    It is what the last turn that considered the job decided, at `asOf`; `turn` is the last one that was written down.
    """

    job: str
    text: str
    reason: str | None = None
    facts: dict[str, Any] = {}
    estimate: float | None = None
    turn: int | None = None
    as_of: float | None = None


class JobPatch(Body):
    """What can be changed of a job, also while it runs. The freezing window is seconds."""

    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    priority_class: str | None = None
    level: str | None = None
    freezing_window: Annotated[float, Field(ge=0, le=MOST_SECONDS)] | None = None


class QueueBody(Body):
    """A queue's settings. The excess budget is usage × minutes (null: no limit); the defaults are seconds, for jobs
    that are submitted from now on and say nothing of their own. Owners are the names of tokens: they operate the jobs
    of the queue. Labels are for people and their tools."""

    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    quota: dict[str, Amount] = {}
    cordoned: bool = False
    excess_budget: Annotated[float, Field(ge=0, le=1e12)] | None = None
    default_time_limit: Annotated[float, Field(ge=0.001, le=MOST_SECONDS)] | None = None
    default_expected_runtime: Annotated[float, Field(ge=0, le=MOST_SECONDS)] | None = None
    owners: Annotated[list[Name], Field(max_length=100)] = []
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=100)] = {}


class QueueView(QueueBody):
    """A queue, what it holds and how many wait in it."""

    name: str
    jobs: dict[str, int] = {}
    holds: dict[str, str] = {}
    share: float = 0.0
    entitled: float = 0.0


class ClusterView(Shape):
    """A cluster. `silent`: nothing was heard of its agent for a while.

    `honours`: keys of job files that not every cluster can do, and this one can.
    """

    name: str
    preference: int
    silent: bool
    heard: float | None = None
    nodes: int = 0
    honours: list[str] = []


class DrainBody(Body):
    """How a node is emptied. `grace`: for how many seconds what runs there may go on first."""

    grace: Annotated[float, Field(ge=0, le=30 * 86_400)] = 0.0


class DrainView(Shape):
    """Who empties a node, and since when; from `leaves` on nothing may stay, and `leaving` are jobs that still stop."""

    by: str
    since: float
    leaves: float
    leaving: list[str] = []


class NodeView(Shape):
    """A node and what is on it. A node that is drained is empty once it has no `jobs` and none is `leaving`."""

    name: str
    cluster: str
    cordoned: bool
    allocatable: dict[str, str]
    used: dict[str, str]
    labels: dict[str, str] = {}
    jobs: list[str] = []
    drain: DrainView | None = None


class TurnView(Shape):
    """What a turn decided, and how many waited after it for which reason."""

    number: int
    at: float
    took: float
    decided: dict[str, Any]
    waiting: dict[str, int] = {}


class WaitView(Shape):
    """Jobs of a queue that wait for one reason; `asks`: what each asks for, `job`: one of them that was looked at."""

    queue: str
    asks: str
    reason: str
    text: str
    jobs: int
    job: str = ""
    facts: dict[str, Any] = {}


class TurnDetail(TurnView):
    """A turn with all that it said of those who wait; `reasonsOf` is the turn that said so first, with another count.

    It is missing where nobody waited yet, or where it is forgotten.
    """

    reasons: list[WaitView] = []
    reasons_of: int | None = None


class TokenBody(Body):
    """Who is to get a token, and for what."""

    name: Name
    admin: bool = False
    queues: dict[str, list[Literal["submit", "cancel", "view"]]] = {}
    cluster: Name | Literal[""] = ""


class TokenView(Shape):
    """A token by the first letters of its hash."""

    id: str
    name: str
    admin: bool
    queues: dict[str, list[str]]
    cluster: str


class TokenMade(TokenView):
    """A new token: it is shown this once."""

    token: str


class Settings(Body):
    """What operators set: whether anything is decided at all, and whether turns may evict jobs."""

    paused: bool | None = None
    preemption: Literal["on", "off", "dry-run"] | None = None


class PoolBody(Body):
    """A pool: the nodes with these labels, and what is allowed there. `keep`: so much of what is idle is never lent."""

    node_selector: dict[str, str]
    disable_sharing: bool = False
    disable_borrowing: bool = False
    disable_preemption: bool = False
    borrowing_pools: list[str] = []
    keep: dict[str, Amount] = {}


class PoolView(PoolBody):
    """A pool and how many nodes it has now."""

    name: str
    nodes: int = 0


class ClassBody(Body):
    """How urgent jobs of a priority class are: the higher, the more."""

    value: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class ClassView(ClassBody):
    """A priority class."""

    name: str


class UserBody(Body):
    """What all jobs of a user together may hold."""

    quota: dict[str, Amount] = {}


class UserView(UserBody):
    """A user."""

    name: str


class Held(Shape):
    """What attempts held, from the moment they were given nodes until their agent said that they were over."""

    attempts: int
    core_hours: float
    gib_hours: float
    gpu_hours: float


class UsageLine(Held):
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


class UsageReport(Shape):
    """What queues or users had from `from` until `until`. `from` is later than `since` where less is kept."""

    by: Literal["queue", "user"]
    since: float
    from_: Annotated[float, Field(alias="from")]
    until: float
    lines: list[UsageLine]


class ServerStatus(Shape):
    """How the server is. `most_jobs`: so many it takes in one request."""

    version: str
    turns: int
    last_event: int
    store_down: bool
    paused: bool
    preemption: Literal["on", "off", "dry-run"]
    most_jobs: int


class WhatIf(Body):
    """A question. `jobs` as in job files, tried as if they came now; `events` as in scenario files, `at` from now."""

    jobs: Annotated[list[dict[str, Any]], Field(max_length=1000)] = []
    events: Annotated[list[dict[str, Any]], Field(max_length=1000)] = []


class WhatIfFuture(Shape):
    """What lies ahead of a job: since when it runs, when it starts (again), where it starts last.

    `assumed`: a run time that nobody stated had to be guessed before that. `reason`, `text`: why it waits at first.
    """

    running_since: float | None = None
    starts: list[float] = []
    assumed: bool = False
    cluster: str = ""
    nodes: list[str] = []
    reason: str | None = None
    text: str = ""


class WhatIfJob(Shape):
    """A job without the change (None: it is new) and with it; `earlier`: by how many seconds it starts for good."""

    job: str
    queue: str
    new: bool
    asked: bool
    without: WhatIfFuture | None
    with_it: Annotated[WhatIfFuture, Field(alias="with")]
    earlier: float | None = None


class WhatIfPreemption(Shape):
    """Who would give way, when, for whom (nothing where that may not be seen), by which rule."""

    t: float
    job: str
    by: str
    rule: str


class WhatIfPreempted(Shape):
    """Who would give way without the change, and with it."""

    without: list[WhatIfPreemption]
    with_it: Annotated[list[WhatIfPreemption], Field(alias="with")]


class WhatIfAnswer(Shape):
    """What would happen from `at` on: jobs that the question is about, and those for which something changes.

    `complete`: all starts that lie ahead are known; else those until `until`. `more`: jobs that are not listed, because
    they are too many; `hidden`: because whoever asks may not see them.
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


class RecordView(Shape):
    """A record of turns. `open`: more turns come."""

    name: str
    bytes: int
    changed: float
    open: bool
