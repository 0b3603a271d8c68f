"""Progressive filling over columns (design.md 4.3): the hungriest queue's head starts, or is set aside.

The loop goes on by itself as long as nothing needs a careful look: a job that fits starts; one for which there is no
room, no reservation and nobody who would have to give way is set aside. Everything else goes back to the planner,
which decides and calls again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.engine.kernels import placing
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import Cells, place_gang, undo

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

NONE = -1
NOBODY = -1  # nobody of this queue and profile is set aside

DONE, LIMITED, CAREFUL, BLOCKED, TIED, FULL_OUTPUT = range(6)
"""Why the loop came back: nobody is left to offer; a limit may hold the head back; the head needs a careful look
before it starts, or because it does not; two jobs of one moment must be told apart; the output is full."""

NO_ROOM, WOULD_DELAY, NEVER_FITS = range(3)
"""Why a head was set aside."""


class Roll(NamedTuple):
    """The columns of muster.engine.roll."""

    lane_queue: Ints
    lane_profile: Ints
    lane_class: Ints
    lane_priority: Ints
    lane_first: Ints
    lane_next: Ints
    lane_count: Ints
    queue_lane: Ints
    submit: Ints
    rank: Ints
    lifetime: Ints
    known: Ints
    user: Ints
    next: Ints


class Lines(NamedTuple):
    """What each queue may still offer. Lanes stand in a heap by their next job."""

    heap: Ints
    begin: Ints
    many: Ints
    cursor: Ints
    out: Flags
    aside: Ints  # queue x profile: who may be in the way for as long, or longer, is set aside
    aside_count: Ints
    head: Ints
    stale: Flags
    first_head: Ints
    tie: Ints  # the submit time two jobs of which could not be told apart, or -1
    order: Ints  # the queues that offer something in a heap, the one whose turn it is first
    offering: Ints  # how many they are
    flow_with: Ints  # by queue: its flow if its head were admitted
    usage_with: Ints


class Limits(NamedTuple):
    """Limits that were hit, by queue: whom they hold back (-1: whoever it is)."""

    many: Ints
    user: Ints
    resource: Ints
    profile: Ints
    lifetime: Ints


class Shapes(NamedTuple):
    """What profiles ask for, by number."""

    usage: Ints
    least: Ints
    asks_gpu: Ints
    is_rigid: Ints
    never_fits: Ints
    is_full: Ints  # there is no room for it, promised or not
    scarce: Ints  # the resource it lacks, if it was worked out after `scarce_at` starts of this turn
    scarce_at: Ints


class Books(NamedTuple):
    """What queues and users hold; see muster.engine.ledger."""

    weight: Ints
    name_order: Ints
    cordoned: Ints
    flow: Ints
    usage: Ints
    started_usage: Ints
    started_flow: Ints
    started: Ints
    held: Ints
    quota: Ints
    fixed_flow: Ints
    fixed_usage: Ints
    fixed_limit: Ints
    nominal: Ints
    has_budget: Ints
    starts: Ints
    user_held: Ints
    user_quota: Ints
    user_has_quota: Ints


class Rules(NamedTuple):
    """The numbers of a policy that filling needs."""

    now: int
    profiles_deep: int
    lifetime_bounds: bool
    backfills: bool
    starts_per_turn: int
    starts_per_queue: int


class Care(NamedTuple):
    """Who must go back to the planner when blocked: those who may reserve, or may take from others."""

    may_reserve: Ints  # by kind: 0 CPU jobs, 1 GPU jobs
    is_below: Ints  # by queue: whether it has less than its entitled share
    gives: Ints  # by queue: whether anything of it may give way
    entitled: Ints  # by queue and resource
    gives_class: Ints  # by queue: the lowest (class, priority) of its own that would give way
    gives_priority: Ints
    was_overtaken: Flags  # by row


class Field(NamedTuple):
    """Where jobs go: the cells of placing.py with all promised moments on trial, and what profiles ask of them.

    A profile's groups, at their min, are those from first_group[profile] on; its clusters, most preferred first, those
    from first_cluster[profile] on. `starts` are the promised moments, in order; signs[n] tells the first n + 1 moments.
    """

    ground: Cells
    books: Cells
    by_tightness: Cells
    circles: Cells
    trial: Cells
    first_group: Cells
    groups: Cells
    widths: Cells
    first_cluster: Cells
    clusters: Cells
    starts: Cells
    signs: Cells


class Started(NamedTuple):
    """What the loop started, and whom it set aside. `size`: starts, tasks, asides, starts of the whole turn."""

    size: Ints
    row: Ints
    cluster: Ints
    above_nominal: Flags
    first_task: Ints
    tasks: Ints
    aside_row: Ints
    aside_why: Ints


@kernel
def bound_of(roll: Roll, rules: Rules, row: int) -> int:
    """How long the job can be in the way; -1: nobody knows."""
    known, lifetime = int(roll.known[row]), int(roll.lifetime[row])
    if known >= 0 or not rules.lifetime_bounds or lifetime == NONE:
        return known
    return max(lifetime, 1)


@kernel
def is_held_back(roll: Roll, limits: Limits, shapes: Shapes, queue: int, profile: int, row: int) -> bool:
    """Whether a limit that closed the queue holds for this job too."""
    for place in range(limits.many[queue]):
        user = limits.user[queue, place]
        if limits.profile[queue, place] != NONE:
            alike = limits.profile[queue, place] == profile and limits.lifetime[queue, place] == roll.lifetime[row]
            if alike and user == roll.user[row]:
                return True
        elif user == NONE or user == roll.user[row]:
            resource = limits.resource[queue, place]
            if resource == NONE or shapes.least[profile, resource] > 0:
                return True
    return False


@kernel
def advance(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules, lane: int) -> int:
    """The first job of the lane that may still be offered; -1 if there is none."""
    queue, profile = roll.lane_queue[lane], roll.lane_profile[lane]
    bound = lines.aside[queue, profile]
    if bound == 0 or (bound == NOBODY and lines.aside_count[queue] >= rules.profiles_deep):
        return NONE
    row = int(lines.cursor[lane])
    while row != NONE:
        if lines.out[row] == 0:
            is_aside = False
            if bound != NOBODY:
                own = bound_of(roll, rules, row)
                is_aside = own == NONE or own >= bound
            if not is_aside and not is_held_back(roll, limits, shapes, queue, profile, row):
                return row
        row = int(roll.next[row])
    return NONE


@kernel
def comes_before(roll: Roll, lines: Lines, one: int, other: int) -> bool:
    """Whether the next job of one lane stands before that of another lane of the same queue."""
    if roll.lane_class[one] != roll.lane_class[other]:
        return bool(roll.lane_class[one] > roll.lane_class[other])
    if roll.lane_priority[one] != roll.lane_priority[other]:
        return bool(roll.lane_priority[one] > roll.lane_priority[other])
    mine, theirs = lines.cursor[one], lines.cursor[other]
    if roll.submit[mine] != roll.submit[theirs]:
        return bool(roll.submit[mine] < roll.submit[theirs])
    if roll.rank[mine] == 0 or roll.rank[theirs] == 0:
        lines.tie[0] = roll.submit[mine]
    return bool(roll.rank[mine] < roll.rank[theirs])


@kernel
def sift_down(roll: Roll, lines: Lines, queue: int, place: int) -> None:
    """Put a lane of a queue's heap where it belongs, below its present place."""
    begin, count = lines.begin[queue], lines.many[queue]
    while True:
        child = 2 * place + 1
        if child >= count:
            return
        if child + 1 < count and comes_before(roll, lines, lines.heap[begin + child + 1], lines.heap[begin + child]):
            child += 1
        if not comes_before(roll, lines, lines.heap[begin + child], lines.heap[begin + place]):
            return
        swap = lines.heap[begin + place]
        lines.heap[begin + place] = lines.heap[begin + child]
        lines.heap[begin + child] = swap
        place = child


