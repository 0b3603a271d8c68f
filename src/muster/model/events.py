"""What can happen: the only way the state of the world changes.

The first half comes from people and clusters, the second half are the results of a plan's actions. The last ones tell
what a world remembers that begins in the middle: in a server that starts again, and in a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from muster.model.budgets import Budget, EvictionLimit
from muster.model.fleet import Cluster
from muster.model.flow import Account
from muster.model.habit import NO_HABIT, Habit
from muster.model.jobs import Job, Reservation, Task
from muster.model.nodes import Node
from muster.model.plan import Rule
from muster.model.pools import Pool
from muster.model.queues import Queue, User
from muster.model.race import RaceSpec, Sighting
from muster.model.resources import Resources
from muster.model.retries import FAILED
from muster.model.width import Kept, Serving

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSet:
    """A cluster appeared or changed."""

    cluster: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSilent:
    """A cluster's agent stopped answering, or answers again."""

    cluster: str
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    """A node joined its cluster."""

    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRemoved:
    """A node is gone; its tasks are lost."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCordoned:
    """A node takes no new tasks, or takes them again."""

    node: str
    cordoned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrained:
    """An operator empties a node: it takes no new tasks, and those that are there leave it."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabelled:
    """Labels of a node were set; others stay."""

    node: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSet:
    """A pool was made or changed."""

    pool: Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChanged:
    """Settings of a pool were changed, the others stay; it is made if there was none."""

    pool: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDeleted:
    """A pool is no more: its nodes and its waiting jobs go where they belong without it."""

    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignPlaced:
    """A pod that is not ours took room on a node."""

    id: str
    node: str
    amounts: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignGone:
    """Such a pod left."""

    id: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSet:
    """A queue was created or replaced."""

    queue: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChanged:
    """Some fields of a queue changed (names as in model.queues.Queue); an unknown queue is created."""

    queue: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeleted:
    """A queue without jobs is no more, and neither is what was remembered of it."""

    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSet:
    """A user's quota was set."""

    user: User


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSet:
    """A disruption budget was made or changed."""

    budget: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetGone:
    """There is no such budget any more. With its job it goes by itself."""

    job: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionLimitSet:
    """How many of certain tasks may be evicted was learnt, or changed."""

    limit: EvictionLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionLimitGone:
    """There is no such limit any more."""

    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """A job joined its queue; one with a `race` is to be raced over opaque clusters."""

    job: Job
    race: RaceSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged:
    """Fields of a job changed (names as in model.jobs.Job), also while it runs."""

    job: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """A task ended by its own fault."""

    job: str
    group: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAdmitted:
    """Queued to pending."""

    job: str
    attempt: int
    cluster: str
    place: int
    charge: int = 0
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPromised:
    """A pending job's reservation changed."""

    job: str
    reservation: Reservation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReturned:
    """Pending back to queued."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """Every task of the attempt runs. `borrowed`: the pool whose nodes they are on, where that is not the job's own."""

    job: str
    attempt: int
    cluster: str
    tasks: tuple[Task, ...]
    overtook: tuple[str, ...] = ()
    protected_until_ms: int = 0
    borrowed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPreempted:
    """Tasks were evicted; JobResized, JobRequeued or JobFailed follows. `by`: the job they gave way to, or the drained
    node."""

    job: str
    attempt: int
    rule: Rule
    by: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResized:
    """A running job goes on with other tasks in one group."""

    job: str
    group: str
    before: int
    after: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequeued:
    """The attempt is over, the job is queued again. Cause: preempted, lost, failed or moved."""

    job: str
    attempt: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSucceeded:
    """The job is done."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed:
    """The job failed and has no retries left. `ended_by`: what ended its last attempt: failed, lost or preempted."""

    job: str
    attempt: int
    cause: str
    ended_by: str = FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled:
    """Someone cancelled the job; or it can never start, for this `cause`."""

    job: str
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceBegan:
    """The job's quota allows it: its copies go to every candidate."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSeen:
    """Opaque clusters were asked, and this is what they showed."""

    job: str
    attempt: int
    sightings: tuple[Sighting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedTo:
    """A copy of the job was sent to a cluster; what the cluster answers comes as RaceSeen."""

    job: str
    attempt: int
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledAt:
    """A cluster was asked to stop its copy, for the first time; asking again until it does is no news."""

    job: str
    attempt: int
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceWon:
    """No rival can win any more. The winner entered RUNNING at `since_ms`."""

    job: str
    attempt: int
    cluster: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceOver:
    """Every cluster has shown the end of its copy. The race cost so much GPU × ms beside its result."""

    job: str
    attempt: int
    wasted_gpu_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOver:
    """Found written down: what became of a job that others come after; succeeded, failed or cancelled."""

    job: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecalled:
    """Found written down: how often a job that stands in line was tried, failed by itself, was lost, was preempted."""

    job: str
    attempts: int
    failures: int
    losses: int = 0
    preemptions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecalled:
    """Found written down: what a queue used, how long its jobs usually ran, when it was last in use, when a job of it
    was last started, and since when it stands in line.

    All that runs has been started, and who waits stands in line.
    """

    queue: str
    account: Account
    fixed: Account
    active_ms: int
    habit: Habit = NO_HABIT
    last_start_ms: int | None = None
    stands_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRecalled:
    """Found written down: what a running elastic job was given so far."""

    job: str
    serving: Serving


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualRecalled:
    """Found written down: virtual times of elastic jobs that wait again, and by pool where one enters if none runs."""

    kept: tuple[tuple[str, Kept], ...] = ()
    floors: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesStand:
    """A turn found queues in line that were not before, each with service that is put down to it for the time it was
    away; and others there no more."""

    entered: tuple[tuple[str, int], ...] = ()
    closed: tuple[str, ...] = ()


RaceEvent = RaceBegan | RaceSeen | SubmittedTo | CancelledAt | RaceWon | RaceOver

Event = (
    ClusterSet
    | ClusterSilent
    | NodeAdded
    | NodeRemoved
    | NodeCordoned
    | NodeDrained
    | NodeLabelled
    | PoolSet
    | PoolChanged
    | PoolDeleted
    | ForeignPlaced
    | ForeignGone
    | QueueSet
    | QueueChanged
    | QueueDeleted
    | UserSet
    | BudgetSet
    | BudgetGone
    | EvictionLimitSet
    | EvictionLimitGone
    | JobSubmitted
    | JobChanged
    | TaskFailed
    | JobAdmitted
    | JobPromised
    | JobReturned
    | JobStarted
    | JobPreempted
    | JobResized
    | JobRequeued
    | JobSucceeded
    | JobFailed
    | JobCancelled
    | JobOver
    | JobRecalled
    | QueueRecalled
    | ServingRecalled
    | VirtualRecalled
    | QueuesStand
    | RaceEvent
)
