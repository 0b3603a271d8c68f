"""The loop of filling: the hungriest queue's head starts where there is room, or is set aside."""

from __future__ import annotations

from muster.engine.kernels.care import fixed_flow_with, has_quota, may_be_limited, may_overtake, needs_care
from muster.engine.kernels.changes import put_one, undo
from muster.engine.kernels.filling import (
    ALWAYS,
    CAREFUL,
    CLOSED,
    DONE,
    FULL_OUTPUT,
    LIMITED,
    NEVER_FITS,
    NO_ROOM,
    NONE,
    OVER_SHARE,
    STANDS,
    TIED,
    WOULD_DELAY,
    Books,
    Care,
    Field,
    Limits,
    Lines,
    Roll,
    Rules,
    Shapes,
    Started,
)
from muster.engine.kernels.fitting import holds
from muster.engine.kernels.gangs import place_gang
from muster.engine.kernels.hunger import look_up_head, order_queues, reorder_first
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.offering import bound_of, come_late, set_aside
from muster.engine.kernels.placing import (
    ANSWER,
    CORES,
    FIRST,
    HAS_GPUS,
    LENGTH,
    MOMENTS,
    OPEN,
    PLACED,
    SIGN,
    TASK,
    TASK_DEVICES,
    TASK_NODE,
    TRAIT,
    TRAITS,
)


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
        queue = lines.queues[0]
        if lines.stale[queue]:
            pass_over_full(roll, lines, limits, shapes, books, rules, care, field, done, queue)
            reorder_first(roll, lines, limits, shapes, books, rules)
            continue
        lines.passed_usage[queue] = 0
        row, lane = int(lines.head[queue]), lines.heap[lines.begin[queue]]
        profile = int(roll.lane_profile[lane])
        if lines.first_head[queue] == NONE:
            lines.first_head[queue] = row
        if is_full_up(done, field, profile):
            return FULL_OUTPUT, queue
        if shapes.never_fits[profile] == 1:
            leave_aside(lines, done, queue, profile, row, NEVER_FITS, 0)
            continue
        is_limited = may_be_limited(roll, shapes, books, rules, int(done.size[3]), queue, profile, row, lane)
        flow = fixed_flow_with(shapes, books, queue, profile)
        is_over = flow > books.fixed_limit[queue] and roll.lifetime[row] == NONE
        gives_way = rules.gpu_first and lines.gpus[0] and shapes.asks_gpu[profile] == 0 and lines.late[lane] == 0
        if gives_way and (is_limited or is_over or shapes.is_rigid[profile] == 0):
            if is_only_beside_gpus(roll, shapes, rules, field, int(done.size[3]), profile, row):
                come_late(roll, lines, shapes, rules, queue, lane)
                continue
        if is_limited:
            return LIMITED, queue
        if is_over:
            if shapes.usage[profile] > books.fixed_limit[queue] or not close_for_all(lines, limits, queue):
                return LIMITED, queue
            done.aside_flow[done.size[2]] = flow
            note_aside(done, row, OVER_SHARE)
            continue
        bound = 0
        if shapes.is_full[profile] == 0:
            if shapes.is_rigid[profile] == 0:
                return CAREFUL, queue
            moments = moments_met(roll, rules, field, row)
            is_known = is_known_to_delay(shapes, field, int(done.size[3]), profile, moments)
            cluster = NONE if is_known else find_cluster(shapes, field, profile, moments)
            if cluster != NONE:
                if gives_way and takes_gpu_node(field, profile):
                    undo(field.ground, field.books, field.by_tightness, field.trial, 0)
                    come_late(roll, lines, shapes, rules, queue, lane)
                    continue
                if rules.lifetime_bounds and may_overtake(roll, field, row) and overtakes(field, profile, moments):
                    undo(field.ground, field.books, field.by_tightness, field.trial, 0)
                    return CAREFUL, queue
                write_down(roll, shapes, books, rules, field, done, queue, profile, row, cluster)
                lines.out[row] = 1
                if lines.first[lane] == row:
                    lines.first[lane] = roll.next[row]
                lines.stale[queue] = 1
                lines.stands[queue] = STANDS
                continue
            is_as_it_was = is_known and shapes.delays_at[profile] == done.size[3]
            if is_as_it_was or (len(field.starts) > 0 and is_room_regardless(shapes, field, profile)):
                shapes.delays_at[profile] = done.size[3]
                if not is_known:
                    shapes.delays[profile] = moments
                bound = 1 if moments == 0 else field.starts[moments - 1] - rules.now + 1
            else:
                shapes.is_full[profile] = 1
        if needs_care(roll, shapes, books, rules, care, field, int(done.size[3]), queue, profile, row, lane, bound > 0):
            return CAREFUL, queue
        leave_aside(lines, done, queue, profile, row, WOULD_DELAY if bound > 0 else NO_ROOM, bound)
        if not rules.backfills:
            return DONE, NONE


