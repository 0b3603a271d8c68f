"""Living through a log in one go: one machine, on which plain jobs come, start, and end as they will (ADR 0028).

What the state and its loop do between turns is done here for columns: jobs stand in line and leave it, queues use more
and less, the next moment comes. What a turn decides is left to the kernels of a turn at a glance (glancing, alone); the
room now and at the promised moment is kept from turn to turn instead of added up in each.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.engine.kernels.alone import fill_alone
from muster.engine.kernels.ending import Ends, begin, end_next
from muster.engine.kernels.entitling import entitle
from muster.engine.kernels.filling import DONE, NOBODY, NONE, Books, Ints, Limits, Lines, Roll, Rules, Shapes
from muster.engine.kernels.flows import Accounts, flow_at, use
from muster.engine.kernels.glancing import (
    AGED,
    BEFORE,
    FIRST,
    FREE,
    KNOWN,
    MANY,
    NOW,
    PROMISED,
    RESERVED,
    ROW,
    SINCE,
    SPARE,
    START,
    STARTS,
    UNKNOWN,
    UNSURE,
    WAITING,
    Running,
    fits,
    redeem,
    start_in_order,
)
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.offering import open_lines
from muster.engine.kernels.queueing import Kinds, Lanes, has_room_for, leave_line, stand_in_line

OVER, PAUSED, FULL, CANNOT = range(4)
"""Why living on stopped: nothing is left to happen; so many have ended as were asked for; there are too few lanes; what
comes next is out of the ordinary."""

COME, ENDED, PENDING, LAST, AGING, STEP, CAPACITY, WEIGHT, CLOCK = range(9)
"""Numbers of the clock: how many jobs have come and how many ended, who is promised room (a row, or -1), and the moment
of the last event. And what never changes: the age from which on jobs are aged, how far marks of flows are apart, the
usage of all there is, and the weights of all queues together."""


class Log(NamedTuple):
    """The jobs, in the order they come: how long each runs. And what is found out: when it started."""

    runtime: Ints
    start: Ints


class Holding(NamedTuple):
    """What each queue has of all: jobs that are not over, what they ask for by resource, in usage; since when nothing
    came or went; and what follows from it for shares."""

    jobs: Ints
    demand: Ints
    active: Ints
    asked: Ints  # by profile and resource, in usage
    there: Ints  # by resource, in usage
    wanted: Ints
    entitled: Ints
    order: Ints
    is_known: Ints  # one number: whether shares are, in this turn


class World(NamedTuple):
    """All there is."""

    log: Log
    roll: Roll
    kinds: Kinds
    lanes: Lanes
    running: Running
    ends: Ends
    accounts: Accounts
    holding: Holding
    lines: Lines
    limits: Limits
    shapes: Shapes
    books: Books
    rules: Rules
    amounts: Ints
    amounts_found: Ints  # as the turn found them
    facts: Ints
    facts_found: Ints
    started: Ints
    clock: Ints


@kernel
def live_on(world: World, most: int) -> int:
    """Live through moment after moment, until so many more jobs have ended or something else is in the way."""
    clock, facts, jobs = world.clock, world.facts, len(world.log.start)
    until = clock[ENDED] + most
    while clock[ENDED] < jobs:
        if clock[ENDED] >= until:
            return PAUSED
        if clock[COME] == jobs and world.ends.many[0] == 0:  # nobody starts who waits
            return CANNOT
        now = next_moment(world)
        if not has_room_for(world.lanes, coming(world, now)):
            return FULL
        clock[LAST] = facts[NOW] = now
        facts[SINCE] = now - clock[AGING]
        may_start = False
        while world.ends.many[0] > 0 and world.ends.moment[world.ends.heap[0]] <= now:
            end(world, now)
            may_start = True
        while clock[COME] < jobs and world.roll.submit[clock[COME]] <= now:
            row = int(clock[COME])
            clock[COME] += 1
            come(world, row, now)
            may_start = may_start or could_start(world, row)
        is_anyone_waiting = facts[WAITING] > 0 or facts[PROMISED] != NONE
        if is_anyone_waiting and may_start and not take_turn(world):
            return CANNOT
    return OVER


@kernel
def next_moment(world: World) -> int:
    """When something happens next."""
    come_next = int(world.clock[COME])
    if world.ends.many[0] == 0:
        return int(world.roll.submit[come_next])
    ends_next = int(world.ends.moment[world.ends.heap[0]])
    if come_next == len(world.log.start):
        return ends_next
    return min(int(world.roll.submit[come_next]), ends_next)


@kernel
def coming(world: World, now: int) -> int:
    """How many jobs come at this moment."""
    first = int(world.clock[COME])
    row = first
    while row < len(world.log.start) and world.roll.submit[row] <= now:
        row += 1
    return row - first


# -- what happens --------------------------------------------------------------------------------------


@kernel
def come(world: World, row: int, now: int) -> None:
    """A job comes."""
    kind = world.kinds.of[row]
    queue, profile, holding = world.kinds.queue[kind], world.kinds.profile[kind], world.holding
    stand_in_line(world.roll, world.kinds, world.lanes, row)
    world.facts[WAITING] += 1
    holding.jobs[queue] += 1
    holding.active[queue] = now
    for place in range(holding.asked.shape[1]):
        holding.demand[queue, place] += holding.asked[profile, place]


@kernel
def could_start(world: World, row: int) -> bool:
    """Whether there may be room for a job that just came, beside the promise. Who came before found none."""
    facts, least, profile = world.facts, world.shapes.least, world.kinds.profile[world.kinds.of[row]]
    if facts[PROMISED] == NONE:
        return True
    if not fits(least, profile, world.amounts, FREE):
        return False
    return world.roll.known[row] <= facts[START] - facts[NOW] or fits(least, profile, world.amounts, SPARE)


@kernel
def end(world: World, now: int) -> None:
    """The next to end does."""
    at = end_next(world.running, world.ends)
    row = world.ends.row[at]
    kind, known_end, holding = world.kinds.of[row], world.running.ends[at], world.holding
    queue, profile, amounts = world.kinds.queue[kind], world.kinds.profile[kind], world.amounts
    world.clock[ENDED] += 1
    use(world.accounts, queue, -world.shapes.usage[profile], now)
    holding.jobs[queue] -= 1
    holding.active[queue] = now
    for place in range(holding.asked.shape[1]):
        holding.demand[queue, place] -= holding.asked[profile, place]
    least = world.shapes.least
    for place in range(least.shape[1]):
        amounts[FREE, place] += least[profile, place]
        if known_end > world.facts[START]:
            amounts[SPARE, place] += least[profile, place]
        if known_end >= world.facts[START]:
            amounts[BEFORE, place] += least[profile, place]


@kernel
def start(world: World, row: int) -> None:
    """A job starts. Its room was taken when that was decided."""
    kind, now = world.kinds.of[row], int(world.facts[NOW])
    profile = world.kinds.profile[kind]
    world.log.start[row] = now
    known_end = now + world.roll.known[row]
    begin(world.running, world.ends, row, profile, known_end, now + world.log.runtime[row])
    use(world.accounts, world.kinds.queue[kind], world.shapes.usage[profile], now)


# -- a turn --------------------------------------------------------------------------------------------


@kernel
def take_turn(world: World) -> bool:
    """Decide who starts, and carry it out; False if it takes a whole turn to tell."""
    facts, amounts, roll, least = world.facts, world.amounts, world.roll, world.shapes.least
    copy_all(amounts, world.amounts_found)
    for place in range(len(facts)):
        world.facts_found[place] = facts[place]
    facts[MANY], facts[RESERVED] = 0, NONE
    fate = redeem(world.running, least, amounts, facts, world.started)
    if fate == UNKNOWN:
        return False
    first = int(facts[MANY])
    out = start_in_order(roll, least, amounts, facts, world.lines.out, world.started, fate)
    for at in range(first, first + out):
        world.lines.out[world.started[at, ROW]] = 0
    is_left = facts[MANY] < facts[WAITING] + (1 if fate == STARTS else 0)
    if facts[MANY] == UNSURE or (is_left and facts[PROMISED] == NONE):
        copy_all(world.amounts_found, amounts)
        for place in range(len(facts)):
            facts[place] = world.facts_found[place]
        facts[MANY], facts[RESERVED] = 0, NONE
        fate = redeem(world.running, least, amounts, facts, world.started)
        if not weigh(world, fate):
            return False
    carry_out(world)
    return True


@kernel
def copy_all(source: Ints, target: Ints) -> None:
    """The same numbers in another place."""
    for row in range(source.shape[0]):
        for place in range(source.shape[1]):
            target[row, place] = source[row, place]


@kernel
def carry_out(world: World) -> None:
    """Whoever was decided to start does, and who is newly promised room leaves the line."""
    facts = world.facts
    for at in range(facts[MANY]):
        row = int(world.started[at, ROW])
        if row == NONE:
            row = int(world.clock[PENDING])
            world.clock[PENDING] = NONE
        else:
            leave_line(world.roll, world.kinds, world.lanes, row)
            facts[WAITING] -= 1
        start(world, row)
    row = int(facts[RESERVED])
    if row != NONE:
        leave_line(world.roll, world.kinds, world.lanes, row)
        facts[WAITING] -= 1
        world.clock[PENDING] = row
        facts[KNOWN] = world.roll.known[row]


@kernel
def weigh(world: World, fate: int) -> bool:
    """Weigh queues against each other, as every turn does; False if it takes a whole turn to tell."""
    roll, lines, facts = world.roll, world.lines, world.facts
    open_books(world, fate)
    open_all_lines(world)
    world.holding.is_known[0] = 0
    facts[AGED], facts[FIRST] = NONE, NONE
    if facts[PROMISED] == NONE:
        facts[AGED] = oldest(world)
        if facts[AGED] != NONE:
            facts[FIRST] = roll.lane_first[facts[AGED]]
    why = fill_alone(
        roll,
        lines,
        world.limits,
        world.shapes,
        world.books,
        world.rules,
        world.running,
        world.amounts,
        facts,
        world.started,
    )
    is_plain = why == DONE
    for at in range(facts[MANY]):
        if world.started[at, ROW] != NONE:
            lines.out[world.started[at, ROW]] = 0
    if facts[RESERVED] != NONE:
        lines.out[facts[RESERVED]] = 0
    for queue in range(len(lines.begin)):
        is_plain = is_plain and lines.is_deep[queue] == 0
        if lines.aside_count[queue] > 0:
            for profile in range(lines.aside.shape[1]):
                lines.aside[queue, profile] = NOBODY
            lines.aside_count[queue] = 0
    return is_plain


@kernel
def open_books(world: World, fate: int) -> None:
    """What queues use as of now, and their flow as of the last mark. Who is promised room counts as admitted."""
    books, accounts, now = world.books, world.accounts, int(world.facts[NOW])
    mark = now - now % world.clock[STEP]
    for queue in range(len(books.usage)):
        usage = accounts.usage[queue]
        books.usage[queue] = books.started_usage[queue] = usage
        flow = flow_at(accounts, queue, max(mark, int(accounts.as_of[queue])))
        books.flow[queue] = books.started_flow[queue] = flow
    row = int(world.clock[PENDING])
    if row != NONE:
        kind = world.kinds.of[row]
        queue, usage = world.kinds.queue[kind], world.shapes.usage[world.kinds.profile[kind]]
        books.usage[queue] += usage
        books.flow[queue] = max(books.flow[queue], books.usage[queue])
        if fate == STARTS:
            books.started_usage[queue] += usage


@kernel
def open_all_lines(world: World) -> None:
    """Line up everyone who waits: nobody is set aside yet."""
    roll, lines = world.roll, world.lines
    lines.tie[0] = NONE
    for queue in range(len(lines.begin)):
        lines.is_asked[queue] = 1 if roll.queue_lane[queue] != NONE else 0
        lines.is_deep[queue], lines.stale[queue] = 0, 1
        lines.first_head[queue], lines.passed_usage[queue] = NONE, 0
    for lane in range(len(lines.first)):
        lines.cursor[lane], lines.first[lane] = NONE, roll.lane_first[lane]
    open_lines(roll, lines, world.limits, world.shapes, world.rules)


# -- the aged ------------------------------------------------------------------------------------------


@kernel
def oldest(world: World) -> int:
    """The lane of the oldest who has waited too long, of queues not above their share; -1 if none has."""
    roll, best = world.roll, NONE
    for lane in range(len(roll.lane_count)):
        if roll.lane_count[lane] == 0 or roll.submit[roll.lane_first[lane]] > world.facts[SINCE]:
            continue
        if best != NONE and roll.lane_first[lane] > roll.lane_first[best]:  # rows are in the order jobs came
            continue
        if is_within_share(world, int(roll.lane_queue[lane])):
            best = lane
    return best


@kernel
def is_within_share(world: World, queue: int) -> bool:
    """Whether a queue has no more than it is entitled to: what it would be if all queues wanted all they can get, it is
    entitled to at least."""
    used, holding, clock = world.books.started_usage[queue], world.holding, world.clock
    if used == 0 or used * clock[WEIGHT] <= clock[CAPACITY] * world.books.weight[queue]:
        return True
    if holding.is_known[0] == 0:
        holding.is_known[0] = 1
        for other in range(len(holding.wanted)):
            wanted = 0
            for place in range(len(holding.there)):
                wanted += min(holding.demand[other, place], holding.there[place])
            holding.wanted[other] = wanted
        books = world.books
        entitle(holding.wanted, books.weight, books.name_order, clock[CAPACITY], holding.order, holding.entitled)
    return bool(used <= holding.entitled[queue])
