"""Worlds for tests: readable ones built by hand, and random ones for Hypothesis.

By hand: `a_world().with_node(cpu=32).with_queues("a", "b").with_jobs(a_job("a").cpu(1))`, then `world.turn()`,
`world.at(minutes=5)`, `world.snapshot()`. At random: `scenarios(Knobs(...))` draws small scenarios in which
amounts are small whole numbers, so that jobs get in each other's way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from hypothesis import strategies as st

from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.labels import Constraint, Taint
from muster.model.nodes import Node, Request
from muster.model.plan import Plan
from muster.model.policy import Policy, Preemption
from muster.model.queues import MICRO, MINUTE_MS, Queue, User
from muster.model.resources import CPU, GPU, MEMORY, PODS, Resources, parse_amount
from muster.model.snapshot import Snapshot
from muster.sim.scenario.scenario import Scenario, Scripted, ScriptJob
from muster.sim.scenario.timeline import place
from muster.state.run import Run
from muster.state.state import State

SECOND_MS = 1000
MIB = 1 << 20
GIB = 1 << 30


# --- by hand ------------------------------------------------------------------------------------


def ms(*, hours: float = 0, minutes: float = 0, seconds: float = 0) -> int:
    """A duration in milliseconds."""
    return round(((hours * 60 + minutes) * 60 + seconds) * SECOND_MS)


def amounts(**given: object) -> dict[str, int]:
    """Base units of amounts as people write them: amounts(cpu=2, memory="4Gi", gpu=1)."""
    names = {GPU if name == "gpu" else name: value for name, value in given.items() if value}
    return {name: parse_amount(name, value) for name, value in names.items()}


@dataclass(frozen=True, kw_only=True)
class JobBuilder:
    """A job on its way to a world. Every method returns a changed copy; without groups it is one task."""

    queue: str
    name: str = ""
    asks: dict[str, object] = field(default_factory=dict)
    groups: tuple[TaskGroup, ...] = ()
    shape: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    clusters: tuple[tuple[str, int], ...] = ()
    runtime_ms: int | None = None

    def named(self, name: str) -> JobBuilder:
        """Its id; without one it is called after its queue: a-0, a-1 …"""
        return replace(self, name=name)

    def cpu(self, cores: object) -> JobBuilder:
        """Cores for each task."""
        return replace(self, asks={**self.asks, "cpu": cores})

    def memory(self, quantity: object) -> JobBuilder:
        """Memory for each task."""
        return replace(self, asks={**self.asks, "memory": quantity})

    def gpu(self, devices: int, milli: int = 1000) -> JobBuilder:
        """Devices for each task, and how much of each."""
        return replace(self, asks={**self.asks, "gpu": devices}, shape={**self.shape, "gpu_milli": milli})

    def whole_node(self) -> JobBuilder:
        """Each task has a node for itself."""
        return replace(self, shape={**self.shape, "whole_node": True})

    def tasks(self, least: int, initial: int | None = None) -> JobBuilder:
        """A gang of that many tasks; elastic when `initial` is larger."""
        return replace(self, shape={**self.shape, "min": least, "initial": initial or least})

    def within(self, hops: int) -> JobBuilder:
        """No two tasks further apart than this."""
        return replace(self, shape={**self.shape, "max_hops": hops})

    def on(self, **labels: str) -> JobBuilder:
        """Only nodes with these labels."""
        return replace(self, shape={**self.shape, "selector": labels})

    def group(self, name: str, count: int, initial: int | None = None, **asks: object) -> JobBuilder:
        """One more task group."""
        made = _group(name, asks, {"min": count, "initial": initial or count})
        return replace(self, groups=(*self.groups, made))

    def of(self, **changes: Any) -> JobBuilder:
        """Any other field of model.jobs.Job: of(priority=3, priority_class=9, user="u", after=("x",))."""
        return replace(self, fields={**self.fields, **changes})

    def lifetime(self, **duration: float) -> JobBuilder:
        """How long it is safe from preemption for fairness; lifetime() is 0: always preemptible."""
        return self.of(lifetime_ms=ms(**duration))

    def runs(self, **duration: float) -> JobBuilder:
        """How long it really runs, which nobody is told."""
        return replace(self, runtime_ms=ms(**duration))

    def expects(self, **duration: float) -> JobBuilder:
        """How long the scheduler is told that it runs."""
        return self.of(expected_ms=ms(**duration))

    def lasts(self, **duration: float) -> JobBuilder:
        """It runs exactly as long as the scheduler is told."""
        return self.runs(**duration).expects(**duration)

    def built(self, number: int, now_ms: int) -> ScriptJob:
        """The job itself."""
        groups = self.groups or (_group("task", self.asks, self.shape),)
        name = self.name or f"{self.queue}-{number}"
        fields = {"submit_ms": now_ms, **self.fields}
        job = Job(id=name, queue=self.queue, profile=Profile(groups=groups, clusters=self.clusters), **fields)
        return ScriptJob(job=job, runtime_ms=self.runtime_ms)


def _group(name: str, asks: dict[str, object], shape: dict[str, Any]) -> TaskGroup:
    least = shape.get("min", 1)
    initial = shape.get("initial", least)
    request = Request.of(
        amounts(**asks), gpu_milli=shape.get("gpu_milli", 1000), whole_node=shape.get("whole_node", False)
    )
    return TaskGroup(
        name=name,
        min=least,
        initial=initial,
        max=initial,
        request=request,
        constraint=Constraint.parse(selector=shape.get("selector")),
        max_hops=shape.get("max_hops"),
    )


def a_job(queue: str) -> JobBuilder:
    """A job of that queue."""
    return JobBuilder(queue=queue)


class World:
    """A small world and its clock. Queues, clusters and users come into being when first named."""

    def __init__(self, policy: Policy) -> None:
        self.now_ms = 0
        self.state = State(policy)
        self.runtimes: dict[str, int | None] = {}
        self.run = Run(self.state, lambda run: self.runtimes[run.job.id])
        self._numbers: dict[str, Iterable[int]] = {}

    def with_node(self, name: str = "", *, cluster: str = "main", count: int = 1, **given: Any) -> World:
        """Nodes with these amounts: with_node(cpu=32, gpu=8, labels={…}, topology=("s0", "l0"))."""
        if cluster not in self.state.machines.clusters:
            self.happens(ev.ClusterSet(cluster=Cluster(name=cluster)))
        fields = {key: given.pop(key) for key in ("labels", "taints", "topology", "cordoned") if key in given}
        for _ in range(count):
            node_name = name or f"n-{len(self.state.machines.nodes)}"
            node = Node(name=node_name, cluster=cluster, allocatable=Resources.of(amounts(**given)), **fields)
            self.happens(ev.NodeAdded(node=node))
        return self

    def with_queues(self, *names: str, **given: Any) -> World:
        """Queues of these names; with_queues("a", weight=2, quota={"cpu": 4000})."""
        fields = {"weight": round(given.pop("weight", 1) * MICRO), **given}
        for name in names:
            self.happens(ev.QueueSet(queue=Queue(name=name, **fields)))
        return self

    def with_user(self, name: str, **quota: object) -> World:
        """A user with a quota: with_user("u", gpu=8)."""
        return self.happens(ev.UserSet(user=User(name=name, quota=amounts(**quota))))

    def with_jobs(self, *jobs: JobBuilder) -> World:
        """Jobs are submitted now."""
        for builder in jobs:
            if self.state.queue(builder.queue) is None:
                self.with_queues(builder.queue)
            number = 0 if builder.name else next(self._numbers.setdefault(builder.queue, count()))  # type: ignore[call-overload]
            entry = builder.built(number, self.now_ms)
            self.runtimes[entry.job.id] = entry.runtime_ms
            self.happens(ev.JobSubmitted(job=entry.job))
        return self

    def happens(self, *events: ev.Event) -> World:
        """Events of this moment, with all that follows from them."""
        for event in events:
            self.run._happen(event, self.now_ms)
        return self

    def at(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> World:
        """Live on until that time, counted from the beginning; the turn of that moment is still to be taken."""
        until_ms = ms(hours=hours, minutes=minutes, seconds=seconds)
        while (moment_ms := self.run.next_moment_ms()) is not None and moment_ms < until_ms:
            self.run.step(moment_ms)
        self.now_ms = until_ms
        return self

    def snapshot(self) -> Snapshot:
        """What a turn at this moment would know."""
        return self.state.freeze(self.now_ms)

    def turn(self) -> Plan:
        """Take a turn at this moment and carry out its plan."""
        return self.run.step(self.now_ms).plan

    def started(self) -> set[str]:
        """Ids of the jobs that run."""
        return set(self.state.running)


def a_world(**policy: Any) -> World:
    """An empty world; a_world(over_share=None) sets fields of the policy."""
    return World(Policy(**policy))


# --- at random ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """What a random world may have in it."""

    clusters: int = 2
    nodes: int = 4
    queues: int = 3
    entries: int = 8
    gpus: bool = True
    memory: bool = True
    constraints: bool = True  # selectors, taints, topology, whole nodes
    gangs: bool = True
    elastic: bool = True
    lifetimes: bool = True
    exact: bool = False  # every run time is stated, and true
    unknown_ends: bool = True
    endless: bool = True  # some jobs run until the end of the simulation
    classes: bool = True
    quotas: bool = True
    budgets: bool = True
    after: bool = True
    late: bool = True  # jobs arrive at different times
    script: bool = True  # things happen: nodes come and go, cancels, foreign pods, changes
    cordons: bool = True  # nodes may be cordoned from the beginning
    preemption: tuple[Preemption, ...] = (Preemption.ON, Preemption.ON, Preemption.OFF, Preemption.DRY_RUN)
    reservations: tuple[int, ...] = (1, 1, 0, 2, 3)
    over_share: bool = True
    ageing: bool = True
    until_ms: int | None = 120 * SECOND_MS
    turns_ms: tuple[int, ...] = (1000, 5000, 10_000)


EVERYTHING = Knobs()
EXACT = Knobs(
    exact=True,
    endless=False,
    script=False,
    cordons=False,
    preemption=(Preemption.OFF,),
    reservations=(1, 1, 2, 3),
    until_ms=None,
)
CALM = replace(EXACT, late=False, preemption=(Preemption.ON, Preemption.OFF))  # all is known from the beginning
ONE_RESOURCE = replace(EVERYTHING, gpus=False, memory=False, quotas=False)

_MOMENTS = (0, 1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60)
_RUNTIMES = (1, 2, 3, 5, 8, 10, 12, 20, 30, 60)

Draw = Callable[[st.SearchStrategy[Any]], Any]


def _seconds(*choices: int) -> st.SearchStrategy[int]:
    return st.sampled_from([choice * SECOND_MS for choice in choices])


@st.composite
def scenarios(draw: Draw, knobs: Knobs = EVERYTHING) -> Scenario:
    """A small world with a script."""
    clusters = tuple(
        Cluster(name=name, preference=draw(st.sampled_from([50, 50, 80])))
        for name in ("east", "west")[: draw(st.integers(1, knobs.clusters))]
    )
    nodes = draw(_nodes(knobs, clusters))
    queues = draw(_queues(knobs))
    users = draw(_users(knobs))
    jobs = draw(_jobs(knobs, clusters, queues))
    events = draw(_scripts(knobs, clusters, nodes, queues, jobs)) if knobs.script else []
    return Scenario(
        policy=draw(policies(knobs)),
        clusters=clusters,
        nodes=nodes,
        queues=queues,
        users=users,
        jobs=jobs,
        events=tuple(sorted(events, key=place)),
        until_ms=knobs.until_ms,
    )


@st.composite
def policies(draw: Draw, knobs: Knobs = EVERYTHING) -> Policy:
    """Production's rules with short times, so that much happens in two minutes."""
    over_share = st.sampled_from([12 * MICRO // 10, None, MICRO]) if knobs.over_share else st.none()
    return Policy(
        turn_ms=draw(st.sampled_from(knobs.turns_ms)),
        half_time_ms=draw(_seconds(10, 60, 1200)),
        over_share=draw(over_share),
        reservations=draw(st.sampled_from(knobs.reservations)),
        aging_after_ms=draw(_seconds(24 * 3600, 10, 30)) if knobs.ageing else 24 * 60 * MINUTE_MS,
        preemption=draw(st.sampled_from(knobs.preemption)),
        protected_ms=draw(_seconds(60, 5, 0)),
        unknown_end_ms=draw(_seconds(600, 60, 10)),
        reestimate_ms=draw(_seconds(10, 3)),
    )


@st.composite
def _nodes(draw: Draw, knobs: Knobs, clusters: tuple[Cluster, ...]) -> tuple[Node, ...]:
    return tuple(
        draw(_node(knobs, cluster.name, f"{cluster.name[0]}-{number}"))
        for cluster in clusters
        for number in range(draw(st.integers(1, knobs.nodes)))
    )


@st.composite
def _node(draw: Draw, knobs: Knobs, cluster: str, name: str) -> Node:
    given = {CPU: draw(st.integers(1, 8)) * 1000}
    if knobs.memory:
        given[MEMORY] = draw(st.sampled_from([8, 4, 2])) * GIB
    if knobs.gpus and draw(st.integers(0, 2)) == 2:
        given[GPU] = draw(st.integers(1, 4)) * 1000
    if draw(st.integers(0, 9)) == 9:
        given[PODS] = draw(st.integers(1, 4))
    marks: dict[str, Any] = {}
    if knobs.constraints:
        marks["labels"] = draw(st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]))
        marks["taints"] = draw(st.sampled_from([(), (), (), (Taint.parse("own=yes:NoSchedule"),)]))
        marks["topology"] = draw(st.sampled_from([(), ("s0", "l0"), ("s0", "l1"), ("s1", "l2")]))
    cordoned = knobs.cordons and draw(st.integers(0, 9)) == 9
    return Node(name=name, cluster=cluster, allocatable=Resources.of(given), cordoned=cordoned, **marks)


