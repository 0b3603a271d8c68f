"""Jobs: what people submit, and where their tasks are.

A job is a gang of task groups. Jobs that ask for the same thing share one Profile; whether and
where a job fits depends on its profile alone (design.md 13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from muster.model.after import After
from muster.model.labels import ANYWHERE, Constraint
from muster.model.names import NameKey, name_key
from muster.model.nodes import Request
from muster.model.resources import GPU, NOTHING, Resources, Weights
from muster.model.retries import NO_RETRIES, Retries
from muster.model.width import FREEZING_MS, NORMAL, Serving

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """Identical tasks of a job; min <= initial <= max.

    `speeds`, if anyone stated how the job scales: how many times as fast as with one task it is at each width from 1 to
    max, in micro-units (model/scaling.py).
    """

    name: str
    min: int
    initial: int
    max: int
    request: Request
    constraint: Constraint = ANYWHERE
    max_hops: int | None = None
    prefers_close: bool = False
    decides: bool = True
    speeds: tuple[int, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Once: profiles of many pools have equal groups, which every pool looks up.
        parts = (self.name, self.min, self.initial, self.max, self.request, self.constraint, self.max_hops)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Callable[[], TaskGroup], tuple[()]]:
        return _made_anew(self)

    @property
    def is_close(self) -> bool:
        """Whether the group cares how far apart its tasks are."""
        return self.prefers_close or self.max_hops is not None


def _made_anew(it: T) -> tuple[Callable[[], T], tuple[()]]:
    """A copy is made from its parts: hashes of text differ between processes."""
    parts = {part.name: getattr(it, part.name) for part in fields(cast(Any, it)) if part.init}
    return partial(type(it), **parts), ()


def _hardest_first(group: TaskGroup) -> tuple[bool, bool, int, int, str]:
    request = group.request
    return (
        not request.whole_node,
        not group.is_close,
        -request.resources.get(GPU),
        -request.resources.get("cpu"),
        group.name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """All that decides where a job fits: its groups, in the order they are placed, and its candidates.

    `clusters` are (name, preference 0–100); empty means any cluster, at the cluster's own preference. `pool` is the one
    it names as its own; empty means the default pool. Unless it `may_preempt`, nobody gives way to it.
    `needs`: what its cluster must honour (Cluster.honours).
    `least` is what all groups ask for together at their min, `most` at their max.
    """

    groups: tuple[TaskGroup, ...]
    clusters: tuple[tuple[str, int], ...] = ()
    pool: str = ""
    may_preempt: bool = True
    needs: tuple[str, ...] = ()
    least: Resources = field(init=False, repr=False, compare=False)
    most: Resources = field(init=False, repr=False, compare=False)
    least_widths: Mapping[str, int] = field(init=False, repr=False, compare=False)
    is_elastic: bool = field(init=False, repr=False, compare=False)
    is_rigid: bool = field(init=False, repr=False, compare=False)  # it starts with its min, and nothing else
    asks_gpu: bool = field(init=False, repr=False, compare=False)  # GPU and CPU jobs have their reservations apart
    tasks_min: int = field(init=False, repr=False, compare=False)  # how many tasks must start together
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(sorted(self.groups, key=_hardest_first)))
        object.__setattr__(self, "clusters", tuple(sorted(self.clusters)))
        least = most = NOTHING
        for group in self.groups:
            least = least + group.request.resources * group.min
            most = most + group.request.resources * group.max
        object.__setattr__(self, "least", least)
        object.__setattr__(self, "most", most)
        object.__setattr__(self, "least_widths", {group.name: group.min for group in self.groups})
        object.__setattr__(self, "is_elastic", any(group.min < group.max for group in self.groups))
        object.__setattr__(self, "is_rigid", all(group.min == group.initial for group in self.groups))
        object.__setattr__(self, "asks_gpu", least.get(GPU) > 0)
        object.__setattr__(self, "tasks_min", sum(group.min for group in self.groups))
        object.__setattr__(self, "_hash", hash((self.groups, self.clusters, self.pool, self.may_preempt, self.needs)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Callable[[], Profile], tuple[()]]:
        return _made_anew(self)

    @property
    def is_gang(self) -> bool:
        """Whether several tasks must start together."""
        return self.tasks_min > 1

    def group(self, name: str) -> TaskGroup:
        """The group of that name."""
        return next(group for group in self.groups if group.name == name)


OrderKey = tuple[int, int, int, int, NameKey]


_MOST_DOUBLINGS = 6  # of a lifetime: 64 times as long


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One submitted job. Times are milliseconds; a higher class or priority is more urgent.

    `number`: its place among those submitted at one moment, where anyone counted them.
    `attained` is what attempts that ended before their time were given, in micro-units of usage × seconds. It is
    counted only where the order inside queues asks for it, and 0 elsewhere.
    `lifetime_ms`: from which age of an attempt on it may be evicted for fairness; None: never. It is what was declared,
    doubled with each such eviction (`doublings`), so that no job is evicted for ever.
    """

    id: str
    queue: str
    profile: Profile
    submit_ms: int = 0
    number: int = 0
    user: str = ""
    job_set: str = ""
    priority_class: int = 0
    priority: int = 0
    lifetime_ms: int | None = None
    expected_ms: int | None = None
    time_limit_ms: int | None = None
    retries: Retries = NO_RETRIES
    after: tuple[After, ...] = ()
    level: int = NORMAL
    freezing_ms: int = FREEZING_MS
    held_by: str = ""  # who holds it back until it is released
    attained: int = 0
    doublings: int = 0
    _key: NameKey | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def key(self) -> NameKey:
        """Its place among all ids, worked out when first asked for: most jobs come in order and nobody asks."""
        if self._key is None:
            object.__setattr__(self, "_key", name_key(self.id))
        return cast(NameKey, self._key)

    @property
    def order(self) -> OrderKey:
        """Place inside the queue: class, priority, submit time, number, id."""
        return (-self.priority_class, -self.priority, self.submit_ms, self.number, self.key)

    @property
    def rank(self) -> tuple[int, int]:
        """(class, priority): only strictly lower ranks give way inside one queue."""
        return (self.priority_class, self.priority)

    @property
    def known_ms(self) -> int | None:
        """How long it will run, as far as anyone told us."""
        return self.expected_ms if self.expected_ms is not None else self.time_limit_ms

    @property
    def declared_lifetime_ms(self) -> int | None:
        """Its lifetime as declared: what its queue's budget is charged for."""
        return None if self.lifetime_ms is None else self.lifetime_ms >> self.doublings

    def doubled(self, times: int = 1) -> Job:
        """The job with its lifetime doubled so many times more, up to a limit; a lifetime of 0 stays 0."""
        times = min(times, _MOST_DOUBLINGS - self.doublings)
        if not self.lifetime_ms or not times:
            return self
        return replace(self, lifetime_ms=self.lifetime_ms << times, doublings=self.doublings + times)


