"""Simulations of plain logs, lived through in one go instead of turn by turn.

Most logs of supercomputers are plain: one machine, and jobs that each take some of it and say how long they will run at
most. Where nobody asks why anyone waits, or watches, all that is told of such a world follows from when each job
started, and that is found by a kernel (muster.engine.kernels.straight) which decides with the kernels of every turn.
Whatever is out of the ordinary is left to the simulation (ADR 0028).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from muster.engine.blanks import blank_lines, no_limits, nones, rules_of, shapes_of
from muster.engine.carried import blank_books
from muster.engine.glance import is_room_all_that_counts
from muster.engine.kernels import filling, glancing, straight
from muster.engine.kernels.ending import Ends
from muster.engine.kernels.flows import SCALE, Accounts
from muster.engine.kernels.jit import suited_to
from muster.engine.kernels.queueing import Kinds, Lanes
from muster.engine.placement import never_fits
from muster.engine.shapes import Ints, ShapeTable
from muster.engine.table import NONE
from muster.model.flow import POWERS, Account
from muster.model.habit import NO_HABIT
from muster.model.jobs import NEVER_MS, Job
from muster.model.resources import Resources, Weights
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import opened
from muster.state.forecast import Estimate
from muster.state.records import Phase
from muster.state.state import State

_LANES = 64  # at first
_MOST_STARTS = 1 << 16  # at one moment
_PARTS = 200  # in which to live through it: in between, progress is told and Ctrl-C heard
_WORD = 1 << 62  # products that decide stay below it
_HALF_TIME = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How it went: every job ran once, to its end. `state`: the world after that; `starts_ms`: of the scenario's jobs,
    in its order."""

    scenario: Scenario
    state: State
    starts_ms: list[int]
    tells_why: bool = False

    def forecast(self) -> dict[str, Estimate]:
        """Nobody waits any more."""
        return {}


def live_straight(scenario: Scenario, told: Callable[[int], None] = lambda _ended: None) -> Outcome | None:
    """Live through a scenario in one go; None if that takes a simulation. `told` hears how many jobs have ended."""
    if not _is_plain(scenario):
        return None
    state = opened(scenario)
    jobs = [entry.job for entry in scenario.jobs]
    for profile in {id(job.profile): job.profile for job in jobs}.values():
        state.roll.profiles.number(profile)
    shapes, free = state.roll.shapes(scenario.policy.weights), state.machines.floor().sole_free()
    if free is None or not shapes.are_lone or not _are_whole(scenario, state, shapes):
        return None
    order = _in_order(jobs)
    world = _world(scenario, [scenario.jobs[place] for place in order.tolist()], state, shapes, free)
    if not _live(world, told):
        return None
    starts = np.empty(len(jobs), np.int64)
    starts[order] = world.log.start
    _close(scenario, state, world)
    return Outcome(scenario=scenario, state=state, starts_ms=starts.tolist())


# -- what is plain -------------------------------------------------------------------------------------


def _is_plain(scenario: Scenario) -> bool:
    """Whether nothing but room, promises, the order of arrival and shares decides who starts, as far as is told."""
    if len(scenario.nodes) != 1 or len(scenario.clusters) != 1 or not scenario.jobs:
        return False
    if scenario.pools or scenario.users or scenario.budgets or scenario.events:
        return False
    if scenario.until_ms is not None or scenario.rounds_ms != 1:
        return False
    if scenario.nodes[0].cordoned or scenario.clusters[0].silent or scenario.clusters[0].opaque:
        return False
    queues = scenario.queues
    if any(queue.quota or queue.cordoned or queue.excess_budget is not None for queue in queues):
        return False
    policy = scenario.policy
    if not is_room_all_that_counts(policy) or policy.reservations_in_all < 1 or policy.half_time_ms >= _HALF_TIME:
        return False
    if policy.short_first:  # what ends changes whose turn it is
        return False
    return all(map(_is_plain_job, scenario.jobs)) and len({entry.job.priority_class for entry in scenario.jobs}) == 1


def _is_plain_job(entry: ScriptJob) -> bool:
    """Whether a job runs for a time that is known, and never longer than it says."""
    job, runtime_ms = entry.job, entry.runtime_ms
    if runtime_ms is None or job.expected_ms is None or not 0 < job.expected_ms < NEVER_MS:
        return False
    if (
        runtime_ms > job.expected_ms
        or job.time_limit_ms is not None
        or entry.work is not None
        or entry.race is not None
    ):
        return False
    return job.lifetime_ms is None and not (job.after or job.held_by or job.attained)