@st.composite
def _queues(draw: Draw, knobs: Knobs) -> tuple[Queue, ...]:
    return tuple(
        Queue(
            name=name,
            weight=draw(st.sampled_from([1, 1, 2, 3])) * MICRO,
            quota=draw(_quota(knobs)),
            excess_budget=draw(st.sampled_from([None, None, 0, 1, 10])) if knobs.budgets else None,
        )
        for name in "abcd"[: draw(st.integers(1, knobs.queues))]
    )


def _quota(knobs: Knobs) -> st.SearchStrategy[dict[str, int]]:
    if not knobs.quotas:
        return st.just({})
    return st.sampled_from([{}, {}, {}, {CPU: 4000}, {CPU: 8000}, {GPU: 1000}, {CPU: 0}])


@st.composite
def _users(draw: Draw, knobs: Knobs) -> tuple[User, ...]:
    quota = draw(_quota(knobs))
    return (User(name="u", quota=quota),) if quota else ()


@st.composite
def _jobs(draw: Draw, knobs: Knobs, clusters: tuple[Cluster, ...], queues: tuple[Queue, ...]) -> tuple[ScriptJob, ...]:
    made: list[ScriptJob] = []
    for number in range(draw(st.integers(1, knobs.entries))):
        copies = draw(st.sampled_from([1, 1, 1, 2, 4]))
        entry = draw(_entry(knobs, clusters, queues, [job.job.id for job in made]))
        for index in range(copies):
            name = f"j{number}" if copies == 1 else f"j{number}-{index}"
            made.append(replace(entry, job=replace(entry.job, id=name)))
    return tuple(sorted(made, key=lambda entry: (entry.job.submit_ms, entry.job.key)))


