"""Worlds for tests: readable ones built by hand, and random ones for Hypothesis.

By hand: `a_world().with_node(cpu=32).with_queues("a", "b").with_jobs(a_job("a").cpu(1))`, then `world.turn()`,
`world.at(minutes=5)`, `world.snapshot()`. At random: `scenarios(Knobs(...))` draws small scenarios in which
amounts are small whole numbers, so that jobs get in each other's way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import count
from random import Random
from typing import Any, Literal

from hypothesis import strategies as st

from muster.model import events as ev
from muster.model.after import After, When
from muster.model.budgets import Budget
from muster.model.calendar import Window
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.labels import Constraint, Taint
from muster.model.names import name_mark
from muster.model.nodes import Node, Request
from muster.model.order import ARRIVAL, NAMED, Order
from muster.model.placement import Placement, PlacementRule
from muster.model.plan import Plan
from muster.model.policy import FairBy, Policy, Preemption, WidthRule
from muster.model.pools import DEFAULT_POOL, Pool
from muster.model.queues import MINUTE_MS, Queue, User
from muster.model.resources import CPU, GPU, MEMORY, MICRO, PODS, Resources, parse_amount
from muster.model.retries import Retries
from muster.model.scaling import speeds_of
from muster.model.snapshot import Snapshot
from muster.sim.scenario.scenario import Scenario, Scripted, ScriptJob
from muster.sim.scenario.timeline import place
from muster.sim.simulate import Simulation
from muster.state.run import Run
from muster.state.state import State
from muster.state.work import Work

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
    others: dict[str, Any] = field(default_factory=dict)
    clusters: tuple[tuple[str, int], ...] = ()
    home: str = ""
    runtime_ms: int | None = None

    def named(self, name: str) -> JobBuilder:
        """Its id; without one it is called after its queue: a-0, a-1 …"""
        return replace(self, name=name)

    def of_pool(self, name: str) -> JobBuilder:
        """The pool it names as its own."""
        return replace(self, home=name)

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

    def tasks(self, least: int, initial: int | None = None, most: int | None = None) -> JobBuilder:
        """A gang of that many tasks; elastic when `initial`, or `most`, is larger."""
        shape = {"min": least, "initial": initial or least, "max": most or initial or least}
        return replace(self, shape={**self.shape, **shape})

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
        """Any other field of model.jobs.Job: of(priority=3, priority_class=9, user="u", after=(After("x"),))."""
        return replace(self, others={**self.others, **changes})

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
        others = {"submit_ms": now_ms, **self.others}
        job = Job(
            id=name, queue=self.queue, profile=Profile(groups=groups, clusters=self.clusters, pool=self.home), **others
        )
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
        max=shape.get("max", initial),
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
        marks = {key: given.pop(key) for key in ("labels", "taints", "topology", "cordoned") if key in given}
        for _ in range(count):
            node_name = name or f"n-{len(self.state.machines.nodes)}"
            node = Node(name=node_name, cluster=cluster, allocatable=Resources.of(amounts(**given)), **marks)
            self.happens(ev.NodeAdded(node=node))
        return self

    def with_pools(self, *names: str, **settings: Any) -> World:
        """Pools that select the nodes with a label of their name: with_pools("p", "q", preempts=False)."""
        pools = (Pool(name=name, selector={name: "yes"}, **settings) for name in names)
        return self.happens(*(ev.PoolSet(pool=pool) for pool in pools))

    def with_queues(self, *names: str, **given: Any) -> World:
        """Queues of these names; with_queues("a", weight=2, quota={"cpu": 4000})."""
        settings = {"weight": round(given.pop("weight", 1) * MICRO), **given}
        for name in names:
            self.happens(ev.QueueSet(queue=Queue(name=name, **settings)))
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
            self.run._happen(event, self.now_ms, [])
        return self

    def at(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> World:
        """Live on until that time, counted from the beginning; the turn of that moment is still to be taken."""
        until_ms = ms(hours=hours, minutes=minutes, seconds=seconds)
        while (moment_ms := self.run.next_moment_ms()) is not None and moment_ms < until_ms:
            self.run.step(moment_ms)
        self.now_ms = until_ms
        return self

    def snapshot(self) -> Snapshot:
        """What a turn at this moment would know, to be kept."""
        snapshot = self.state.freeze(self.now_ms)
        snapshot.settle()
        return snapshot

    def turn(self) -> Plan:
        """Take a turn at this moment and carry out its plan."""
        return self.run.step(self.now_ms).plan

    def then(self) -> World:
        """The world after a turn at this moment."""
        self.turn()
        return self

    def started(self) -> set[str]:
        """Ids of the jobs that run."""
        return set(self.state.running)


def a_world(**policy: Any) -> World:
    """An empty world; a_world(over_share=None) sets fields of the policy."""
    return World(Policy(**policy))


# --- at random ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """What a random world may have in it. Each world has only some of what it may: they meet in all mixtures."""

    clusters: int = 2
    nodes: int = 4
    queues: int = 3
    entries: int = 14
    gpus: bool = True
    memory: bool = True
    constraints: bool = True  # selectors, taints, topology, whole nodes, candidate clusters, pod limits
    gangs: bool = True
    elastic: bool = True
    lifetimes: bool = True
    exact: bool = False  # every run time is stated, and true
    stated: bool = False  # every run time is stated, and most jobs end sooner
    endless: bool = True  # some jobs run until the end of the simulation
    classes: bool = True
    quotas: bool = True
    budgets: bool = True
    after: bool = True
    late: bool = True  # jobs arrive at different times
    script: bool = True  # things happen: nodes come and go, cancels, foreign pods, changes
    preemption: tuple[Preemption, ...] = (Preemption.ON, Preemption.ON, Preemption.OFF, Preemption.DRY_RUN)
    reservations: tuple[int, ...] = (1, 1, 1, 0, 2, 3)
    over_share: bool = True
    ageing: bool = True
    habits: bool = True  # queues of short jobs come first
    placement: tuple[PlacementRule, ...] = (PlacementRule.TIGHTEST,)
    pools: Literal["on", "off"] = "off"  # whether there are pools, which come, change and go
    width: Literal["on", "off"] = "off"  # whether elastic jobs grow and shrink, and room is withheld
    needs: Literal["on", "off"] = "off"  # whether some jobs need what not every cluster honours
    benefit: Literal["on", "off"] = "off"  # whether widths go by benefit
    moves: Literal["on", "off"] = "off"  # whether jobs move between clusters
    orders: str = "off"  # inside queues, other than by arrival
    depths: tuple[int, ...] = ()  # how many profiles of a queue a turn looks at, if not as many as usual
    searches: tuple[int, ...] = ()  # for victims, that may end with nothing in a turn, if not as many as usual
    until_ms: int | None = 120 * SECOND_MS
    turns_ms: tuple[int, ...] = (1000, 5000, 10_000)
    priorities: bool = False  # inside queues, where there are no classes

    def swarm(self, chance: Random) -> Knobs:
        """Some of what is allowed, switched off."""
        switches = [item.name for item in fields(self) if item.type == "bool" and item.name not in ("exact", "stated")]
        off = [name for name in switches if chance.random() < _OFTEN_OFF.get(name, 0.35)]
        return replace(self, **dict.fromkeys(off, False))


_OFTEN_OFF = {"quotas": 0.6, "budgets": 0.6, "constraints": 0.6, "after": 0.7, "over_share": 0.6, "ageing": 0.6}

EVERYTHING = Knobs()
EXACT = Knobs(
    exact=True, endless=False, script=False, preemption=(Preemption.OFF,), reservations=(1, 1, 2, 3), until_ms=None
)
CALM = replace(EXACT, late=False, preemption=(Preemption.ON, Preemption.OFF))  # all is known from the beginning
CRAMPED = Knobs(  # full machines, of which everyone who waits wants more than is free
    stated=True,
    entries=30,
    nodes=2,
    elastic=False,
    lifetimes=False,
    classes=False,
    endless=False,
    quotas=False,
    budgets=False,
    over_share=False,
    script=False,
    preemption=(Preemption.ON, Preemption.OFF),
    until_ms=None,
)
ALONE = replace(  # one machine, as the logs of supercomputers have it
    CRAMPED,
    clusters=1,
    nodes=1,
    queues=4,
    entries=40,
    gpus=False,
    constraints=False,
    gangs=False,
    priorities=True,
    script=True,
    reservations=(1,),
    depths=(100, 100, 100, 1, 2),
)
NEEDS = replace(EVERYTHING, needs="on")
WIDTHS = replace(EVERYTHING, width="on")
BENEFITS = replace(WIDTHS, benefit="on")
MOVES = replace(EVERYTHING, moves="on")
POOLS = replace(EVERYTHING, pools="on", nodes=6)
ONE_RESOURCE = replace(EVERYTHING, gpus=False, memory=False, quotas=False)

_MOMENTS = (0, 0, 0, 1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60)
_RUNTIMES = (1, 3, 5, 8, 10, 12, 20, 30, 45, 60)

_SEEDS = st.integers(0, 2**32)


@st.composite
def scenarios(draw: Callable[[st.SearchStrategy[Any]], Any], knobs: Knobs = EVERYTHING) -> Scenario:
    """A small world with a script. Every node, queue, job and event comes from one number each, so that Hypothesis
    searches fast and shrinks by leaving things out."""
    clusters = draw(st.integers(1, knobs.clusters))
    fewest = knobs.entries // 2 if draw(st.booleans()) else 1  # Hypothesis by itself prefers short lists
    return scenario_of(
        knobs,
        draw(_SEEDS),
        clusters=clusters,
        nodes=draw(st.lists(_SEEDS, min_size=clusters, max_size=knobs.nodes)),
        queues=draw(st.lists(_SEEDS, min_size=1, max_size=knobs.queues)),
        jobs=draw(st.lists(_SEEDS, min_size=fewest, max_size=knobs.entries)),
        events=draw(st.lists(_SEEDS, max_size=8)) if knobs.script else [],
    )


def turns_of(scenario: Scenario) -> list[tuple[Snapshot, Plan]]:
    """Every turn of a simulation."""
    turns: list[tuple[Snapshot, Plan]] = []
    simulation = Simulation(scenario, estimates=False)
    simulation.run.watch = lambda snapshot, made: turns.append((snapshot, made))
    for _ in simulation:
        pass
    return turns


def scenario_of(
    knobs: Knobs,
    seed: int,
    *,
    clusters: int,
    nodes: list[int],
    queues: list[int],
    jobs: list[int],
    events: list[int],
) -> Scenario:
    """The world that these numbers stand for."""
    allowed = knobs.swarm(_chance("knobs", seed))
    fleet = [
        Cluster(name=name, preference=_chance(name, seed).choice([50, 50, 80]), honours=_honours(allowed, name, seed))
        for name in ("east", "west")[:clusters]
    ]
    machines = [
        _node(allowed, _chance("node", each), fleet[number % clusters].name, f"n-{number}")
        for number, each in enumerate(nodes)
    ]
    lines = [_queue(allowed, _chance("queue", each), name) for name, each in zip("abcd", queues, strict=False)]
    entries: list[ScriptJob] = []
    for number, each in enumerate(jobs):
        entries += _entry(allowed, _chance("job", each), f"j{number}", fleet, lines, [it.job.id for it in entries])
    script: list[Scripted] = []
    for number, each in enumerate(events if allowed.script else []):
        script += _happening(allowed, _chance("event", each), number, fleet, machines, lines, entries)
    user = User(name="u", quota=_quota(_chance("user", seed)))
    budgets = _budgets(_chance("budgets", seed), entries) if allowed.classes else ()
    return Scenario(
        policy=_policy(allowed, _chance("policy", seed)),
        budgets=budgets,
        clusters=tuple(fleet),
        nodes=tuple(machines),
        pools=tuple(_pools(_chance("pools", seed))) if knobs.pools == "on" else (),
        queues=tuple(lines),
        users=(user,) if allowed.quotas else (),
        jobs=tuple(sorted(entries, key=lambda entry: (entry.job.submit_ms, entry.job.key))),
        events=tuple(sorted(script, key=place)),
        until_ms=knobs.until_ms,
    )


def _chance(kind: str, seed: int) -> Random:
    return Random(f"{kind} {seed}")


def _seconds(chance: Random, *choices: int) -> int:
    return chance.choice(choices) * SECOND_MS


def _policy(knobs: Knobs, chance: Random) -> Policy:
    """Production's rules with short times, so that much happens in two minutes."""
    return Policy(
        turn_ms=chance.choice(knobs.turns_ms),
        half_time_ms=_seconds(chance, 10, 60, 1200),
        over_share=chance.choice([12 * MICRO // 10, MICRO]) if knobs.over_share else None,
        reservations=(reservations := chance.choice(knobs.reservations)),
        reservations_in_all=max(reservations, 16),
        aging_after_ms=_seconds(chance, 10, 30) if knobs.ageing else 24 * 60 * MINUTE_MS,
        preemption=chance.choice(knobs.preemption),
        protected_ms=_seconds(chance, 60, 5),
        unknown_end_ms=_seconds(chance, 600, 60, 10),
        reestimate_ms=_seconds(chance, 10, 3),
        placement=Placement(rule=chance.choice(knobs.placement)),
        **(_width_policy(knobs, chance) if knobs.width == "on" else {"elastic_every_ms": None}),
        **(_order(chance) if knobs.orders == "on" else {}),
        **({"profiles_deep": chance.choice(knobs.depths)} if knobs.depths else {}),
        **({"vain_searches_per_turn": chance.choice(knobs.searches)} if knobs.searches else {}),
        move_points=chance.choice([1, 10, 30]) if knobs.moves == "on" else None,
        preempts_for_shares=chance.random() < 0.8,
        short_first=(short_first := chance.choice([0, 500, 1000]) if knobs.habits else 0),
        fair_by=FairBy.FLOW if short_first else chance.choice([FairBy.SERVICE, FairBy.SERVICE, FairBy.FLOW]),
    )


def _order(chance: Random) -> dict[str, Any]:
    return {
        "order": chance.choice([ARRIVAL, *NAMED.values(), Order(expected=700, waited=1500, patience_ms=9_000)]),
        "order_step_ms": _seconds(chance, 10, 7),
    }


def _width_policy(knobs: Knobs, chance: Random) -> dict[str, Any]:
    window = Window(
        cluster="east",
        days=frozenset(range(7)),
        from_ms=_seconds(chance, 20, 40),
        to_ms=_seconds(chance, 60, 80),
        withhold=Resources.of({CPU: chance.choice([1, 2, 4]) * 1000, GPU: chance.choice([0, 0, 1]) * 1000}),
        ahead_ms=_seconds(chance, 0, 10),
        pool=chance.choice([None, *_POOLS]) if knobs.pools == "on" else None,
    )
    return {
        "elastic_every_ms": _seconds(chance, 5, 5, 1, 7),
        "max_load": chance.choice([MICRO, MICRO, MICRO, 8 * MICRO // 10]),
        "uneven_percent": chance.choice([200, 200, 100]),
        "calendar": (window,) if chance.random() < 0.3 else (),
        **(_benefit_policy(chance) if knobs.benefit == "on" else {}),
    }


def _benefit_policy(chance: Random) -> dict[str, Any]:
    return {"width": WidthRule.BENEFIT, "resize_cost_ms": _seconds(chance, 0, 0, 1, 5)}


def _node(knobs: Knobs, chance: Random, cluster: str, name: str) -> Node:
    given = {CPU: chance.choice([2, 3, 4, 4, 6, 8]) * 1000}
    if knobs.memory:
        given[MEMORY] = chance.choice([8, 4, 2]) * GIB
    if knobs.gpus and chance.random() < 0.5:
        given[GPU] = chance.choice([1, 2, 2, 4]) * 1000
    marks: dict[str, Any] = {}
    if knobs.constraints:
        marks["labels"] = chance.choice([{"zone": "a"}, {"zone": "a"}, {"zone": "b"}, {}])
        marks["taints"] = (Taint.parse("own=yes:NoSchedule"),) if chance.random() < 0.15 else ()
        marks["topology"] = chance.choice([("s0", "l0"), ("s0", "l0"), ("s0", "l1"), ("s1", "l2")])
        if chance.random() < 0.1:
            given[PODS] = chance.randint(1, 4)
    cordoned = knobs.script and chance.random() < 0.07
    if knobs.pools == "on":
        marks["labels"] = marks.get("labels", {}) | _labels_of(chance.choice(["a", "a", "a", "b", "b", "c", "ab", ""]))
    return Node(name=name, cluster=cluster, allocatable=Resources.of(given), cordoned=cordoned, **marks)


_POOLS = ("a", "b", "c")


def _labels_of(pools: str) -> dict[str, str]:
    """Labels by which these pools select their nodes."""
    return {f"in-{pool}": "yes" for pool in pools}


def _pools(chance: Random) -> Iterator[Pool]:
    for name in (*_POOLS, DEFAULT_POOL):
        pool = Pool(
            name=name,
            selector=_labels_of(name) if name else {},
            shares=chance.random() < 0.8,
            borrows=chance.random() < 0.8,
            preempts=chance.random() < 0.7,
            borrows_from=chance.choice([(), (), (), ("b",), ("a", "c"), (DEFAULT_POOL,)]),
            keep=chance.choice([{}, {}, {CPU: 2000}, {CPU: 4000, GPU: 1000}, {MEMORY: 4 * GIB}]),
        )
        if chance.random() < (0.8 if name else 0.3):
            yield pool


def _honours(knobs: Knobs, name: str, seed: int) -> tuple[str, ...]:
    """What not every cluster can do, and this one can."""
    some: list[tuple[str, ...]] = [(), ("objects",), ("objects", "podTemplate")]
    return _chance(f"{name} honours", seed).choice(some) if knobs.needs == "on" else ()


def _of_pools(chance: Random, node: str) -> tuple[ev.Event, ev.Event | None]:
    """What may happen to pools and to nodes in them, and perhaps its undoing."""
    name = chance.choice((*_POOLS, DEFAULT_POOL))
    match chance.choice(("change", "change", "label", "delete")):
        case "change":
            switch = chance.choice(["shares", "borrows", "preempts"])
            others: list[dict[str, Any]] = [{"selector": {}}, {"selector": _labels_of("a")}, {"borrows_from": ("b",)}]
            changes = chance.choice([{switch: True}, {switch: False}, {switch: False}, *(others if name else ())])
            return ev.PoolChanged(pool=name, changes=changes), None
        case "label":
            labels = {f"in-{pool}": chance.choice(["yes", "no"]) for pool in chance.sample(_POOLS, 2)}
            return ev.NodeLabelled(node=node, labels=labels), None
        case _:
            again = {"selector": _labels_of(name)} if name else {"preempts": False}
            return ev.PoolDeleted(pool=name), ev.PoolChanged(pool=name, changes=again)


def _queue(knobs: Knobs, chance: Random, name: str) -> Queue:
    return Queue(
        name=name,
        weight=chance.choice([1, 1, 2, 3]) * MICRO,
        quota=_quota(chance) if knobs.quotas else {},
        excess_budget=chance.choice([None, 0, 1, 4]) if knobs.budgets else None,
    )


def _quota(chance: Random) -> dict[str, int]:
    return chance.choice([{}, {CPU: 4000}, {CPU: 8000}, {GPU: 1000}, {CPU: 6000, GPU: 2000}])


def _entry(
    knobs: Knobs,
    chance: Random,
    name: str,
    clusters: list[Cluster],
    queues: list[Queue],
    earlier: list[str],
) -> list[ScriptJob]:
    runtime_ms: int | None = _seconds(chance, *_RUNTIMES)
    if knobs.endless and chance.random() < 0.35:
        runtime_ms = None
    expected_ms = runtime_ms if knobs.exact else chance.choice([runtime_ms, None, _seconds(chance, *_RUNTIMES)])
    if knobs.stated and runtime_ms is not None:
        expected_ms = chance.choice([runtime_ms, 2 * runtime_ms, 5 * runtime_ms, _seconds(chance, *_RUNTIMES)])
    optional: dict[str, Any] = {}
    if knobs.lifetimes:
        optional["lifetime_ms"] = chance.choice([None, 0, 0, _seconds(chance, 1, 5, 10, 30)])
    if knobs.classes:
        optional["priority_class"] = chance.choice([0, 0, 0, 5, 5, 9, -1])
        optional["priority"] = chance.choice([0, 0, 1, 2])
    if knobs.priorities:
        optional["priority"] = chance.choice([0, 0, 0, 1])
    if knobs.after and earlier and chance.random() < 0.25:
        optional["after"] = (After(chance.choice(earlier), chance.choice(list(When))),)
    if knobs.quotas:
        optional["user"] = chance.choice(["", "u"])
    candidates: tuple[tuple[str, int], ...] = ()
    if knobs.constraints and chance.random() < 0.2:
        candidates = ((chance.choice(clusters).name, 50),)
    if knobs.moves == "on" and chance.random() < 0.7:
        optional["lifetime_ms"] = 0
        candidates = tuple((cluster.name, chance.choice([10, 40, 90])) for cluster in clusters)
    if knobs.width == "on":
        optional["level"] = chance.choice([1000, 1000, 100, 10000])
        optional["freezing_ms"] = _seconds(chance, 0, 5, 12, 30, 300)
    pool = chance.choice(["", *_POOLS, *_POOLS, "nowhere"]) if knobs.pools == "on" else ""
    job = Job(
        id=name,
        queue=chance.choice(queues).name,
        profile=Profile(
            groups=_groups(knobs, chance),
            clusters=candidates,
            pool=pool,
            may_preempt=name_mark(name) % 5 > 0,
            needs=("objects",) if knobs.needs == "on" and name_mark(name) % 3 == 0 else (),
        ),
        submit_ms=_seconds(chance, *_MOMENTS) if knobs.late else 0,
        expected_ms=expected_ms,
        retries=Retries(chance.randint(0, 1), chance.choice([None, None, 0, 1]), chance.choice([None, None, 1])),
        **optional,
    )
    names = [f"{name}-{index}" for index in range(copies)] if (copies := chance.choice([1, 1, 2, 5])) > 1 else [name]
    work = None
    if knobs.width == "on" and job.profile.is_elastic and runtime_ms is not None and chance.random() < 0.5:
        runtime_ms, work = None, Work(3 * runtime_ms)
    made = [replace(job, id=each, number=name_mark(each) % 3 if knobs.late else 0) for each in names]
    return [ScriptJob(job=each, runtime_ms=runtime_ms, work=work) for each in made]


def _budgets(chance: Random, entries: list[ScriptJob]) -> tuple[Budget, ...]:
    """Disruption budgets for some of the jobs."""
    chosen = [entry.job for entry in entries if chance.random() < 0.3]
    return tuple(
        Budget(job=job.id, group=chance.choice(job.profile.groups).name, min_available=chance.randint(0, 4))
        for job in chosen
    )


def _groups(knobs: Knobs, chance: Random) -> tuple[TaskGroup, ...]:
    number = chance.choice([1, 1, 1, 2]) if knobs.gangs else 1
    return tuple(_task_group(knobs, chance, f"g{index}", is_first=index == 0) for index in range(number))


def _task_group(knobs: Knobs, chance: Random, name: str, *, is_first: bool) -> TaskGroup:
    least = chance.choice([1, 1, 1, 2, 2, 3]) if knobs.gangs else 1
    initial = least
    if knobs.elastic and chance.random() < 0.5:
        initial = least + chance.randint(1, 4)
        least = 0 if not is_first and chance.random() < 0.5 else least
    given = {CPU: chance.choice([1, 1, 1, 2, 2, 3, 4]) * 1000}
    if knobs.memory and chance.random() < 0.5:
        given[MEMORY] = chance.choice([MIB, 3 * MIB, GIB, 2 * GIB])
    milli = 1000
    if knobs.gpus and chance.random() < 0.4:
        given[GPU] = chance.choice([1, 1, 2]) * 1000
        milli = chance.choice([1000, 1000, 500, 300])
    marks: dict[str, Any] = {}
    if knobs.constraints:
        selector = chance.choice([None, None, None, {"zone": "a"}])
        tolerations = chance.choice([None, [{"operator": "Exists"}]])
        marks["constraint"] = Constraint.parse(selector=selector, tolerations=tolerations)
        marks["max_hops"] = chance.choice([None, None, None, None, 0, 2, 4])
        marks["prefers_close"] = chance.random() < 0.2
    whole_node = knobs.constraints and chance.random() < 0.12
    request = Request.of(given, gpu_milli=milli, whole_node=whole_node)
    most = initial + chance.choice([0, 1, 2, 6]) if knobs.width == "on" and knobs.elastic else initial
    if knobs.benefit == "on" and chance.random() < 0.7:
        stated = {width: chance.randint(1, 4 * width) for width in range(1, most + 1) if chance.random() < 0.6}
        marks["speeds"] = speeds_of(stated, most) if stated else ()
    return TaskGroup(name=name, min=least, initial=initial, max=most, request=request, **marks)


_KINDS = (
    *("cancel", "remove", "add", "cordon", "drain", "foreign", "queue", "job", "fail", "label", "silent"),
    "cordonQueue",
)


def _happening(
    knobs: Knobs,
    chance: Random,
    number: int,
    clusters: list[Cluster],
    nodes: list[Node],
    queues: list[Queue],
    jobs: list[ScriptJob],
) -> list[Scripted]:
    """Something that happens, and perhaps its undoing a little later."""
    node, job = chance.choice(nodes).name, chance.choice(jobs).job
    queue, cluster = chance.choice(queues).name, chance.choice(clusters).name
    undone: ev.Event | None = None
    done: ev.Event
    match chance.choice((*_KINDS, "pool", "pool", "pool", "pool") if knobs.pools == "on" else _KINDS):
        case "pool":
            done, undone = _of_pools(chance, node)
        case "cancel":
            done = ev.JobCancelled(job=job.id)
        case "remove":
            done = ev.NodeRemoved(node=node)
        case "add":
            done = ev.NodeAdded(node=_node(knobs, chance, cluster, f"x-{number}"))
        case "cordon":
            done, undone = ev.NodeCordoned(node=node), ev.NodeCordoned(node=node, cordoned=False)
        case "drain":
            done, undone = ev.NodeDrained(node=node), ev.NodeCordoned(node=node, cordoned=False)
        case "foreign":
            given = {PODS: 1, CPU: chance.randint(1, 4) * 1000, GPU: chance.randint(0, 2) * 1000}
            done = ev.ForeignPlaced(id=f"foreign-{number}", node=node, amounts=Resources.of(given))
            undone = ev.ForeignGone(id=f"foreign-{number}", node=node)
        case "queue":
            choices = [{"weight": 3 * MICRO}, {"quota": {CPU: 2000}}, {"quota": {}}, {"excess_budget": 0}]
            done = ev.QueueChanged(queue=queue, changes=chance.choice(choices))
        case "cordonQueue":
            done = ev.QueueChanged(queue=queue, changes={"cordoned": True})
            undone = ev.QueueChanged(queue=queue, changes={"cordoned": False})
        case "job":
            changes = [{"priority": 5}, {"priority_class": 5}, *([{"level": 10}] if knobs.width == "on" else [])]
            done = ev.JobChanged(job=job.id, changes=chance.choice(changes))
        case "fail":
            done = ev.TaskFailed(job=job.id, group="g0", index=chance.randint(0, 1))
        case "label":
            done = ev.NodeLabelled(node=node, labels={"zone": chance.choice("ab")})
        case _:
            done, undone = (
                ev.ClusterSilent(cluster=cluster, silent=True),
                ev.ClusterSilent(cluster=cluster, silent=False),
            )
    at_ms = _seconds(chance, 0, 1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60)
    script = [Scripted(at_ms=at_ms, event=done)]
    if undone is not None:
        script.append(Scripted(at_ms=at_ms + _seconds(chance, 1, 5, 20), event=undone))
    return script