@kernel
def pass_over_full(
    roll: Roll,
    lines: Lines,
    limits: Limits,
    shapes: Shapes,
    books: Books,
    rules: Rules,
    care: Care,
    field: Field,
    done: Started,
    queue: int,
) -> None:
    """Set aside the queue's next heads as long as there is no room for them, whoever else may come before.

    Only where nothing that others do could change what becomes of them. Whom the queue offers then has no turn before
    they would have had theirs.
    """
    if care.may_make_room or rules.starts_per_turn != ALWAYS or not rules.backfills:
        return
    while look_up_head(roll, lines, limits, shapes, books, rules, queue) and lines.tie[0] == NONE:
        row, lane = int(lines.head[queue]), lines.heap[lines.begin[queue]]
        profile = int(roll.lane_profile[lane])
        flow = fixed_flow_with(shapes, books, queue, profile)
        is_over_share = flow > books.fixed_limit[queue] and roll.lifetime[row] == NONE
        if shapes.is_full[profile] == 0 or shapes.never_fits[profile] == 1 or is_over_share:
            return
        if done.size[2] >= len(done.aside_row) or lines.first_head[queue] == NONE:
            return
        if has_quota(roll, books, row):
            return
        if may_be_limited(roll, shapes, books, rules, int(done.size[3]), queue, profile, row, lane) or needs_care(
            roll, shapes, books, rules, care, field, int(done.size[3]), queue, profile, row, lane, False
        ):
            return
        if lines.passed_class[queue] != roll.lane_class[lane]:
            lines.passed_class[queue] = roll.lane_class[lane]
            lines.passed_usage[queue] = 0
        lines.passed_usage[queue] = max(lines.passed_usage[queue], shapes.usage[profile])
        leave_aside(lines, done, queue, profile, row, NO_ROOM, 0)


@kernel
def is_full_up(done: Started, field: Field, profile: int) -> bool:
    """Whether there is no more space to write down what becomes of such a job."""
    tasks = 0
    for place in range(field.first_group[profile], field.first_group[profile + 1]):
        tasks += field.widths[place]
    is_out_of_rows = done.size[0] >= len(done.row) or done.size[2] >= len(done.aside_row)
    return bool(is_out_of_rows or done.size[1] + tasks > len(done.tasks))


@kernel
def is_known_to_delay(shapes: Shapes, field: Field, starts: int, profile: int, moments: int) -> bool:
    """Whether the profile was found to have no room at so many promised moments.

    With every start there is less room, so that what found none will find none. Only of one group without devices is
    that certain, where no cores are kept for idle ones: others may be placed otherwise in less room.
    """
    if shapes.delays_at[profile] == NONE or shapes.delays[profile] > moments:
        return False
    is_plain = field.first_group[profile + 1] - field.first_group[profile] == 1 and shapes.asks_gpu[profile] == 0
    return bool((is_plain and not field.books[CORES]) or shapes.delays_at[profile] == starts)


@kernel
def moments_met(roll: Roll, rules: Rules, field: Field, row: int) -> int:
    """How many promised moments come before the job's end, if it starts now."""
    bound, met = bound_of(roll, rules, row), 0
    while met < len(field.starts) and (bound == NONE or field.starts[met] < rules.now + bound):
        met += 1
    return met