@st.composite
def _entry(
    draw: Draw, knobs: Knobs, clusters: tuple[Cluster, ...], queues: tuple[Queue, ...], earlier: list[str]
) -> ScriptJob:
    runtime_ms = draw(_seconds(*_RUNTIMES))
    if knobs.endless and draw(st.integers(0, 3)) == 3:
        runtime_ms = None
    lifetime_ms = draw(st.none() | _seconds(0, 1, 5, 10, 30)) if knobs.lifetimes else None
    if knobs.exact:
        expected_ms = runtime_ms
    else:
        wrong = st.none() | _seconds(*_RUNTIMES) if knobs.unknown_ends else _seconds(*_RUNTIMES)
        expected_ms = draw(st.just(runtime_ms) | wrong)
    fields: dict[str, Any] = {}
    if knobs.classes:
        fields["priority_class"] = draw(st.sampled_from([0, 0, 0, 5]))
        fields["priority"] = draw(st.sampled_from([0, 0, 1, 2]))
    if knobs.after and earlier and draw(st.integers(0, 7)) == 7:
        fields["after"] = (draw(st.sampled_from(earlier)),)
    if knobs.quotas:
        fields["user"] = draw(st.sampled_from(["", "u"]))
    candidates: tuple[tuple[str, int], ...] = ()
    if knobs.constraints and draw(st.integers(0, 4)) == 4:
        candidates = ((draw(st.sampled_from(clusters)).name, 50),)
    job = Job(
        id="",
        queue=draw(st.sampled_from(queues)).name,
        profile=Profile(groups=draw(_groups(knobs)), clusters=candidates),
        submit_ms=draw(_seconds(*_MOMENTS)) if knobs.late else 0,
        lifetime_ms=lifetime_ms,
        expected_ms=expected_ms,
        retries=draw(st.integers(0, 1)),
        **fields,
    )
    return ScriptJob(job=job, runtime_ms=runtime_ms)