def _are_whole(scenario: Scenario, state: State, shapes: ShapeTable) -> bool:
    """Whether every job fits the empty machine, and no usage is rounded or too large: then usages add up."""
    fleet, capacity, weights = state.fleet, state.machines.floor().capacity(), scenario.policy.weights
    if any(never_fits(fleet, profile) is not None for profile in shapes.profiles.names):
        return False
    asked = [profile.most for profile in shapes.profiles.names]
    if not all(resources and _is_exact(weights, resources) for resources in (*asked, capacity)):
        return False
    heaviest = max(sum(queue.weight for queue in scenario.queues), 1)
    demand = max(weights.usage(resources) for resources in asked) * len(scenario.jobs)
    return weights.usage(capacity) * heaviest < _WORD and demand < _WORD and weights.usage(capacity) < 1 << SCALE


def _is_exact(weights: Weights, resources: Resources) -> bool:
    """Whether the usage of these is a whole number by itself."""
    return all(resources.get(name) * micro % units == 0 for name, micro, units in weights.terms)


def _in_order(jobs: list[Job]) -> Ints:
    """The places of jobs in the order they come: by moment, number and name. Names are compared only where they must
    be."""
    submitted = np.array([job.submit_ms for job in jobs])
    order = np.argsort(submitted, kind="stable")
    begins = [0, *(np.flatnonzero(np.diff(submitted[order])) + 1).tolist(), len(jobs)]
    for begin, end in pairwise(begins):
        if end - begin > 1:
            places = order[begin:end].tolist()
            order[begin:end] = sorted(places, key=lambda place: (jobs[place].number, jobs[place].key))
    return order


# -- the world in columns ------------------------------------------------------------------------------


def _world(
    scenario: Scenario, entries: list[ScriptJob], state: State, shapes: ShapeTable, free: dict[str, int]
) -> straight.World:
    """The world before anything happens; `entries` in the order they come."""
    queues, policy, many = [queue.name for queue in scenario.queues], scenario.policy, len(entries)
    books = blank_books(len(queues), len(shapes.resources), 1)
    books.weight[:] = books.turn_weight[:] = [queue.weight for queue in scenario.queues]
    books.name_order[:] = np.argsort(np.argsort(np.array(queues, object)))
    room = np.array([free.get(name, 0) for name in shapes.resources], np.int64)
    capacity = policy.weights.usage(state.machines.floor().capacity())
    clock, facts = np.zeros(straight.CLOCK, np.int64), np.zeros(glancing.FACTS, np.int64)
    clock[straight.PENDING], clock[straight.AGING] = NONE, policy.aging_after_ms
    clock[straight.STEP] = policy.flow_step_ms
    clock[straight.CAPACITY], clock[straight.WEIGHT] = capacity, books.weight.sum()
    facts[glancing.START] = facts[glancing.NEVER] = NEVER_MS
    facts[[glancing.PROMISED, glancing.KNOWN, glancing.AGED, glancing.FIRST]] = NONE
    facts[glancing.DEEP] = policy.profiles_deep
    lines = blank_lines(len(queues), len(shapes.profiles), _LANES, many)
    lines.aside[:], lines.aside_count[:] = filling.NOBODY, 0
    kinds = _kinds(entries, queues, shapes)
    running, ends = _nobody_running(min(many, _most_at_once(room, shapes)))
    amounts = np.array([room] * glancing.AMOUNTS)
    return straight.World(
        log=straight.Log(np.array([entry.runtime_ms for entry in entries], np.int64), np.zeros(many, np.int64)),
        roll=_nobody_waiting(entries, len(queues)),
        kinds=kinds,
        lanes=_no_lanes(many),
        running=running,
        ends=ends,
        accounts=_nothing_used(len(queues), policy.half_time_ms),
        holding=_holding(len(queues), state, shapes, policy.weights),
        lines=lines,
        limits=no_limits(len(queues), 1),
        shapes=shapes_of(shapes),
        books=books,
        rules=rules_of(policy, 0),
        amounts=amounts,
        amounts_found=amounts.copy(),
        facts=facts,
        facts_found=facts.copy(),
        started=np.empty((min(many, _MOST_STARTS) + 1, glancing.STARTED), np.int64),
        clock=clock,
    )


def _kinds(entries: list[ScriptJob], queues: list[str], shapes: ShapeTable) -> Kinds:
    """Which jobs stand in one lane."""
    number_of = {name: number for number, name in enumerate(queues)}
    profiles = {id(profile): number for number, profile in enumerate(shapes.profiles.names)}
    found: dict[tuple[int, int, int], int] = {}
    of = []
    for entry in entries:
        job = entry.job
        profile = profiles.get(id(job.profile))
        if profile is None:  # equal to another
            profile = profiles[id(job.profile)] = shapes.profiles[job.profile]
        of.append(found.setdefault((number_of[job.queue], profile, job.priority), len(found)))
    queue, number, priority = (np.array(column, np.int64) for column in zip(*found, strict=True))
    return Kinds(of=np.array(of, np.int64), queue=queue, profile=number, priority=priority, lane=nones(len(found)))


