"""Where tasks go: the tightest node that fits at every moment, found in an index that is kept up as rooms change.

Everything is numbers in five rows of cells; who works on them passes them on in this order:

    ground   the fleet: sizes, sets of nodes, what task groups ask for, domains
    books    the rooms of all nodes at several moments, and which nodes changed last
    index    the nodes of the first moment by tightness
    circles  how many tasks of close groups each node and domain takes
    trial    the moments one placement works on, its answer, and a log to undo it

Inside a row of cells things are told by the place where they begin: `books[room + TASKS]` are the tasks in a room.
Compiled kernels take arrays; plain ones are as happy with lists, which are faster where worlds are small.

Nodes stand in buckets of equal tightness. A bucket is a set of nodes, so that the first one in node order that a task
may use is found by looking at a few words. Five levels make a search cheap:

    shelf   how dear the nodes are: without GPUs, with GPUs; with 1, 2, ... devices whole; by milli of one device
    line    the free cores, in 4 steps per doubling (on the last shelf: the free milli, by 32)
    bucket  the free memory, in 1 step per doubling (on the last shelf: the free milli)
    word    62 nodes; words that are not empty have a bit in the set's summary
    node    the exact answer, at all moments

Numbers of buckets ascend with tightness: bucket = line * 32 + step of memory, lines ascend with shelf and step.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TypeAlias

from muster.engine.kernels.jit import kernel

Cells: TypeAlias = MutableSequence[int]

DEVICE_MILLI = 1000
WORD = 62  # bits, so that a word is never negative and half of it can be multiplied
MOST_DEVICES = 62  # devices of a task are the bits of one number
MEMORY_STEPS = 32  # one bit for each in the word of a line
MILLI_LINES = 32  # 0 to 1000 milli, 32 to a line
NO_LIMIT = 1 << 62  # of hops

# ground: sizes first. A set of nodes has WORDS words and a summary of PARTS words, SET in all; a room has COLUMNS
# cells; a shelf has STEPS lines; memory has so many LEVELS, 0 if nobody keeps them; domains of up to SMALL nodes are
# looked at node by node.
NODES, WORDS, PARTS, SET, DIMS, DEVICES, COLUMNS, STEPS, LEVELS, SMALL, ASK = range(11)
# Then where its parts begin. MEMBERS are the nodes of all domains, HOMES the domains of all nodes.
TRAITS, CLUSTERS, DOMAINS, MEMBERS, HOMES, SETS, ASKS, GROUND = 11, 12, 13, 14, 15, 16, 17, 18
# A trait of a node: whether it has GPUs, its place in order of path, who has that place, where its homes begin.
HAS_GPUS, RANK, BY_RANK, HOME, TRAIT = 0, 1, 2, 3, 4
# A cluster: its nodes as a set, its nodes in order of path, its domains of two hops and more.
PLACE, RANK_FROM, RANK_TO, DOMAIN_FROM, DOMAIN_TO, CLUSTER = 0, 1, 2, 3, 4, 5
# A domain: its members; its nodes as a set only if they are many.
DOMAIN_HOPS, WASTES, MEMBER_FROM, MEMBER_TO, DOMAIN_PLACE, DOMAIN = 0, 1, 2, 3, 4, 5
# What tasks of a group ask for. OPEN and ANY are sets: nodes that suit and take tasks, and all that suit. To be looked
# for from bucket START on, on each shelf from line OFFSET on, on each line from FLOOR on; the first shelf ends at line
# SHELF_END, the last at END. NEVER: something that no node has. Nodes must be on LEVEL of memory at least, and if it
# asks for a PART of a device, on the level of cores that is OFFSET + 1.
GPUS, MILLI, WHOLE, CLOSE, HOPS, NEVER, OPEN, ANY, START, FLOOR, OFFSET, SHELF_END, END, LEVEL, PART = range(15)
MIN, INITIAL, MAX, AMOUNTS = 15, 16, 17, 18
# Amounts that every fleet has, in front of all others.
CPU_DIM, MEMORY_DIM, GPU_DIM, PODS_DIM = 0, 1, 2, 3

# books: tallies, the ring of nodes that changed last, and one block for each moment: a cell that says whether its
# index is up to date, then its rooms. A moment is told by its first room. The first block are the empty rooms.
# The size of the ring is a power of two.
CHANGES, SCANNED, PLACEMENTS, RING_SIZE, EMPTIES, RING = 0, 1, 2, 3, 4, 5
# A room: tasks, all free amounts, milli of all devices (-1 where there is none), all debts.
TASKS, FREE = 0, 1

# index: rows are sets of nodes and how many they are; a bucket gets one with its first node. Row 0 are nodes without
# tasks. Lines have bits if they are not empty; each has the rows of its 32 buckets, and their bits. A node is where
# it is by cores and memory, and by whole devices: one more than its bucket, 0 if nowhere. In large fleets there are
# also the sets of nodes that are on a level of cores or memory or above it: they sort out most of those in a bucket
# that do not fit after all. Levels are steps, 4 per doubling, counted from 1.
GIVEN_OUT, CAME_BACK, ROW, BUCKETS, WHERE, CPU_LEVELS, MEMORY_LEVELS, ROWS, LINES = 0, 1, 2, 3, 4, 5, 6, 7, 8
OCCUPIED, LINE = 32, 33
BY_ROOM, BY_DEVICES, CPU_LEVEL, MEMORY_LEVEL, NODE = 0, 1, 2, 3, 4

# circles: each says how many tasks of a group (of so many) fit on nodes of a set at certain moments, as of a change.
# Its numbers are apart from what tells it: first its holders, which are the nodes that take all tasks, in order of
# path, those that would waste GPUs apart; then the sums of all domains, and the counts of all nodes.
CIRCLES, CIRCLE_SIZE, SUMS, COUNTS, FIRST_CIRCLE = 0, 1, 2, 3, 4
CIRCLE_GROUP, CIRCLE_COUNT, CIRCLE_MASK, CIRCLE_SIGN, CIRCLE_SEEN, HOLDERS, CIRCLE = 0, 1, 2, 3, 4, 5, 6

# trial: how many moments, a number that tells them from others, where scratch, the answer and the log begin, how many
# tasks are in the answer and how many entries in the log; then the moments. The answer is group (its place in the
# profile), node and devices of each task.
MOMENTS, SIGN, SCRATCH, ANSWER, LOG, PLACED, LENGTH, FIRST = 0, 1, 2, 3, 4, 5, 6, 7
TASK_GROUP, TASK_NODE, TASK_DEVICES, TASK = 0, 1, 2, 3
LOG_MOMENT, LOG_NODE, LOG_ROOM = 0, 1, 2


# --- numbers and sets ---------------------------------------------------------------------------------

_POSITIONS = bytes((0, 1, 28, 2, 29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4, 8, 31, 27, 13, 23, 21, 19, 16, 7))
_POSITIONS += bytes((26, 12, 18, 6, 11, 5, 10, 9))
_LENGTHS = bytes(number.bit_length() for number in range(256))


@kernel
def lowest_bit(word: int) -> int:
    """The position of the lowest bit that is set in a word, of which one is."""
    half = word & 0x7FFFFFFF
    if half:
        return 0 + _POSITIONS[(((half & -half) * 0x077CB531) >> 27) & 31]
    half = word >> 31
    return 31 + _POSITIONS[(((half & -half) * 0x077CB531) >> 27) & 31]


@kernel
def step(amount: int, steps: int) -> int:
    """Where an amount stands on a logarithmic scale with so many steps (1, 2 or 4) per doubling."""
    if amount < steps:
        return amount
    shift = bit_length(amount) - bit_length(steps)
    return shift * steps + (amount >> shift)


@kernel
def bit_length(amount: int) -> int:
    """How many bits a number has up to its highest that is set."""
    length = 0
    while amount > 255:
        amount >>= 8
        length += 8
    return length + _LENGTHS[amount]


@kernel
def includes(cells: Cells, nodes: int, node: int) -> bool:
    """Whether the node is in the set."""
    return (cells[nodes + node // WORD] >> (node % WORD)) & 1 != 0


@kernel
def include(cells: Cells, nodes: int, words: int, node: int) -> None:
    """Put the node into the set."""
    word = node // WORD
    if cells[nodes + word] == 0:
        cells[nodes + words + word // WORD] |= 1 << (word % WORD)
    cells[nodes + word] |= 1 << (node % WORD)


@kernel
def exclude(cells: Cells, nodes: int, words: int, node: int) -> None:
    """Take the node, which is in the set, out of it."""
    word = node // WORD
    cells[nodes + word] ^= 1 << (node % WORD)
    if cells[nodes + word] == 0:
        cells[nodes + words + word // WORD] ^= 1 << (word % WORD)


@kernel
def copy(cells: Cells, to: int, others: Cells, first: int, count: int) -> None:
    """Copy cells; a slice would do, but its machine code is large."""
    for each in range(count):
        cells[to + each] = others[first + each]


@kernel
def set_of(ground: Cells, number: int) -> int:
    """Where a set of nodes is."""
    return ground[SETS] + number * ground[SET]


@kernel
def ask_of(ground: Cells, group: int) -> int:
    """Where it is said what a group asks for."""
    return ground[ASKS] + group * ground[ASK]


@kernel
def place_of(ground: Cells, cluster: int) -> int:
    """Where the set of the nodes of a cluster is."""
    return set_of(ground, ground[ground[CLUSTERS] + cluster * CLUSTER + PLACE])


# --- one room -----------------------------------------------------------------------------------------


@kernel
def fits(ground: Cells, books: Cells, trial: Cells, node: int, ask: int) -> bool:
    """Whether one more task can be on the node at every moment, on the same devices."""
    dims = ground[DIMS]
    for at in range(trial[MOMENTS]):
        room = trial[FIRST + at] + node * ground[COLUMNS]
        if ground[ask + WHOLE] and books[room + TASKS]:
            return False
        for dim in range(dims):
            if books[room + FREE + dim] < ground[ask + AMOUNTS + dim]:
                return False
    return ground[ask + GPUS] == 0 or has_devices(ground, books, trial, node, ask)


@kernel
def has_devices(ground: Cells, books: Cells, trial: Cells, node: int, ask: int) -> bool:
    """Whether enough devices have the milli asked of each, at every moment."""
    enough, first = 0, node * ground[COLUMNS] + FREE + ground[DIMS]
    for device in range(ground[DEVICES]):
        if lowest(books, trial, first + device) >= ground[ask + MILLI]:
            enough += 1
    return enough >= ground[ask + GPUS]


@kernel
def lowest(books: Cells, trial: Cells, column: int) -> int:
    """The least that is in a column at any moment; columns are counted over all nodes."""
    least = books[trial[FIRST] + column]
    for at in range(1, trial[MOMENTS]):
        least = min(least, books[trial[FIRST + at] + column])
    return least


@kernel
def devices_for(ground: Cells, books: Cells, trial: Cells, node: int, ask: int) -> int:
    """The devices a task gets, as bits: those it fills most, lowest number first."""
    chosen, milli, first = 0, ground[ask + MILLI], node * ground[COLUMNS] + FREE + ground[DIMS]
    for _ in range(ground[ask + GPUS]):
        best, least = -1, DEVICE_MILLI + 1
        for device in range(ground[DEVICES]):
            if (chosen >> device) & 1 == 0:
                free = lowest(books, trial, first + device)
                if milli <= free < least:
                    best, least = device, free
        if best >= 0:
            chosen |= 1 << best
    return chosen


@kernel
def take(ground: Cells, books: Cells, room: int, ask: int, chosen: int) -> None:
    """A task is here from now on. What it takes although it is not free becomes debt."""
    dims, devices = ground[DIMS], room + FREE + ground[DIMS]
    books[room + TASKS] += 1
    if ground[ask + WHOLE]:
        for column in range(room + FREE, devices + ground[DEVICES]):
            books[column] = min(books[column], 0)
        return
    for dim in range(dims):
        left = books[room + FREE + dim] - ground[ask + AMOUNTS + dim]
        if left < 0:
            books[devices + ground[DEVICES] + dim] -= left
            left = 0
        books[room + FREE + dim] = left
    device = devices
    while chosen:
        if chosen & 1:
            books[device] = max(books[device] - ground[ask + MILLI], 0)
        device, chosen = device + 1, chosen >> 1


@kernel
def give(ground: Cells, books: Cells, room: int, ask: int, chosen: int, empty: int) -> None:
    """Such a task has left. What becomes free pays debts first; no device has more than in the empty room."""
    if ground[ask + WHOLE]:
        copy(books, room, books, empty, ground[COLUMNS])
        return
    dims, devices = ground[DIMS], room + FREE + ground[DIMS]
    books[room + TASKS] -= 1
    for dim in range(dims):
        freed, debt = books[room + FREE + dim] + ground[ask + AMOUNTS + dim], devices + ground[DEVICES] + dim
        paid = min(freed, books[debt])
        books[room + FREE + dim] = freed - paid
        books[debt] -= paid
    for device in range(ground[DEVICES]):
        free = books[devices + device]
        if (chosen >> device) & 1:
            free += ground[ask + MILLI]
        books[devices + device] = min(free, books[empty + FREE + dims + device])


@kernel
def how_many(ground: Cells, books: Cells, trial: Cells, node: int, ask: int, most: int) -> int:
    """How many such tasks the node takes at every moment, counted up to `most`."""
    if ground[ask + NEVER]:
        return 0
    count = min(most, 1) if ground[ask + WHOLE] else most
    for at in range(trial[MOMENTS]):
        room = trial[FIRST + at] + node * ground[COLUMNS]
        if ground[ask + WHOLE] and books[room + TASKS]:
            return 0
        for dim in range(ground[DIMS]):
            amount, free = ground[ask + AMOUNTS + dim], books[room + FREE + dim]
            if free < amount:
                return 0
            if free < amount * count:
                count = free // amount
    if ground[ask + GPUS] == 0 or count == 0:
        return count
    return how_often(ground, books, trial, node, ask, count)


@kernel
def how_often(ground: Cells, books: Cells, trial: Cells, node: int, ask: int, most: int) -> int:
    """How many tasks the devices of a node have room for, counted up to `most`."""
    gpus, milli, devices, scratch = ground[ask + GPUS], ground[ask + MILLI], ground[DEVICES], trial[SCRATCH]
    first, times = node * ground[COLUMNS] + FREE + ground[DIMS], 0
    for device in range(devices):
        free = lowest(books, trial, first + device)
        trial[scratch + device] = free
        if free >= milli:
            times += free // milli
    if gpus == 1 or 2 * milli > DEVICE_MILLI:  # no device can be used twice at once
        return min(times // gpus, most)
    count = 0
    while count < most and take_devices(trial, scratch, devices, gpus, milli):
        count += 1
    return count


@kernel
def take_devices(cells: Cells, free: int, devices: int, gpus: int, milli: int) -> bool:
    """Take from the devices that are filled most by it; False, with some taken, if they are too few."""
    taken = 0
    for _ in range(gpus):
        best, least = -1, DEVICE_MILLI + 1
        for device in range(devices):
            if milli <= cells[free + device] < least and (taken >> device) & 1 == 0:
                best, least = device, cells[free + device]
        if best < 0:
            return False
        cells[free + best] -= milli
        taken |= 1 << best
    return True


# --- the index ----------------------------------------------------------------------------------------


@kernel
def enter(index: Cells, words: int, bucket: int, node: int) -> None:
    """The node is in the bucket from now on; it may have been there."""
    line = index[BUCKETS] + (bucket >> 5) * LINE
    row = index[line + (bucket & 31)]
    if row == 0:
        row = new_row(index)
        index[line + (bucket & 31)] = row
        if index[line + OCCUPIED] == 0:
            index[LINES + (bucket >> 5) // WORD] |= 1 << ((bucket >> 5) % WORD)
        index[line + OCCUPIED] |= 1 << (bucket & 31)
    elif includes(index, row, node):
        return
    include(index, row, words, node)
    index[row + index[ROW] - 1] += 1


@kernel
def leave(index: Cells, words: int, bucket: int, node: int) -> None:
    """The node is no longer in the bucket; it may not have been there."""
    line = index[BUCKETS] + (bucket >> 5) * LINE
    row = index[line + (bucket & 31)]
    if row == 0 or not includes(index, row, node):
        return
    exclude(index, row, words, node)
    size = row + index[ROW] - 1
    index[size] -= 1
    if index[size] == 0:
        index[size], index[CAME_BACK] = index[CAME_BACK], row
        index[line + (bucket & 31)] = 0
        index[line + OCCUPIED] ^= 1 << (bucket & 31)
        if index[line + OCCUPIED] == 0:
            index[LINES + (bucket >> 5) // WORD] ^= 1 << ((bucket >> 5) % WORD)


@kernel
def new_row(index: Cells) -> int:
    """An empty row: one that came back (each of them knows the one before it), else one that was never used."""
    row = index[CAME_BACK]
    if row:
        size = row + index[ROW] - 1
        index[CAME_BACK] = index[size]
        index[size] = 0
        return row
    index[GIVEN_OUT] += 1
    return index[ROWS] + index[GIVEN_OUT] * index[ROW]


@kernel
def build(ground: Cells, books: Cells, index: Cells, trial: Cells) -> None:
    """Index the rooms of the first moment; there are no nodes in the index."""
    for column in range(ground[COLUMNS]):
        trial[trial[SCRATCH] + column] = 0
    if ground[LEVELS]:
        build_levels(ground, books, index, trial)
    for node in range(ground[NODES]):
        include(index, index[ROWS], ground[WORDS], node)
        settle(ground, books, index, trial, node, trial[SCRATCH])
    books[trial[FIRST] - 1] = 1


@kernel
def settle(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int, before: int) -> None:
    """Put the node where it belongs now; `before` is where the trial has its room as the index knows it."""
    words, lines = ground[WORDS], ground[STEPS]
    room, where = trial[FIRST] + node * ground[COLUMNS], index[WHERE] + node * NODE
    takes_more = books[room + FREE + PODS_DIM] > 0
    line = min(step(books[room + FREE + CPU_DIM], 4), lines - 1)
    memory = min(step(books[room + FREE + MEMORY_DIM] >> 20, 1), MEMORY_STEPS - 1)
    dear = line + lines * ground[ground[TRAITS] + node * TRAIT + HAS_GPUS]
    move(index, words, node, where + BY_ROOM, (dear << 5) + memory + 1 if takes_more else 0)
    if ground[DEVICES]:
        whole = settle_devices(ground, books, index, trial, node, before)
        dear = line + lines * (1 + whole)
        move(index, words, node, where + BY_DEVICES, (dear << 5) + memory + 1 if takes_more and whole else 0)
    if ground[LEVELS]:
        level = level_of(books[room + FREE + MEMORY_DIM] >> 20, ground[LEVELS])
        climb(index, words, ground[SET], index[MEMORY_LEVELS], where + MEMORY_LEVEL, node, level)
        climb(index, words, ground[SET], index[CPU_LEVELS], where + CPU_LEVEL, node, line + 1)
    if includes(index, index[ROWS], node) != (books[room + TASKS] == 0):
        if books[room + TASKS] == 0:
            include(index, index[ROWS], words, node)
        else:
            exclude(index, index[ROWS], words, node)


@kernel
def level_of(amount: int, levels: int) -> int:
    """The level on which so much memory is, from 1 up."""
    return min(step(amount, 4) + 1, levels)


@kernel
def climb(index: Cells, words: int, size: int, levels: int, where: int, node: int, level: int) -> None:
    """The node goes up or down to a level: it is in the sets of all levels up to its own."""
    while index[where] > level:
        index[where] -= 1
        exclude(index, levels + index[where] * size, words, node)
    while index[where] < level:
        include(index, levels + index[where] * size, words, node)
        index[where] += 1


@kernel
def build_levels(ground: Cells, books: Cells, index: Cells, trial: Cells) -> None:
    """Put all nodes on their levels at once."""
    words, size = ground[WORDS], ground[SET]
    for node in range(ground[NODES]):
        room, where = trial[FIRST] + node * ground[COLUMNS] + FREE, index[WHERE] + node * NODE
        index[where + CPU_LEVEL] = min(step(books[room + CPU_DIM], 4), ground[STEPS] - 1) + 1
        index[where + MEMORY_LEVEL] = level_of(books[room + MEMORY_DIM] >> 20, ground[LEVELS])
        include(index, index[CPU_LEVELS] + (index[where + CPU_LEVEL] - 1) * size, words, node)
        include(index, index[MEMORY_LEVELS] + (index[where + MEMORY_LEVEL] - 1) * size, words, node)
    for cell in range(index[CPU_LEVELS] + (ground[STEPS] - 1) * size - 1, index[CPU_LEVELS] - 1, -1):
        index[cell] |= index[cell + size]
    for cell in range(index[MEMORY_LEVELS] + (ground[LEVELS] - 1) * size - 1, index[MEMORY_LEVELS] - 1, -1):
        index[cell] |= index[cell + size]


@kernel
def move(index: Cells, words: int, node: int, where: int, place: int) -> None:
    """The node goes from the bucket where it was to another; a place is one more than a bucket, 0 is none."""
    before = index[where]
    if before != place:
        if before:
            leave(index, words, before - 1, node)
        if place:
            enter(index, words, place - 1, node)
        index[where] = place


@kernel
def settle_devices(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int, before: int) -> int:
    """Put the node where its devices belong now; returns how many are whole."""
    words, devices = ground[WORDS], ground[DEVICES]
    bucket, whole, entered = ((devices + 2) * ground[STEPS]) << 5, 0, 0
    first = trial[FIRST] + node * ground[COLUMNS] + FREE + ground[DIMS]
    for device in range(devices):
        free, was = books[first + device], trial[before + FREE + ground[DIMS] + device]
        if free == DEVICE_MILLI:
            whole += 1
        if free != was:
            if free > 0 and free != entered:
                enter(index, words, bucket + free, node)
                entered = free
            if was > 0 and not has_device_with(books, first, devices, was):
                leave(index, words, bucket + was, node)
    return whole


@kernel
def has_device_with(books: Cells, first: int, devices: int, free: int) -> bool:
    """Whether exactly so much is free of some device."""
    for device in range(first, first + devices):  # noqa: SIM110 -- kernels know no generators
        if books[device] == free:
            return True
    return False


@kernel
def next_line(index: Cells, line: int, end: int) -> int:
    """The first line from `line` on that is not empty; `end` if there is none before it."""
    while line < end:
        word = index[LINES + line // WORD] >> (line % WORD)
        if word:
            return min(line + lowest_bit(word), end)
        line = (line // WORD + 1) * WORD
    return end


@kernel
def next_fit(
    ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, mask: int, place: int, bucket: int, node: int
) -> tuple[int, int]:
    """The tightest node in both sets that fits, not before `node` of `bucket`, after its bucket; else (0, -1)."""
    floor, end, shelf_end = ground[ask + FLOOR], ground[ask + END], ground[ask + SHELF_END]
    line, low = bucket >> 5, bucket & 31
    while line >= shelf_end:
        shelf_end += ground[STEPS]
    while shelf_end <= end:
        next_one = next_line(index, line, shelf_end)
        if next_one == shelf_end:
            line, low = shelf_end + ground[ask + OFFSET], floor
            shelf_end += ground[STEPS]
            continue
        if next_one != line:
            line, low = next_one, floor
        rows = index[BUCKETS] + line * LINE
        word = (index[rows + OCCUPIED] >> low) << low
        while word:
            at = lowest_bit(word)
            start = node if (line << 5) + at == bucket else 0
            found = first_fit(ground, books, index, trial, ask, mask, place, index[rows + at], at == floor, start)
            if found >= 0:
                return (line << 5) + at, found
            word &= word - 1
        line, low = line + 1, floor
    return 0, -1


@kernel
def first_fit(
    ground: Cells,
    books: Cells,
    index: Cells,
    trial: Cells,
    ask: int,
    mask: int,
    place: int,
    row: int,
    is_close_call: bool,
    node: int,
) -> int:
    """The first node of the row, from `node` on, that is in both sets and fits; -1 if there is none.

    A close call: many nodes of the row may not have enough memory.
    """
    words, first = ground[WORDS], node // WORD
    idle, by_cpu, by_memory = row, row, row
    if ground[ask + WHOLE]:
        idle = index[ROWS]
    if ground[LEVELS] and (is_close_call or ground[ask + PART]):
        by_memory = index[MEMORY_LEVELS] + (ground[ask + LEVEL] - 1) * ground[SET]
        if ground[ask + PART]:
            by_cpu = index[CPU_LEVELS] + ground[ask + OFFSET] * ground[SET]
    for part in range(first // WORD, ground[PARTS]):
        at = words + part
        summary = index[row + at] & ground[mask + at] & ground[place + at] & index[by_cpu + at] & index[by_memory + at]
        if part == first // WORD:
            summary = (summary >> (first % WORD)) << (first % WORD)
        while summary:
            at = part * WORD + lowest_bit(summary)
            word = index[row + at] & ground[mask + at] & ground[place + at] & index[by_cpu + at] & index[by_memory + at]
            word &= index[idle + at]
            if at == first:
                word = (word >> (node % WORD)) << (node % WORD)
            while word:
                found = at * WORD + lowest_bit(word)
                books[SCANNED] += 1
                if fits(ground, books, trial, found, ask):
                    return found
                word &= word - 1
            summary &= summary - 1
    return -1


# --- changes, and undoing them ------------------------------------------------------------------------


@kernel
def note(ground: Cells, books: Cells, trial: Cells, node: int) -> None:
    """Write down the rooms of a node before they change."""
    columns = ground[COLUMNS]
    for at in range(trial[MOMENTS]):
        entry, room = trial[LOG] + trial[LENGTH] * (columns + LOG_ROOM), trial[FIRST + at] + node * columns
        trial[entry + LOG_MOMENT] = trial[FIRST + at]
        trial[entry + LOG_NODE] = node
        copy(trial, entry + LOG_ROOM, books, room, columns)
        trial[LENGTH] += 1


@kernel
def changed(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int) -> None:
    """The rooms of a node, which were noted just before, have changed: bring up to date what follows from them."""
    if books[trial[FIRST] - 1]:
        entry = (trial[LENGTH] - trial[MOMENTS]) * (ground[COLUMNS] + LOG_ROOM)
        settle(ground, books, index, trial, node, trial[LOG] + entry + LOG_ROOM)
    for at in range(1, trial[MOMENTS]):
        books[trial[FIRST + at] - 1] = 0
    remember(books, node)


@kernel
def remember(books: Cells, node: int) -> None:
    """Count the change."""
    books[RING + (books[CHANGES] & (books[RING_SIZE] - 1))] = node
    books[CHANGES] += 1


@kernel
def undo(ground: Cells, books: Cells, index: Cells, trial: Cells, mark: int) -> None:
    """Restore everything as it was when the log had `mark` entries."""
    columns, before = ground[COLUMNS], trial[SCRATCH]
    while trial[LENGTH] > mark:
        trial[LENGTH] -= 1
        entry = trial[LOG] + trial[LENGTH] * (columns + LOG_ROOM)
        moment, node = trial[entry + LOG_MOMENT], trial[entry + LOG_NODE]
        room, entry = moment + node * columns, entry + LOG_ROOM
        if moment == trial[FIRST] and books[moment - 1]:
            copy(trial, before, books, room, columns)
            copy(books, room, trial, entry, columns)
            settle(ground, books, index, trial, node, before)
        else:
            copy(books, room, trial, entry, columns)
            books[moment - 1] = 0
        remember(books, node)


@kernel
def put(ground: Cells, books: Cells, index: Cells, trial: Cells, moves: Cells, is_trial: bool) -> None:
    """Tasks (group, node, devices, one after the other) are on their nodes at every moment, fitting or not."""
    for each in range(0, len(moves), TASK):
        ask, node = ask_of(ground, moves[each + TASK_GROUP]), moves[each + TASK_NODE]
        note(ground, books, trial, node)
        for at in range(trial[MOMENTS]):
            take(ground, books, trial[FIRST + at] + node * ground[COLUMNS], ask, moves[each + TASK_DEVICES])
        changed(ground, books, index, trial, node)
        if not is_trial:
            trial[LENGTH] = 0


@kernel
def remove(ground: Cells, books: Cells, index: Cells, trial: Cells, moves: Cells, is_trial: bool) -> None:
    """Tasks (group, node, devices, one after the other) are gone from their nodes at every moment."""
    for each in range(0, len(moves), TASK):
        ask, node = ask_of(ground, moves[each + TASK_GROUP]), moves[each + TASK_NODE]
        note(ground, books, trial, node)
        for at in range(trial[MOMENTS]):
            room, empty = trial[FIRST + at] + node * ground[COLUMNS], books[EMPTIES] + node * ground[COLUMNS]
            give(ground, books, room, ask, moves[each + TASK_DEVICES], empty)
        changed(ground, books, index, trial, node)
        if not is_trial:
            trial[LENGTH] = 0


@kernel
def take_one(ground: Cells, books: Cells, index: Cells, trial: Cells, group: int, node: int) -> int:
    """One more task is on the node at every moment from now on; returns the devices it gets."""
    trial[PLACED] = 0
    fill_node(ground, books, index, trial, ask_of(ground, group), node, 1)
    return trial[trial[ANSWER] + TASK_DEVICES]


@kernel
def holds(ground: Cells, books: Cells, trial: Cells, group: int, node: int, chosen: int) -> bool:
    """Whether one more task fits on the node on these very devices."""
    ask = ask_of(ground, group)
    if ground[ask + NEVER] or not fits(ground, books, trial, node, ask):
        return False
    first = node * ground[COLUMNS] + FREE + ground[DIMS]
    for device in range(ground[DEVICES]):
        if (chosen >> device) & 1 and lowest(books, trial, first + device) < ground[ask + MILLI]:
            return False
    return True


@kernel
def holds_all(ground: Cells, books: Cells, index: Cells, trial: Cells, moves: Cells) -> bool:
    """Whether tasks (group, node, devices, one after the other) fit on their nodes together; nothing is taken."""
    mark, all_fit = trial[LENGTH], True
    for each in range(0, len(moves), TASK):
        group, node, chosen = moves[each + TASK_GROUP], moves[each + TASK_NODE], moves[each + TASK_DEVICES]
        all_fit = holds(ground, books, trial, group, node, chosen)
        if not all_fit:
            break
        put(ground, books, index, trial, moves[each : each + TASK], True)
    undo(ground, books, index, trial, mark)
    return all_fit


# --- groups and gangs ---------------------------------------------------------------------------------


@kernel
def fill_node(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, node: int, count: int) -> int:
    """Tasks on a node on which one fits, until it is full or `count` are there; returns how many."""
    note(ground, books, trial, node)
    placed = 0
    while placed < count and (placed == 0 or fits(ground, books, trial, node, ask)):
        chosen = devices_for(ground, books, trial, node, ask) if ground[ask + GPUS] else 0
        for at in range(trial[MOMENTS]):
            take(ground, books, trial[FIRST + at] + node * ground[COLUMNS], ask, chosen)
        task = trial[ANSWER] + trial[PLACED] * TASK
        trial[task + TASK_NODE] = node
        trial[task + TASK_DEVICES] = chosen
        trial[PLACED] += 1
        placed += 1
    changed(ground, books, index, trial, node)
    return placed


@kernel
def fill(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, mask: int, place: int, count: int) -> int:
    """Up to `count` tasks on nodes in both sets, tightest first. A node stays the tightest until it is full."""
    left, bucket, node = count, ground[ask + START], -1
    while left > 0:
        bucket, node = next_fit(ground, books, index, trial, ask, mask, place, bucket, node + 1)
        if node < 0:
            break
        left -= fill_node(ground, books, index, trial, ask, node, left)
    return count - left


@kernel
def place_group(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    group: int,
    cluster: int,
    column: int,
    count: int,
) -> int:
    """As many tasks of the group as fit, up to `count`."""
    ask, place = ask_of(ground, group), place_of(ground, cluster)
    mask = set_of(ground, ground[ask + column])
    if count <= 0 or ground[ask + NEVER]:
        return 0
    if ground[ask + CLOSE]:
        few, place = closest(ground, books, index, circles, trial, group, cluster, column, count)
        if few >= 0:
            return fill_few(ground, books, index, trial, ask, few, count)
    return fill(ground, books, index, trial, ask, mask, place, count)


@kernel
def place_gang(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    groups: Cells,
    widths: Cells,
    cluster: int,
    column: int,
) -> int:
    """Every group at its width; returns how many tasks that are. -1, with nothing taken, if one does not fit."""
    mark = trial[LENGTH]
    trial[PLACED] = 0
    for position in range(len(groups)):
        width = widths[position]
        placed = place_group(ground, books, index, circles, trial, groups[position], cluster, column, width)
        if placed < width:
            undo(ground, books, index, trial, mark)
            return -1
        for task in range(trial[PLACED] - placed, trial[PLACED]):
            trial[trial[ANSWER] + task * TASK + TASK_GROUP] = position
    books[PLACEMENTS] += trial[PLACED]
    return trial[PLACED]


@kernel
def place(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    groups: Cells,
    least: Cells,
    widths: Cells,
    best: Cells,
    cluster: int,
    column: int,
) -> int:
    """The widest placement from `least` up to `widths`; `best` gets the widths that were reached.

    Returns how many tasks that are; -1, with nothing taken, if not even the least fits. `column` of what groups ask
    says which nodes count: those that take tasks (OPEN), or all (ANY). The log must have room for `widths` once, at
    each moment; who will not undo may set its length to 0.
    """
    copy(best, 0, widths, 0, len(groups))
    total = place_gang(ground, books, index, circles, trial, groups, best, cluster, column)
    if total >= 0 or not is_wider(widths, least):
        return total
    mark = trial[LENGTH]
    copy(best, 0, least, 0, len(groups))
    if place_gang(ground, books, index, circles, trial, groups, best, cluster, column) < 0:
        return -1
    for position in range(len(groups)):
        low, high = least[position], widths[position]
        while low < high:
            undo(ground, books, index, trial, mark)
            best[position] = (low + high + 1) // 2
            if place_gang(ground, books, index, circles, trial, groups, best, cluster, column) < 0:
                high = best[position] - 1
            else:
                low = best[position]
        best[position] = low
    undo(ground, books, index, trial, mark)
    return place_gang(ground, books, index, circles, trial, groups, best, cluster, column)


@kernel
def is_wider(widths: Cells, least: Cells) -> bool:
    """Whether any width is not the least."""
    for position in range(len(widths)):  # noqa: SIM110 -- kernels know no generators
        if widths[position] != least[position]:
            return True
    return False


# --- closeness ----------------------------------------------------------------------------------------


@kernel
def closest(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    group: int,
    cluster: int,
    column: int,
    count: int,
) -> tuple[int, int]:
    """Where tasks are as close together as can be: the smallest hop count, then the tightest set of nodes.

    Either how many nodes those are, if they are few: they are in scratch then; or -1, and where their set is.
    """
    ask, of_cluster = ask_of(ground, group), ground[CLUSTERS] + cluster * CLUSTER
    circle = circle_for(ground, books, circles, trial, group, ground[ask + column], count)
    holder, domain = first_holder(ground, circles, circle, of_cluster), -1
    if holder < 0:
        domain = tightest_domain(ground, circles, circle, of_cluster, ask, count)
        if domain < 0 and ground[ask + HOPS] == NO_LIMIT:
            return -1, place_of(ground, cluster)
        if domain < 0:  # not all are close enough anywhere: most of them, then
            holder, domain = widest(ground, circles, circle, of_cluster, ask)
    if domain < 0:
        trial[trial[SCRATCH] + ground[COLUMNS]] = holder
        return min(1, holder + 1), 0
    at = ground[DOMAINS] + domain * DOMAIN
    if ground[at + MEMBER_TO] - ground[at + MEMBER_FROM] > ground[SMALL]:
        return -1, set_of(ground, ground[at + DOMAIN_PLACE])
    return few_of(ground, books, index, trial, ask, set_of(ground, ground[ask + column]), at), 0


@kernel
def few_of(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, mask: int, domain: int) -> int:
    """Write the nodes of the domain that are in the set and fit, with their tightness, to scratch; how many."""
    keys, few = trial[SCRATCH] + ground[COLUMNS], 0
    for member in range(ground[domain + MEMBER_FROM], ground[domain + MEMBER_TO]):
        node = ground[ground[MEMBERS] + member]
        if includes(ground, mask, node) and fits(ground, books, trial, node, ask):
            trial[keys + few] = tightness(ground, books, index, trial, node, ask) * ground[NODES] + node
            few += 1
    return few


@kernel
def fill_few(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, few: int, count: int) -> int:
    """Up to `count` tasks on the few nodes in scratch, tightest first."""
    left, keys = count, trial[SCRATCH] + ground[COLUMNS]
    while left > 0 and few > 0:
        best = keys
        for other in range(keys + 1, keys + few):
            if trial[other] < trial[best]:
                best = other
        node = trial[best] % ground[NODES]
        few -= 1
        trial[best] = trial[keys + few]
        left -= fill_node(ground, books, index, trial, ask, node, left)
    return count - left


@kernel
def first_holder(ground: Cells, circles: Cells, circle: int, cluster: int) -> int:
    """The first node in order of path that takes all tasks, one without GPUs before others; -1 if there is none."""
    first, last = ground[cluster + RANK_FROM], ground[cluster + RANK_TO]
    for side in range(2):
        holders = circles[circle + HOLDERS] + side * ground[WORDS]
        for at in range(first // WORD, (last + WORD - 1) // WORD):
            word = circles[holders + at]
            if at == first // WORD:
                word = (word >> (first % WORD)) << (first % WORD)
            if word:
                rank = at * WORD + lowest_bit(word)
                if rank < last:
                    return ground[ground[TRAITS] + rank * TRAIT + BY_RANK]
                break
    return -1


@kernel
def tightest_domain(ground: Cells, circles: Cells, circle: int, cluster: int, ask: int, count: int) -> int:
    """Of the domains of fewest hops that take all tasks: not to waste GPUs, then the tightest; -1 if there is none."""
    sums = circles[circle + HOLDERS] + circles[SUMS]
    best, best_hops, best_wastes, best_holds = -1, ground[ask + HOPS], 0, 0
    for domain in range(ground[cluster + DOMAIN_FROM], ground[cluster + DOMAIN_TO]):
        holds = circles[sums + domain]
        if holds < count:
            continue
        at = ground[DOMAINS] + domain * DOMAIN
        if ground[at + DOMAIN_HOPS] > best_hops:
            break
        wastes = 0 if ground[ask + GPUS] else ground[at + WASTES]
        if best < 0 or wastes < best_wastes or (wastes == best_wastes and holds < best_holds):
            best, best_hops, best_wastes, best_holds = domain, ground[at + DOMAIN_HOPS], wastes, holds
    return best


@kernel
def widest(ground: Cells, circles: Cells, circle: int, cluster: int, ask: int) -> tuple[int, int]:
    """The first node, and the first domain that takes more than any before it, in which most tasks are close enough."""
    sums, counts = circles[circle + HOLDERS] + circles[SUMS], circles[circle + HOLDERS] + circles[COUNTS]
    most, node, chosen = 0, -1, -1
    for rank in range(ground[cluster + RANK_FROM], ground[cluster + RANK_TO]):
        one = ground[ground[TRAITS] + rank * TRAIT + BY_RANK]
        if circles[counts + one] > most:
            most, node = circles[counts + one], one
    for domain in range(ground[cluster + DOMAIN_FROM], ground[cluster + DOMAIN_TO]):
        if ground[ground[DOMAINS] + domain * DOMAIN + DOMAIN_HOPS] > ground[ask + HOPS]:
            break
        if circles[sums + domain] > most:
            most, chosen = circles[sums + domain], domain
    return node, chosen


@kernel
def tightness(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int, ask: int) -> int:
    """Of nodes on which a task fits, the smaller is the tighter."""
    if ground[ask + GPUS] == 0:
        return index[index[WHERE] + node * NODE + BY_ROOM]
    if ground[ask + MILLI] >= DEVICE_MILLI:
        return index[index[WHERE] + node * NODE + BY_DEVICES]
    least, first = DEVICE_MILLI, trial[FIRST] + node * ground[COLUMNS] + FREE + ground[DIMS]
    for device in range(first, first + ground[DEVICES]):
        if books[device] >= ground[ask + MILLI]:
            least = min(least, books[device])
    return least


@kernel
def circle_for(ground: Cells, books: Cells, circles: Cells, trial: Cells, group: int, mask: int, count: int) -> int:
    """Where the circle of the group for so many tasks is, up to date."""
    oldest = circle = circles[FIRST_CIRCLE]
    for _ in range(circles[CIRCLES]):
        if circles[circle + CIRCLE_GROUP] == 0:
            oldest = circle
            break
        is_same_group = circles[circle + CIRCLE_GROUP] == group + 1 and circles[circle + CIRCLE_MASK] == mask
        if is_same_group and circles[circle + CIRCLE_COUNT] == count and circles[circle + CIRCLE_SIGN] == trial[SIGN]:
            if books[CHANGES] - circles[circle + CIRCLE_SEEN] > books[RING_SIZE]:
                oldest = circle
                break
            catch_up(ground, books, circles, trial, circle)
            return circle
        if circles[circle + CIRCLE_SEEN] < circles[oldest + CIRCLE_SEEN]:
            oldest = circle
        circle += CIRCLE
    circles[oldest + CIRCLE_GROUP] = group + 1
    circles[oldest + CIRCLE_COUNT] = count
    circles[oldest + CIRCLE_MASK] = mask
    circles[oldest + CIRCLE_SIGN] = trial[SIGN]
    draw(ground, books, circles, trial, oldest)
    return oldest


@kernel
def catch_up(ground: Cells, books: Cells, circles: Cells, trial: Cells, circle: int) -> None:
    """Count again on the nodes that changed since the last time."""
    for change in range(circles[circle + CIRCLE_SEEN], books[CHANGES]):
        recount(ground, books, circles, trial, circle, books[RING + (change & (books[RING_SIZE] - 1))])
    circles[circle + CIRCLE_SEEN] = books[CHANGES]


@kernel
def draw(ground: Cells, books: Cells, circles: Cells, trial: Cells, circle: int) -> None:
    """Count on all nodes anew."""
    for cell in range(circles[circle + HOLDERS], circles[circle + HOLDERS] + circles[CIRCLE_SIZE]):
        circles[cell] = 0
    for node in range(ground[NODES]):
        recount(ground, books, circles, trial, circle, node)
    circles[circle + CIRCLE_SEEN] = books[CHANGES]


@kernel
def recount(ground: Cells, books: Cells, circles: Cells, trial: Cells, circle: int, node: int) -> None:
    """The room on the node may have changed: count how many tasks it takes again."""
    if not includes(ground, set_of(ground, circles[circle + CIRCLE_MASK]), node):
        return
    ask, most = ask_of(ground, circles[circle + CIRCLE_GROUP] - 1), circles[circle + CIRCLE_COUNT]
    holders = circles[circle + HOLDERS]
    cell = holders + circles[COUNTS] + node
    before, now = circles[cell], how_many(ground, books, trial, node, ask, most)
    if now == before:
        return
    circles[cell] = now
    trait = ground[TRAITS] + node * TRAIT
    for home in range(ground[trait + HOME], ground[trait + TRAIT + HOME]):
        circles[holders + circles[SUMS] + ground[ground[HOMES] + home]] += now - before
    if now >= most or before >= most:
        rank, wastes = ground[trait + RANK], ground[trait + HAS_GPUS] != 0 and ground[ask + GPUS] == 0
        circles[holders + (ground[WORDS] if wastes else 0) + rank // WORD] ^= 1 << (rank % WORD)


# --- what is short ------------------------------------------------------------------------------------


@kernel
def count_lacking(
    ground: Cells, books: Cells, trial: Cells, group: int, cluster: int, column: int, lacking: Cells
) -> int:
    """On how many nodes one more task lacks each dimension, then a node for itself, then nothing.

    Returns how many nodes there are that it may use.
    """
    ask, matching = ask_of(ground, group), 0
    mask, place = set_of(ground, ground[ask + column]), place_of(ground, cluster)
    for at in range(ground[WORDS]):
        word = ground[mask + at] & ground[place + at]
        while word:
            matching += 1
            add_lacking(ground, books, trial, at * WORD + lowest_bit(word), ask, lacking)
            word &= word - 1
    return matching


@kernel
def add_lacking(ground: Cells, books: Cells, trial: Cells, node: int, ask: int, lacking: Cells) -> None:
    """Count what one more task lacks on the node."""
    dims, room = ground[DIMS], node * ground[COLUMNS]
    if ground[ask + WHOLE]:
        for at in range(trial[MOMENTS]):
            if books[trial[FIRST + at] + room + TASKS]:
                lacking[dims] += 1
                return
    lacks_nothing, lacks_gpus = True, False
    for dim in range(dims):
        if lowest(books, trial, room + FREE + dim) < ground[ask + AMOUNTS + dim]:
            lacking[dim] += 1
            lacks_nothing, lacks_gpus = False, lacks_gpus or dim == GPU_DIM
    if ground[ask + GPUS] and not lacks_gpus and not has_devices(ground, books, trial, node, ask):
        lacking[GPU_DIM] += 1
        lacks_nothing = False
    if lacks_nothing:
        lacking[dims + 1] += 1


# --- headcounts ---------------------------------------------------------------------------------------


@kernel
def count_heads(
    ground: Cells,
    books: Cells,
    trial: Cells,
    groups: Cells,
    least: Cells,
    cluster: int,
    column: int,
    totals: Cells,
    counts: Cells,
    seen: int,
) -> int:
    """How many tasks of each group the nodes take, in all and by group and node; returns as of which change.

    Counts were right as of the change `seen`; -1 if they are still zeros.
    """
    nodes, changes, size = ground[NODES], books[CHANGES], books[RING_SIZE]
    from_scratch = seen < 0 or changes - seen > size
    for position in range(len(groups)):
        ask = ask_of(ground, groups[position])
        mask, place = set_of(ground, ground[ask + column]), place_of(ground, cluster)
        for each in range(nodes if from_scratch else changes - seen):
            node = each if from_scratch else books[RING + ((seen + each) & (size - 1))]
            if includes(ground, mask, node) and includes(ground, place, node):
                count = how_many(ground, books, trial, node, ask, least[position])
                totals[position] += count - counts[position * nodes + node]
                counts[position * nodes + node] = count
    return changes