class Task(NamedTuple):
    """One task of an attempt, on its node."""

    group: str
    index: int  # type: ignore[assignment]  # tuple.index: nobody looks for a place in a task
    node: str
    devices: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """`worker-0`: unique inside the job."""
        return f"{self.group}-{self.index}"


def resources_of(profile: Profile, tasks: Sequence[Task]) -> Resources:
    """What these tasks hold together."""
    if len(profile.groups) == 1:
        return profile.groups[0].request.resources * len(tasks)
    total = NOTHING
    for group in profile.groups:
        count = sum(task.group == group.name for task in tasks)
        total = total + group.request.resources * count
    return total


def usage_of(profile: Profile, tasks: Iterable[Task], weights: Weights) -> int:
    """Usage of these tasks in micro-units. Rounded per task, so that parts always add up to the whole."""
    each = {group.name: weights.usage(group.request.resources) for group in profile.groups}
    return sum(each[task.group] for task in tasks)


def least_usage_of(profile: Profile, weights: Weights) -> int:
    """Usage of a job with this profile at its min."""
    return sum(group.min * weights.usage(group.request.resources) for group in profile.groups)


NEVER_MS = 1 << 62  # later than anything
MOST_ATTAINED = 1 << 60  # micro-units × seconds: more is not told apart
_SECOND_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A started attempt. `overtook`: the reserved jobs it passed on the strength of its lifetime alone.

    `end_ms` is when it will end as far as anyone told us, else NEVER_MS; `serving`: what an elastic job was given.
    `preempted_by`: the jobs that this one, or tasks of it, gave way to before; none of them may take from it again.
    """

    job: Job
    attempt: int
    cluster: str
    started_ms: int
    tasks: tuple[Task, ...]
    protected_until_ms: int = 0
    overtook: tuple[str, ...] = ()
    charge: int = 0
    serving: Serving | None = None
    preempted_by: tuple[str, ...] = ()
    end_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known_ms = self.job.known_ms
        end_ms = NEVER_MS if known_ms is None else self.started_ms + known_ms
        object.__setattr__(self, "end_ms", end_ms)  # it is frozen

    @property
    def resources(self) -> Resources:
        """What it holds at its current width."""
        return resources_of(self.job.profile, self.tasks)

    def attained_by(self, now_ms: int, weights: Weights) -> int:
        """What this attempt and those before it were given, in micro-units of usage × seconds."""
        if self.serving is not None:
            served = self.serving.served_by(now_ms)
        else:
            served = usage_of(self.job.profile, self.tasks, weights) * max(now_ms - self.started_ms, 0)
        return min(self.job.attained + served // _SECOND_MS, MOST_ATTAINED)

    @property
    def safe_until_ms(self) -> int:
        """Until when nothing of it may be evicted: it was started by preemption, or is being moved at this moment."""
        resized_ms = None if self.serving is None else self.serving.resized_ms
        return self.protected_until_ms if resized_ms is None else max(self.protected_until_ms, resized_ms + 1)

    def is_expired(self, now_ms: int) -> bool:
        """Older than its lifetime, and not safe."""
        lifetime = self.job.lifetime_ms
        return lifetime is not None and now_ms >= max(self.started_ms + lifetime, self.safe_until_ms)

    def surplus(self) -> tuple[Task, ...]:
        """The tasks above each group's min, the ones to go first in front."""
        if not self.job.profile.is_elastic:
            return ()
        above: list[Task] = []
        for group in self.job.profile.groups:
            tasks = sorted((task for task in self.tasks if task.group == group.name), key=lambda task: task.index)
            above.extend(reversed(tasks[group.min :]))
        return tuple(above)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Where and when a blocked job will start. `is_firm`: every end it counts on was stated by someone."""

    cluster: str
    start_ms: int
    tasks: tuple[Task, ...]
    is_firm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An admitted job that has not started: it holds a reservation, and its place in the line."""

    job: Job
    attempt: int
    admitted_ms: int
    turn_place: int = 0
    charge: int = 0
    reservation: Reservation | None = None

    @property
    def line(self) -> tuple[int, int, NameKey]:
        """First admitted, first served."""
        return (self.admitted_ms, self.turn_place, self.job.key)