@st.composite
def _groups(draw: Draw, knobs: Knobs) -> tuple[TaskGroup, ...]:
    number = draw(st.sampled_from([1, 1, 1, 2])) if knobs.gangs else 1
    return tuple(draw(_task_group(knobs, f"g{index}", index == 0)) for index in range(number))


@st.composite
def _task_group(draw: Draw, knobs: Knobs, name: str, is_first: bool) -> TaskGroup:
    least = draw(st.sampled_from([1, 1, 2, 3, 4])) if knobs.gangs else 1
    initial = least
    if knobs.elastic and draw(st.integers(0, 3)) == 3:
        initial = least + draw(st.integers(1, 4))
        least = 0 if not is_first and draw(st.booleans()) else least
    given = {CPU: draw(st.integers(1, 8)) * 1000}
    if knobs.memory and draw(st.booleans()):
        given[MEMORY] = draw(st.sampled_from([MIB, 3 * MIB, GIB, 2 * GIB]))
    milli = 1000
    if knobs.gpus and draw(st.integers(0, 3)) == 3:
        given[GPU] = draw(st.integers(1, 2)) * 1000
        milli = draw(st.sampled_from([1000, 500, 300]))
    whole, hops, selector, tolerations = False, None, None, None
    if knobs.constraints:
        whole = draw(st.integers(0, 9)) == 9
        hops = draw(st.sampled_from([None, None, None, None, 0, 2, 4]))
        selector = draw(st.sampled_from([None, None, None, {"zone": "a"}]))
        tolerations = draw(st.sampled_from([None, [{"operator": "Exists"}]]))
    return TaskGroup(
        name=name,
        min=least,
        initial=initial,
        max=initial,
        request=Request.of(given, gpu_milli=milli, whole_node=whole),
        constraint=Constraint.parse(selector=selector, tolerations=tolerations),
        max_hops=hops,
        prefers_close=draw(st.integers(0, 5)) == 5 if knobs.constraints else False,
    )