@kernel
def heapify(roll: Roll, lines: Lines, queue: int) -> None:
    """Make a heap of a queue's lanes."""
    for place in range(lines.many[queue] // 2 - 1, -1, -1):
        sift_down(roll, lines, queue, place)


@kernel
def open_lines(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules) -> None:
    """Line up every queue's lanes from their beginning."""
    at = 0
    for queue in range(len(lines.begin)):
        lines.begin[queue] = at
        lines.aside_count[queue] = 0
        lines.stale[queue] = 1
        lines.first_head[queue] = NONE
        lane = roll.queue_lane[queue]
        while lane != NONE:
            lines.cursor[lane] = roll.lane_first[lane]
            lines.cursor[lane] = advance(roll, lines, limits, shapes, rules, lane)
            if lines.cursor[lane] != NONE:
                lines.heap[at] = lane
                at += 1
            lane = roll.lane_next[lane]
        lines.many[queue] = at - lines.begin[queue]
        heapify(roll, lines, queue)


@kernel
def offer(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, rules: Rules, queue: int) -> int:
    """The queue's next job in order, -1 when it has no more to offer. A lane only ever moves back in its heap."""
    begin = lines.begin[queue]
    while lines.many[queue] > 0:
        lane = lines.heap[begin]
        row = advance(roll, lines, limits, shapes, rules, lane)
        if row == lines.cursor[lane] and row != NONE:
            return row
        lines.cursor[lane] = row
        if row == NONE:
            lines.many[queue] -= 1
            lines.heap[begin] = lines.heap[begin + lines.many[queue]]
        sift_down(roll, lines, queue, 0)
    return NONE


@kernel
def is_less(one: int, per_one: int, other: int, per_other: int) -> int:
    """Compare one / per_one with other / per_other exactly: -1, 0 or 1. All are positive, and no product is formed."""
    sign = 1
    while True:
        if per_one == per_other:
            return 0 if one == other else sign if one > other else -sign
        whole, whole_other = one // per_one, other // per_other
        if whole != whole_other:
            return sign if whole > whole_other else -sign
        rest, rest_other = one - whole * per_one, other - whole_other * per_other
        if rest == 0 or rest_other == 0:
            if rest == rest_other:
                return 0
            return sign if rest > 0 else -sign
        # a/b < c/d exactly when d/c < b/a: go on with the inverses, turned round
        one, per_one, other, per_other = per_one, rest, per_other, rest_other
        sign = -sign


@kernel
def is_served_before(roll: Roll, lines: Lines, books: Books, one: int, other: int) -> bool:
    """Whether a queue's head comes before another's: by class, then the hungriest, whose flow per weight with its head
    is smallest; then usage per weight, then name."""
    mine, theirs = (
        roll.lane_class[lines.heap[lines.begin[one]]],
        roll.lane_class[lines.heap[lines.begin[other]]],
    )
    if mine != theirs:
        return bool(mine > theirs)
    weight, weight_other = books.weight[one], books.weight[other]
    order = is_less(lines.flow_with[one], weight, lines.flow_with[other], weight_other)
    if order == 0:
        order = is_less(lines.usage_with[one], weight, lines.usage_with[other], weight_other)
    if order == 0:
        return bool(books.name_order[one] < books.name_order[other])
    return order < 0


@kernel
def look_up_head(
    roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, books: Books, rules: Rules, queue: int
) -> bool:
    """Whom the queue offers next, and how it would stand with that; whether there is anyone."""
    if lines.stale[queue]:
        lines.head[queue] = offer(roll, lines, limits, shapes, rules, queue)
        lines.stale[queue] = 0
    if lines.head[queue] == NONE:
        return False
    usage = books.usage[queue] + shapes.usage[roll.lane_profile[lines.heap[lines.begin[queue]]]]
    lines.usage_with[queue] = usage
    lines.flow_with[queue] = max(books.flow[queue], usage)
    return True


@kernel
def sift_queue_down(roll: Roll, lines: Lines, books: Books, place: int) -> None:
    """Put a queue where it belongs, below its present place."""
    order, count = lines.order, lines.offering[0]
    while True:
        child = 2 * place + 1
        if child >= count:
            return
        if child + 1 < count and is_served_before(roll, lines, books, order[child + 1], order[child]):
            child += 1
        if not is_served_before(roll, lines, books, order[child], order[place]):
            return
        swap = order[place]
        order[place] = order[child]
        order[child] = swap
        place = child


@kernel
def order_queues(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, books: Books, rules: Rules) -> None:
    """Put all queues that offer something in order."""
    count = 0
    for queue in range(len(lines.begin)):
        if look_up_head(roll, lines, limits, shapes, books, rules, queue):
            lines.order[count] = queue
            count += 1
    lines.offering[0] = count
    for place in range(count // 2 - 1, -1, -1):
        sift_queue_down(roll, lines, books, place)


@kernel
def reorder_first(roll: Roll, lines: Lines, limits: Limits, shapes: Shapes, books: Books, rules: Rules) -> None:
    """Put the first queue, the only one that changed, where it belongs now."""
    if not look_up_head(roll, lines, limits, shapes, books, rules, lines.order[0]):
        lines.offering[0] -= 1
        lines.order[0] = lines.order[lines.offering[0]]
    sift_queue_down(roll, lines, books, 0)


@kernel
def may_be_limited(
    roll: Roll, shapes: Shapes, books: Books, rules: Rules, starts: int, queue: int, profile: int, row: int
) -> bool:
    """Whether a limit may forbid admitting the job; the planner knows for sure."""
    if books.cordoned[queue] or starts >= rules.starts_per_turn or books.starts[queue] >= rules.starts_per_queue:
        return True
    usage, lifetime = shapes.usage[profile], roll.lifetime[row]
    if lifetime == NONE and max(books.fixed_flow[queue], books.fixed_usage[queue] + usage) > books.fixed_limit[queue]:
        return True
    if (
        lifetime > 0
        and books.has_budget[queue]
        and max(books.flow[queue], books.usage[queue] + usage) > books.nominal[queue]
    ):
        return True
    user = roll.user[row]
    for resource in range(shapes.least.shape[1]):
        asks = shapes.least[profile, resource]
        if asks > 0:
            if books.held[queue, resource] + asks > books.quota[queue, resource]:
                return True
            if books.user_has_quota[user] and books.user_held[user, resource] + asks > books.user_quota[user, resource]:
                return True
    return False


@kernel
def set_aside(lines: Lines, queue: int, profile: int, bound: int) -> None:
    """Jobs of this profile that may be in the way for as long or longer need not be offered again."""
    known = lines.aside[queue, profile]
    if known == NOBODY:
        lines.aside_count[queue] += 1
    if known == NOBODY or bound < known:
        lines.aside[queue, profile] = bound
    lines.stale[queue] = 1


@kernel
def write_start(roll: Roll, shapes: Shapes, books: Books, queue: int, profile: int, row: int) -> None:
    """The job is admitted and starts at its min: what its queue and user hold from now on."""
    usage = shapes.usage[profile]
    books.usage[queue] += usage
    books.flow[queue] = max(books.flow[queue], books.usage[queue])
    books.started_usage[queue] += usage
    books.started_flow[queue] = max(books.started_flow[queue], books.started_usage[queue])
    if roll.lifetime[row] == NONE:
        books.fixed_usage[queue] += usage
        books.fixed_flow[queue] = max(books.fixed_flow[queue], books.fixed_usage[queue])
    books.starts[queue] += 1
    user = roll.user[row]
    for resource in range(shapes.least.shape[1]):
        amount = shapes.least[profile, resource]
        books.started[queue, resource] += amount
        books.held[queue, resource] += amount
        books.user_held[user, resource] += amount


@kernel
def fill(
    roll: Roll,
    lines: Lines,
    limits: Limits,
    shapes: Shapes,
    books: Books,
    rules: Rules,
    care: Care,
    field: Field,
    done: Started,
) -> tuple[int, int]:
    """Fill until nobody is left to offer, or the planner must look: why, and at which queue's head."""
    order_queues(roll, lines, limits, shapes, books, rules)
    while True:
        if lines.tie[0] != NONE:
            return TIED, NONE
        if lines.offering[0] == 0:
            return DONE, NONE
        queue = lines.order[0]
        if lines.stale[queue]:
            reorder_first(roll, lines, limits, shapes, books, rules)
            continue
        row, lane = int(lines.head[queue]), lines.heap[lines.begin[queue]]
        profile = int(roll.lane_profile[lane])
        if lines.first_head[queue] == NONE:
            lines.first_head[queue] = row
        if is_full_up(done, field, profile):
            return FULL_OUTPUT, queue
        if shapes.never_fits[profile] == 1:
            leave_aside(lines, done, queue, profile, row, NEVER_FITS, 0)
            continue
        if may_be_limited(roll, shapes, books, rules, int(done.size[3]), queue, profile, row):
            return LIMITED, queue
        bound = 0
        if shapes.is_full[profile] == 0:
            if shapes.is_rigid[profile] == 0 or may_overtake(roll, field, row):
                return CAREFUL, queue
            moments = moments_met(roll, rules, field, row)
            cluster = find_cluster(field, profile, moments)
            if cluster != NONE:
                write_down(roll, shapes, books, field, done, queue, profile, row, cluster)
                lines.out[row] = 1
                lines.stale[queue] = 1
                continue
            if len(field.starts) > 0 and is_room_regardless(field, profile):
                bound = 1 if moments == 0 else field.starts[moments - 1] - rules.now + 1
            else:
                shapes.is_full[profile] = 1
        if needs_care(roll, shapes, books, care, int(done.size[3]), queue, profile, row, lane):
            return CAREFUL, queue
        leave_aside(lines, done, queue, profile, row, WOULD_DELAY if bound > 0 else NO_ROOM, bound)
        if not rules.backfills:
            return DONE, NONE


@kernel
def is_full_up(done: Started, field: Field, profile: int) -> bool:
    """Whether there is no more space to write down what becomes of such a job."""
    tasks = 0
    for place in range(field.first_group[profile], field.first_group[profile + 1]):
        tasks += field.widths[place]
    is_out_of_rows = done.size[0] >= len(done.row) or done.size[2] >= len(done.aside_row)
    return bool(is_out_of_rows or done.size[1] + tasks > len(done.tasks))


@kernel
def may_overtake(roll: Roll, field: Field, row: int) -> bool:
    """Whether the job, if it starts, may pass a promise on the strength of its lifetime alone."""
    return bool(len(field.starts) > 0 and roll.known[row] == NONE and roll.lifetime[row] != NONE)


@kernel
def moments_met(roll: Roll, rules: Rules, field: Field, row: int) -> int:
    """How many promised moments come before the job's end, if it starts now."""
    bound, met = bound_of(roll, rules, row), 0
    while met < len(field.starts) and (bound == NONE or field.starts[met] < rules.now + bound):
        met += 1
    return met


@kernel
def find_cluster(field: Field, profile: int, moments: int) -> int:
    """Place a job at its min in the most preferred of its clusters that has room now and at so many moments."""
    trial = field.trial
    trial[placing.MOMENTS] = 1 + moments
    trial[placing.SIGN] = field.signs[moments]
    trial[placing.LENGTH] = 0
    begin, end = field.first_group[profile], field.first_group[profile + 1]
    groups, widths = field.groups[begin:end], field.widths[begin:end]
    for place in range(field.first_cluster[profile], field.first_cluster[profile + 1]):
        cluster = field.clusters[place]
        trial[placing.PLACED] = 0
        placed = place_gang(
            field.ground, field.books, field.by_tightness, field.circles, trial, groups, widths, cluster, placing.OPEN
        )
        if placed >= 0:
            return cluster
    return NONE


@kernel
def is_room_regardless(field: Field, profile: int) -> bool:
    """Whether there would be room if nobody had a promise."""
    if find_cluster(field, profile, 0) == NONE:
        return False
    undo(field.ground, field.books, field.by_tightness, field.trial, 0)
    return True


@kernel
def write_down(
    roll: Roll,
    shapes: Shapes,
    books: Books,
    field: Field,
    done: Started,
    queue: int,
    profile: int,
    row: int,
    cluster: int,
) -> None:
    """The job starts where it was just placed."""
    at, task, trial = int(done.size[0]), int(done.size[1]), field.trial
    usage = books.usage[queue] + shapes.usage[profile]
    done.row[at] = row
    done.cluster[at] = cluster
    done.above_nominal[at] = max(books.flow[queue], usage) > books.nominal[queue]
    done.first_task[at] = task
    cell = trial[placing.ANSWER]
    for place in range(field.first_group[profile], field.first_group[profile + 1]):
        for _ in range(field.widths[place]):
            for part in range(placing.TASK):
                done.tasks[task, part] = trial[cell + part]
            cell += placing.TASK
            task += 1
    done.size[0] = at + 1
    done.size[1] = task
    done.size[3] += 1
    write_start(roll, shapes, books, queue, profile, row)
    trial[placing.LENGTH] = 0


@kernel
def may_take(shapes: Shapes, books: Books, care: Care, starts: int, queue: int, profile: int) -> bool:
    """Whether the queue may take from another one for such a job; if unknown, whatever the resource that is short."""
    if not care.is_below[queue]:
        return False
    weight, flow = (
        books.weight[queue],
        max(books.started_flow[queue], books.started_usage[queue] + shapes.usage[profile]),
    )
    first, last = 0, shapes.least.shape[1]
    if shapes.scarce_at[profile] == starts:
        first, last = shapes.scarce[profile], shapes.scarce[profile] + 1
    for other in range(len(care.gives)):
        per = books.weight[other]
        if other == queue or not care.gives[other] or is_less(flow, weight, books.started_flow[other], per) > 0:
            continue
        for resource in range(first, last):
            mine, theirs = books.started[queue, resource], books.started[other, resource]
            if mine < care.entitled[queue, resource] and theirs > care.entitled[other, resource]:
                if is_less(mine + shapes.least[profile, resource], weight, theirs, per) <= 0:
                    return True
    return False


@kernel
def needs_care(
    roll: Roll, shapes: Shapes, books: Books, care: Care, starts: int, queue: int, profile: int, row: int, lane: int
) -> bool:
    """Whether a job for which there is no room may reserve some, or take some from others."""
    if care.may_reserve[shapes.asks_gpu[profile]] or may_take(shapes, books, care, starts, queue, profile):
        return True
    if row < len(care.was_overtaken) and care.was_overtaken[row]:
        return True
    if care.gives_class[queue] != roll.lane_class[lane]:
        return bool(care.gives_class[queue] < roll.lane_class[lane])
    return bool(care.gives_priority[queue] < roll.lane_priority[lane])


@kernel
def leave_aside(lines: Lines, done: Started, queue: int, profile: int, row: int, why: int, bound: int) -> None:
    """The head waits: write down why, and offer others."""
    at = done.size[2]
    done.aside_row[at] = row
    done.aside_why[at] = why
    done.size[2] = at + 1
    set_aside(lines, queue, profile, bound)
