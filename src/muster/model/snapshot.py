"""A frozen view of the world at one moment: all that the engine may know.

The order of the tuples means nothing, except that a lane's jobs stand in their queue's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from heapq import merge
from typing import TYPE_CHECKING

from muster.model.after import After
from muster.model.budgets import Budget, EvictionLimit
from muster.model.fleet import Fleet
from muster.model.flow import Account
from muster.model.habit import NO_HABIT, Habit
from muster.model.jobs import Job, Pending, Profile, Running
from muster.model.nodes import Request, Room
from muster.model.order import Place
from muster.model.policy import Policy
from muster.model.queues import Queue, User
from muster.model.resources import NOTHING, Resources

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What is on a node now. `empty`: its room without our tasks, beside the pods that are not ours."""

    empty: Room
    room: Room
    held: Resources = NOTHING

    def take(self, request: Request, devices: tuple[int, ...]) -> NodeState:
        """The node once a task with this request is on it."""
        room = self.room.take(request, devices)
        return NodeState(empty=self.empty, room=room, held=self.held + request.resources)

    def give(self, request: Request, devices: tuple[int, ...]) -> NodeState:
        """The node after such a task left it."""
        room = self.room.give(request, devices, self.empty)
        return NodeState(empty=self.empty, room=room, held=self.held - request.resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Queued jobs of one queue with the same profile, class and priority; oldest first."""

    profile: Profile
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue now. Accounts hold what has started; `fixed` only jobs without a lifetime, at their min.

    `demand` is what its queued, pending and running jobs ask for at their max, `charged` what its budget has paid.
    `raced` is what its raced jobs hold of its quota, and of nothing else: races count no usage. `habit` is known where
    the policy asks for it. `stands_since_ms`: since when turns have found jobs of it in line that may start; None if
    the last one found none. `last_start_ms`: when a job of it was last started; None if none ever was.
    """

    queue: Queue
    account: Account = field(default_factory=Account)
    fixed: Account = field(default_factory=Account)
    started: Resources = NOTHING
    charged: int = 0
    demand: Resources = NOTHING
    active_ms: int = 0
    lanes: Sequence[Lane] = ()
    raced: Resources = NOTHING
    habit: Habit = NO_HABIT
    stands_since_ms: int | None = None
    last_start_ms: int | None = None

    def jobs(self) -> Iterator[Job]:
        """Its queued jobs in order."""
        return merge(*(lane.jobs for lane in self.lanes), key=lambda job: job.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState:
    """A user with a quota, what their started jobs hold, and what their raced jobs do."""

    user: User
    started: Resources = NOTHING
    raced: Resources = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A queued job that someone holds back, or that `waits_for` the ends of these."""

    job: Job
    waits_for: tuple[After, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one turn decides from. `evicted`: queued jobs that were evicted at this very moment.

    `borrowers`: running jobs that are on nodes of another pool than their own.
    `columns` are queued jobs and nodes as state keeps them for the engine (engine.columns.views); they say the same
    as `lanes` and `nodes`. `part_of`: the fleet whose part this one is, where a pool's turn decides by itself.
    """

    now_ms: int
    policy: Policy
    fleet: Fleet
    nodes: Mapping[str, NodeState]
    queues: tuple[QueueState, ...] = ()
    users: tuple[UserState, ...] = ()
    running: Sequence[Running] = ()
    pending: tuple[Pending, ...] = ()
    held: tuple[Held, ...] = ()
    attempts: Mapping[str, int] = field(default_factory=dict)
    evicted: frozenset[str] = frozenset()
    borrowers: frozenset[str] = frozenset()
    budgets: tuple[Budget, ...] = ()
    eviction_limits: tuple[EvictionLimit, ...] = ()
    columns: object = field(default=None, repr=False, compare=False)
    part_of: Fleet | None = None

    @property
    def whole(self) -> Fleet:
        """All nodes and pools: the fleet, or the one that it is a part of."""
        return self.fleet if self.part_of is None else self.part_of

    def settle(self) -> None:
        """Look at everything that is made only when looked at, so that the snapshot can be kept."""
        for state in self.queues:
            len(state.lanes)
        dict(self.nodes)
        tuple(self.running)

    def place(self, job: Job) -> Place:
        """Where a queued job stands in its queue; the smallest comes first."""
        return self.policy.place(job, self.now_ms)

    def next_attempt(self, job: Job) -> int:
        """The number a new attempt of the job gets; `attempts` holds those that had one."""
        return self.attempts.get(job.id, 0) + 1