@kernel
def find_cluster(shapes: Shapes, field: Field, profile: int, moments: int) -> int:
    """Place a job at its min in the most preferred of its clusters that has room now and at so many moments."""
    trial = field.trial
    trial[MOMENTS] = 1 + moments
    trial[SIGN] = field.signs[moments]
    trial[LENGTH] = 0
    begin, end = field.first_group[profile], field.first_group[profile + 1]
    groups, widths = field.groups[begin:end], field.widths[begin:end]
    if len(field.idle) > 0:
        put_idlest_first(shapes, field, profile)
    for place in range(field.first_cluster[profile], field.first_cluster[profile + 1]):
        cluster = field.clusters[place]
        if is_kept_back(shapes, field, profile, cluster):
            continue
        trial[PLACED] = 0
        placed = place_gang(
            field.ground, field.books, field.by_tightness, field.circles, trial, groups, widths, cluster, OPEN
        )
        if placed >= 0:
            return cluster
    return NONE


@kernel
def put_idlest_first(shapes: Shapes, field: Field, profile: int) -> None:
    """Order the pools that lend to a profile as they are now; it stays nearly the same from job to job."""
    first, clusters = field.first_cluster[profile], field.clusters
    for last in range(first + 1, field.first_cluster[profile + 1]):
        place = last
        while place > first and lends_before(shapes, field, profile, place, place - 1):
            swap = clusters[place]
            clusters[place] = clusters[place - 1]
            clusters[place - 1] = swap
            place -= 1


@kernel
def lends_before(shapes: Shapes, field: Field, profile: int, one: int, other: int) -> bool:
    """Whether the pool in one place is asked before the one in another; who is preferred less never is."""
    mine, theirs = field.clusters[one], field.clusters[other]
    if field.preference[one] != field.preference[other]:
        return False
    if shapes.asks_gpu[profile] == 0 and field.has_gpus[mine] != field.has_gpus[theirs]:
        return bool(field.has_gpus[mine] < field.has_gpus[theirs])
    idle, their_idle = idle_for(shapes, field, profile, mine), idle_for(shapes, field, profile, theirs)
    if idle != their_idle:
        return bool(idle > their_idle)
    if field.tasks[mine] != field.tasks[theirs]:
        return bool(field.tasks[mine] < field.tasks[theirs])
    return bool(mine < theirs)


@kernel
def idle_for(shapes: Shapes, field: Field, profile: int, cluster: int) -> int:
    """How much usage is idle there of what the profile asks for."""
    width, idle = shapes.least.shape[1], 0
    for resource in range(width):
        if shapes.least[profile, resource] > 0:
            idle += field.idle[cluster * width + resource]
    return idle


@kernel
def is_kept_back(shapes: Shapes, field: Field, profile: int, cluster: int) -> bool:
    """Whether the pool keeps too much of what the profile asks for to lend it."""
    if len(field.spare) == 0:
        return False
    width = shapes.least.shape[1]
    for resource in range(width):
        if shapes.least[profile, resource] > field.spare[field.pools[cluster] * width + resource]:
            return True
    return False


@kernel
def is_only_beside_gpus(
    roll: Roll, shapes: Shapes, rules: Rules, field: Field, starts: int, profile: int, row: int
) -> bool:
    """Whether a job finds room now, but not without nodes that have GPUs."""
    moments = moments_met(roll, rules, field, row)
    if shapes.is_full[profile] or is_known_to_delay(shapes, field, starts, profile, moments):
        return False
    if find_cluster(shapes, field, profile, moments) == NONE:
        return False
    takes = takes_gpu_node(field, profile)
    undo(field.ground, field.books, field.by_tightness, field.trial, 0)
    return takes


@kernel
def takes_gpu_node(field: Field, profile: int) -> bool:
    """Whether the job that was just placed is on any node with GPUs."""
    ground, trial, tasks = field.ground, field.trial, 0
    for place in range(field.first_group[profile], field.first_group[profile + 1]):
        tasks += field.widths[place]
    for task in range(tasks):
        node = trial[trial[ANSWER] + task * TASK + TASK_NODE]
        if ground[ground[TRAITS] + node * TRAIT + HAS_GPUS] != 0:
            return True
    return False


@kernel
def is_room_regardless(shapes: Shapes, field: Field, profile: int) -> bool:
    """Whether there would be room if nobody had a promise."""
    if find_cluster(shapes, field, profile, 0) == NONE:
        return False
    undo(field.ground, field.books, field.by_tightness, field.trial, 0)
    return True