@st.composite
def _scripts(
    draw: Draw,
    knobs: Knobs,
    clusters: tuple[Cluster, ...],
    nodes: tuple[Node, ...],
    queues: tuple[Queue, ...],
    jobs: tuple[ScriptJob, ...],
) -> list[Scripted]:
    script: list[Scripted] = []
    for number in range(draw(st.integers(0, 5))):
        at_ms = draw(_seconds(*_MOMENTS))
        node, job = draw(st.sampled_from(nodes)), draw(st.sampled_from(jobs)).job
        kind = draw(st.sampled_from(_KINDS))
        script += [
            Scripted(at_ms=moment_ms, event=event)
            for moment_ms, event in draw(_happening(kind, knobs, number, at_ms, node, job, queues, clusters))
        ]
    return script


_KINDS = ("cancel", "remove", "add", "cordon", "foreign", "queue", "job", "fail", "label", "silent", "cordonQueue")


@st.composite
def _happening(
    draw: Draw,
    kind: str,
    knobs: Knobs,
    number: int,
    at_ms: int,
    node: Node,
    job: Job,
    queues: tuple[Queue, ...],
    clusters: tuple[Cluster, ...],
) -> list[tuple[int, ev.Event]]:
    later_ms = at_ms + draw(_seconds(1, 5, 20))
    match kind:
        case "cancel":
            return [(at_ms, ev.JobCancelled(job=job.id))]
        case "remove":
            return [(at_ms, ev.NodeRemoved(node=node.name))]
        case "add":
            cluster = draw(st.sampled_from(clusters)).name
            return [(at_ms, ev.NodeAdded(node=draw(_node(knobs, cluster, f"x-{number}"))))]
        case "cordon":
            back = ev.NodeCordoned(node=node.name, cordoned=False)
            return [(at_ms, ev.NodeCordoned(node=node.name)), (later_ms, back)]
        case "foreign":
            given = {PODS: 1, CPU: draw(st.integers(1, 4)) * 1000}
            if node.has_gpus:
                given[GPU] = draw(st.integers(0, 2)) * 1000
            name = f"foreign-{number}"
            placed = ev.ForeignPlaced(id=name, node=node.name, amounts=Resources.of(given))
            return [(at_ms, placed), (later_ms, ev.ForeignGone(id=name, node=node.name))]
        case "queue":
            choices = [{"weight": 3 * MICRO}, {"quota": {CPU: 2000}}, {"quota": {}}, {"excess_budget": 0}]
            changes = draw(st.sampled_from(choices))
            return [(at_ms, ev.QueueChanged(queue=draw(st.sampled_from(queues)).name, changes=changes))]
        case "cordonQueue":
            name = draw(st.sampled_from(queues)).name
            closing = ev.QueueChanged(queue=name, changes={"cordoned": True})
            return [(at_ms, closing), (later_ms, ev.QueueChanged(queue=name, changes={"cordoned": False}))]
        case "job":
            changes = draw(st.sampled_from([{"priority": 5}, {"priority_class": 5}, {"priority_class": 0}]))
            return [(at_ms, ev.JobChanged(job=job.id, changes=changes))]
        case "fail":
            return [(at_ms, ev.TaskFailed(job=job.id, group="g0", index=0))]
        case "label":
            return [(at_ms, ev.NodeLabelled(node=node.name, labels={"zone": draw(st.sampled_from("ab"))}))]
        case _:
            name = draw(st.sampled_from(clusters)).name
            silent = ev.ClusterSilent(cluster=name, silent=True)
            return [(at_ms, silent), (later_ms, ev.ClusterSilent(cluster=name, silent=False))]