def _nobody_waiting(entries: list[ScriptJob], queues: int) -> filling.Roll:
    """The roll before anyone came. The rows are there, in the order jobs will come: so ranks are their places."""
    many = len(entries)
    return filling.Roll(
        **{name: nones(_LANES) for name in _OF_LANES if name != "lane_count"},
        lane_count=_zeros(_LANES),
        queue_lane=nones(queues),
        submit=np.array([entry.job.submit_ms for entry in entries], np.int64),
        rank=np.arange(1, many + 1),
        lifetime=nones(many),
        known=np.array([entry.job.expected_ms for entry in entries], np.int64),
        user=_zeros(many),
        next=nones(many),
    )


def _no_lanes(rows: int) -> Lanes:
    return Lanes(
        last=nones(_LANES),
        previous=nones(_LANES),
        kind=nones(_LANES),
        before=nones(rows),
        unused=nones(_LANES),
        many=_zeros(1),
        made=_zeros(1),
    )


def _nothing_used(queues: int, half_time_ms: int) -> Accounts:
    return Accounts(
        usage=_zeros(queues),
        flow=_zeros(queues),
        as_of=_zeros(queues),
        powers=np.array(POWERS, np.int64),
        half_time=np.array([half_time_ms], np.int64),
    )


def _most_at_once(room: Ints, shapes: ShapeTable) -> int:
    """How many jobs may run at once."""
    least = shapes.least[: len(shapes.profiles)].min(axis=0)
    return (
        int(min((has // asks for has, asks in zip(room.tolist(), least.tolist(), strict=True) if asks), default=0)) + 1
    )


def _nobody_running(room: int) -> tuple[glancing.Running, Ends]:
    return (
        glancing.Running(_zeros(room), _zeros(room), _zeros(room)),
        Ends(_zeros(room), _zeros(room), np.arange(room), _zeros(1)),
    )


def _holding(queues: int, state: State, shapes: ShapeTable, weights: Weights) -> straight.Holding:
    """What queues have: nothing. And what profiles ask for, and what there is, in usage."""

    def in_usage(resources: Resources) -> list[int]:
        return [weights.usage(Resources({name: resources.get(name)})) for name in shapes.resources]

    return straight.Holding(
        jobs=_zeros(queues),
        demand=np.zeros((queues, len(shapes.resources)), np.int64),
        active=_zeros(queues),
        asked=np.array([in_usage(profile.most) for profile in shapes.profiles.names], np.int64),
        there=np.array(in_usage(state.machines.floor().capacity()), np.int64),
        wanted=_zeros(queues),
        entitled=_zeros(queues),
        order=np.arange(queues),
        is_known=_zeros(1),
    )


_OF_LANES = tuple(name for name in filling.Roll._fields if name.startswith("lane_"))


def _with_more_lanes(world: straight.World) -> straight.World:
    """The same world with twice as many lanes."""
    roll, lanes, lines = world.roll, world.lanes, world.lines
    return world._replace(
        roll=roll._replace(**{name: _wider(getattr(roll, name), name != "lane_count") for name in _OF_LANES}),
        lanes=lanes._replace(**{name: _wider(getattr(lanes, name)) for name in ("last", "previous", "kind", "unused")}),
        lines=lines._replace(
            heap=_wider(lines.heap),
            cursor=_wider(lines.cursor),
            first=_wider(lines.first),
            order=np.empty((2 * len(lines.order), 5), np.int64),
        ),
    )


def _wider(column: Ints, none: bool = True) -> Ints:
    return np.concatenate((column, nones(len(column)) if none else _zeros(len(column))))


def _zeros(size: int) -> Ints:
    return np.zeros(size, np.int64)


# -- on the way ----------------------------------------------------------------------------------------


def _live(world: straight.World, told: Callable[[int], None]) -> bool:
    """Live on until all is over; False if it takes a simulation."""
    many = len(world.log.start)
    live_on, most = suited_to(many)(straight.live_on), max(many // _PARTS, 1)
    while True:
        why = live_on(world, most)
        if why == straight.FULL:
            world = _with_more_lanes(world)
        elif why != straight.PAUSED:
            return why == straight.OVER
        told(int(world.clock[straight.ENDED]))


def _close(scenario: Scenario, state: State, world: straight.World) -> None:
    """The state as the simulation would leave it."""
    state.now_ms = int(world.clock[straight.LAST])
    accounts, active = world.accounts, world.holding.active
    for number, queue in enumerate(scenario.queues):
        account = Account(usage=0, flow=int(accounts.flow[number]), as_of_ms=int(accounts.as_of[number]))
        state.books.recall(queue.name, account, account, int(active[number]), NO_HABIT)
    for entry in scenario.jobs:
        state.jobs.note(entry.job.id, Phase.SUCCEEDED, attempts=1)