@kernel
def write_down(
    roll: Roll,
    shapes: Shapes,
    books: Books,
    rules: Rules,
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
    cell = trial[ANSWER]
    for place in range(field.first_group[profile], field.first_group[profile + 1]):
        for _ in range(field.widths[place]):
            for part in range(TASK):
                done.tasks[task, part] = trial[cell + part]
            cell += TASK
            task += 1
    if len(field.idle) > 0:
        width = shapes.least.shape[1]
        for resource in range(width):
            field.idle[cluster * width + resource] -= shapes.weighed[profile, resource]
            field.spare[field.pools[cluster] * width + resource] -= shapes.least[profile, resource]
        field.tasks[cluster] += task - done.size[1]
    done.size[0] = at + 1
    done.size[1] = task
    done.size[3] += 1
    write_start(roll, shapes, books, rules, queue, profile, row)
    trial[LENGTH] = 0


@kernel
def write_start(roll: Roll, shapes: Shapes, books: Books, rules: Rules, queue: int, profile: int, row: int) -> None:
    """The job is admitted and starts at its min: what its queue and user hold from now on."""
    usage = shapes.usage[profile]
    books.usage[queue] += usage
    books.flow[queue] = max(books.flow[queue], books.usage[queue])
    books.started_usage[queue] += usage
    if roll.lifetime[row] == NONE:
        books.fixed_usage[queue] += usage
        books.fixed_flow[queue] = max(books.fixed_flow[queue], books.fixed_usage[queue])
    books.starts[queue] += 1
    books.last_start[queue] = rules.now
    user = roll.user[row]
    for resource in range(shapes.least.shape[1]):
        amount = shapes.least[profile, resource]
        books.started[queue, resource] += amount
        books.held[queue, resource] += amount
        books.user_held[user, resource] += amount


@kernel
def overtakes(field: Field, profile: int, moments: int) -> bool:
    """Whether the job, just placed now and at so many moments, would be in the way at a later promised moment. It is
    put there on trial."""
    trial, first = field.trial, int(field.trial[FIRST])
    in_the_way = False
    trial[MOMENTS] = 1
    for later in range(1 + moments, 1 + len(field.starts)):
        trial[FIRST] = trial[FIRST + later]
        field.books[trial[FIRST] - 1] = 0
        in_the_way = in_the_way or not fits_as_placed(field, profile)
    trial[FIRST] = first
    trial[MOMENTS] = 1 + moments
    return in_the_way


@kernel
def fits_as_placed(field: Field, profile: int) -> bool:
    """Whether the job just placed fits where it is at the first moment of the trial; it is put there on trial."""
    trial, cell = field.trial, int(field.trial[ANSWER])
    for place in range(field.first_group[profile], field.first_group[profile + 1]):
        group = field.groups[place]
        for _ in range(field.widths[place]):
            node, devices = trial[cell + TASK_NODE], trial[cell + TASK_DEVICES]
            if not holds(field.ground, field.books, trial, group, node, devices):
                return False
            put_one(field.ground, field.books, field.by_tightness, trial, group, node, devices)
            cell += TASK
    return True


@kernel
def close_for_all(lines: Lines, limits: Limits, queue: int) -> bool:
    """The queue offers nobody any more; False if there is no place to write that down."""
    place = limits.many[queue]
    if place == limits.user.shape[1]:
        return False
    limits.user[queue, place] = NONE
    limits.resource[queue, place] = NONE
    limits.profile[queue, place] = NONE
    limits.lifetime[queue, place] = NONE
    limits.many[queue] = place + 1
    lines.stale[queue] = 1
    lines.stands[queue] = max(lines.stands[queue], CLOSED)
    return True


@kernel
def leave_aside(lines: Lines, done: Started, queue: int, profile: int, row: int, why: int, bound: int) -> None:
    """The head waits: write down why, and offer others."""
    note_aside(done, row, why)
    lines.stands[queue] = max(lines.stands[queue], CLOSED if why == NEVER_FITS else STANDS)
    set_aside(lines, queue, profile, bound)


@kernel
def note_aside(done: Started, row: int, why: int) -> None:
    """Write down why a head waits."""
    at = done.size[2]
    done.aside_row[at] = row
    done.aside_why[at] = why
    done.size[2] = at + 1
