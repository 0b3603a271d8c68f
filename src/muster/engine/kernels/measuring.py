"""What a task would cost on a node, where the tightest fit is not what decides: one number, the smaller the better.

Fragmentation asks what idle devices are still good for. Of each kind of task that is typical, so much of the idle
devices of a node is *usable*: nothing if not even one such task fits; else the devices that are large enough for it,
once as they are and once only as far as the cores, the memory and all else beside them go. A kind weighs the more the
more of it there is and the less of the fleet it can still use. A task goes where the least is lost of that.

The gradient is FGD's (ATC'23), in whole numbers: what a random typical task could not use, before and after, in a
hundred steps. Best fit, dot product and packing are the plain rules it was compared with.
"""

from __future__ import annotations

from muster.engine.kernels.fitting import devices_for, lowest, take
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    AMOUNTS,
    ASK,
    ASKS,
    COLUMNS,
    CPU_DIM,
    DEVICE_MILLI,
    DEVICES,
    DIMS,
    FIRST,
    FREE,
    GPU_DIM,
    GPUS,
    MEASURE,
    MILLI,
    MOMENTS,
    NODES,
    SCRATCH,
    TASKS,
    WHOLE,
    Cells,
)
from muster.engine.kernels.sets import ask_of, copy

# A measure, in the books: the rule; the seed of chance and how many tasks there are, which it draws from; the most
# cores and milli that a node has; how many kinds are typical and how many parts they are together; where it is told
# which nodes are alike to them, which of those are open to which kind, and what was worked out already.
RULE, SEED, DRAW, MOST_CPU, MOST_MILLI, KINDS, PARTS, ALIKE, OPEN_TO, MEMO, MEMO_MASK, FIRST_KIND = range(12)
TIGHTEST, FRAGMENTATION, GRADIENT, BEST_FIT, DOT_PRODUCT, PACKING, RANDOM = range(7)
# A kind: what it asks for, as a group; how many of all parts it is; what a milli that it can use weighs.
KIND_GROUP, KIND_PART, KIND_WEIGHT, KIND = 0, 1, 2, 3
# A memo: the cost and the devices of a task, and what it was worked out from: group (from 1 on; -1: what the node is
# worth), likeness, free amounts, devices.
MEMO_COST, MEMO_CHOSEN, MEMO_GROUP, MEMO_ALIKE, MEMO_ROOM = 0, 1, 2, 3, 4

MOST_WEIGHT = 1 << 30
_EXACT = 1 << 46  # an amount above that has no parts
_BITS = (1 << 31) - 1

# Millionths of ln(i / (100 - i)) for i from 51 to 99: where a sigmoid passes so many hundredths.
_STEPS = (
    *(40005, 80043, 120144, 160343, 200671, 241162, 281851, 322773, 363965, 405465, 447312, 489548, 532217, 575364),
    *(619039, 663294, 708185, 753772, 800119, 847298, 895384, 944462, 994623, 1045969, 1098612, 1152680, 1208311),
    *(1265666, 1324925, 1386294, 1450010, 1516347, 1585627, 1658228, 1734601, 1815290, 1900959, 1992430, 2090741),
    *(2197225, 2313635, 2442347, 2586689, 2751535, 2944439, 3178054, 3476099, 3891820, 4595120),
)


@kernel
def measure(ground: Cells, books: Cells, trial: Cells, node: int, ask: int) -> tuple[int, int]:
    """What a task costs on a node on which it fits, and the devices it gets there, as bits."""
    rule, room = books[books[MEASURE] + RULE], trial[FIRST] + node * ground[COLUMNS]
    if rule <= GRADIENT:  # or fragmentation
        return known_cost(ground, books, trial, node, ask)
    if rule == RANDOM:
        return chance(books, node, -1), random_devices(ground, books, trial, node, ask)
    chosen = devices_for(ground, books, trial, node, ask) if ground[ask + GPUS] else 0
    if rule == PACKING:
        return unpacked(ground, books, room, ask, chosen), chosen
    cpu, milli = books[books[MEASURE] + MOST_CPU], books[books[MEASURE] + MOST_MILLI]
    has_cpu, has_milli = books[room + FREE + CPU_DIM], idle_milli(ground, books, room)
    takes_cpu, takes_milli = ground[ask + AMOUNTS + CPU_DIM], ground[ask + GPUS] * ground[ask + MILLI]
    if rule == BEST_FIT:
        parts = (has_cpu - takes_cpu) * milli + (has_milli - takes_milli) * cpu
        return -((2 * cpu * milli - parts) * 100 // (2 * cpu * milli)), chosen
    parts = (has_cpu * milli // cpu) * (takes_cpu * milli // cpu) + has_milli * takes_milli
    return -((2 * milli * milli - parts) * 100 // (2 * milli * milli)), chosen


@kernel
def idle_milli(ground: Cells, cells: Cells, room: int) -> int:
    """The milli that are free on all devices of a room together."""
    idle, first = 0, room + FREE + ground[DIMS]
    for device in range(first, first + ground[DEVICES]):
        idle += max(cells[device], 0)
    return idle


# -- chance ----------------------------------------------------------------------------------------------


@kernel
def chance(books: Cells, node: int, device: int) -> int:
    """A number as if by chance: of the seed, of how many tasks there are, and of whom it is for."""
    at = books[MEASURE]
    return mixed(mixed(mixed(mixed(0, books[at + SEED]), books[at + DRAW]), node + 1), device + 1)


@kernel
def mixed(bits: int, number: int) -> int:
    """31 bits of which each depends on all bits of both."""
    bits = (bits ^ (number % _BITS)) * 0x45D9F3B & _BITS
    bits = (bits ^ (bits >> 15)) * 0x45D9F3B & _BITS
    return bits ^ (bits >> 16)


@kernel
def random_devices(ground: Cells, books: Cells, trial: Cells, node: int, ask: int) -> int:
    """The devices a task gets by chance, as bits."""
    chosen, first = 0, node * ground[COLUMNS] + FREE + ground[DIMS]
    for _ in range(ground[ask + GPUS]):
        best, least = -1, 0
        for device in range(ground[DEVICES]):
            drawn = chance(books, node, device)
            if (chosen >> device) & 1 == 0 and lowest(books, trial, first + device) >= ground[ask + MILLI]:
                if best < 0 or drawn < least:
                    best, least = device, drawn
        if best >= 0:
            chosen |= 1 << best
    return chosen


@kernel
def count_tasks(ground: Cells, books: Cells, trial: Cells) -> None:
    """Whoever draws next draws anew: it is told by the tasks there are."""
    tasks = 0
    for node in range(ground[NODES]):
        tasks += books[trial[FIRST] + node * ground[COLUMNS] + TASKS]
    books[books[MEASURE] + DRAW] = tasks


# -- packing ---------------------------------------------------------------------------------------------


@kernel
def unpacked(ground: Cells, books: Cells, room: int, ask: int, chosen: int) -> int:
    """Devices in use first, the fullest of them; then idle ones of nodes in use; then idle nodes, small ones first."""
    if ground[ask + GPUS] == 0:
        return 0
    whole, devices, opened, left = 0, 0, 0, 0
    first = room + FREE + ground[DIMS]
    for device in range(ground[DEVICES]):
        free = books[first + device]
        devices += free >= 0
        whole += free == DEVICE_MILLI
        if (chosen >> device) & 1:
            opened += free == DEVICE_MILLI
            left += free // 10
    if whole == devices:
        return -max(33 - whole, whole)
    return -max(50 - opened, 33) if opened else -max(100 - left // 10, 50)


# -- what idle devices are good for ----------------------------------------------------------------------


@kernel
def known_cost(ground: Cells, books: Cells, trial: Cells, node: int, ask: int) -> tuple[int, int]:
    """What a task costs on a node, and on which devices: worked out once for all nodes that are alike."""
    if trial[MOMENTS] > 1:
        return cost(ground, books, trial, node, ask)
    group = (ask - ground[ASKS]) // ground[ASK] + 1
    memo = memo_of(ground, books, trial, node, group)
    if books[memo + MEMO_GROUP] != group:
        least, chosen = cost(ground, books, trial, node, ask)
        books[memo + MEMO_GROUP], books[memo + MEMO_COST], books[memo + MEMO_CHOSEN] = group, least, chosen
    return books[memo + MEMO_COST], books[memo + MEMO_CHOSEN]


@kernel
def memo_of(ground: Cells, books: Cells, trial: Cells, node: int, group: int) -> int:
    """Where something about the room of a node is remembered, for a group; if it is not yet, the memo has no group."""
    at, room = books[MEASURE], trial[FIRST] + node * ground[COLUMNS] + FREE
    alike, size = 2 * books[books[at + ALIKE] + node], ground[DIMS] + ground[DEVICES]
    if books[room - FREE + TASKS]:
        alike += 1
    place = mixed(mixed(0, group), alike)
    for column in range(size):
        place = (place * 1000003 ^ (books[room + column] & _BITS)) & _BITS
    memo = books[at + MEMO] + ((place ^ (place >> 13)) & books[at + MEMO_MASK]) * (MEMO_ROOM + size)
    if books[memo + MEMO_GROUP] == group and books[memo + MEMO_ALIKE] == alike:
        column = 0
        while column < size and books[memo + MEMO_ROOM + column] == books[room + column]:
            column += 1
        if column == size:
            return memo
    books[memo + MEMO_GROUP], books[memo + MEMO_ALIKE] = 0, alike
    copy(books, memo + MEMO_ROOM, books, room, size)
    return memo


@kernel
def worth_now(ground: Cells, books: Cells, trial: Cells, node: int) -> int:
    """What the idle devices of a node, whose room is in scratch as it is, are worth."""
    if trial[MOMENTS] > 1:
        return worth(ground, books, trial, node)
    memo = memo_of(ground, books, trial, node, -1)
    if books[memo + MEMO_GROUP] == 0:
        books[memo + MEMO_GROUP], books[memo + MEMO_COST] = -1, worth(ground, books, trial, node)
    return books[memo + MEMO_COST]


@kernel
def cost(ground: Cells, books: Cells, trial: Cells, node: int, ask: int) -> tuple[int, int]:
    """What a task costs on a node, and the devices where it costs least; of several, the fullest."""
    room, scratch, columns = trial[FIRST] + node * ground[COLUMNS], trial[SCRATCH], ground[COLUMNS]
    is_gradient = books[books[MEASURE] + RULE] == GRADIENT
    copy(trial, scratch, books, room, columns)
    before = worth_now(ground, books, trial, node)
    if ground[ask + GPUS] != 1 or ground[ask + MILLI] == DEVICE_MILLI or ground[ask + WHOLE]:
        chosen = devices_for(ground, books, trial, node, ask) if ground[ask + GPUS] else 0
        take(ground, trial, scratch, ask, chosen)
        lost = before - worth(ground, books, trial, node)
        return graded(books, lost) if is_gradient else lost, chosen
    best, least, fullest = -1, 0, 0
    first = node * columns + FREE + ground[DIMS]
    for device in range(ground[DEVICES]):
        free = books[trial[FIRST] + first + device]
        if lowest(books, trial, first + device) < ground[ask + MILLI]:
            continue
        if trial[MOMENTS] == 1 and is_like_another(books, trial[FIRST] + first, device):
            continue
        take(ground, trial, scratch, ask, 1 << device)
        lost = before - worth(ground, books, trial, node)
        copy(trial, scratch, books, room, columns)
        if is_gradient:
            lost, free = graded(books, lost), 0
        if best < 0 or lost < least or (lost == least and free < fullest):
            best, least, fullest = device, lost, free
    return least, 1 << best


@kernel
def is_like_another(books: Cells, devices: int, device: int) -> bool:
    """Whether as much is free of a device as of one before it."""
    for other in range(devices, devices + device):  # noqa: SIM110 -- kernels know no generators
        if books[other] == books[devices + device]:
            return True
    return False


@kernel
def worth(ground: Cells, books: Cells, trial: Cells, node: int) -> int:
    """What the idle devices of the room in scratch, which is the node's, are worth to all kinds that are typical."""
    at, value, milli, good, enough = books[MEASURE], 0, 0, 0, 0
    idle = idle_milli(ground, trial, trial[SCRATCH])
    if idle == 0:
        return 0
    is_gradient, kinds = books[at + RULE] == GRADIENT, books[at + KINDS]
    is_open = books[at + OPEN_TO] + books[books[at + ALIKE] + node] * kinds
    for kind in range(kinds):
        entry = at + FIRST_KIND + kind * KIND
        ask = ask_of(ground, books[entry + KIND_GROUP])
        if ground[ask + MILLI] != milli:  # kinds that ask for as much of a device stand together
            milli = ground[ask + MILLI]
            good, enough = large_enough(ground, trial, milli)
        can_use = 0
        if books[is_open + kind] and 0 < ground[ask + GPUS] <= enough:
            can_use = usable(ground, trial, ask, good)
        if is_gradient:
            value -= (idle - (good if can_use else 0)) * books[entry + KIND_PART]
        else:
            value += can_use * books[entry + KIND_WEIGHT]
    return value


@kernel
def large_enough(ground: Cells, trial: Cells, milli: int) -> tuple[int, int]:
    """The idle milli, of the room in scratch, of devices that have so much of each, and how many these are."""
    good, enough, first = 0, 0, trial[SCRATCH] + FREE + ground[DIMS]
    for device in range(first, first + ground[DEVICES]):
        if trial[device] >= milli:
            good += trial[device]
            enough += 1
    return good, enough


@kernel
def usable(ground: Cells, trial: Cells, ask: int, good: int) -> int:
    """What such tasks could use of the room in scratch: as far as the good devices go, and as far as all goes."""
    room, most, asked = trial[SCRATCH] + FREE, good, ground[ask + GPUS] * ground[ask + MILLI]
    if ground[ask + WHOLE] and trial[trial[SCRATCH] + TASKS]:
        return 0
    for dim in range(ground[DIMS]):
        amount, free = ground[ask + AMOUNTS + dim], trial[room + dim]
        if free < amount:
            return 0
        if amount == 0 or dim == GPU_DIM or (amount < _EXACT and free >= amount * most):
            continue
        reach = free // amount * asked
        if amount < _EXACT:
            reach += free % amount * asked // amount
        most = min(most, reach)
    return good + most


@kernel
def graded(books: Cells, lost: int) -> int:
    """What is lost, on a scale from -100 (much is won) to 0: FGD's hundredths of a sigmoid."""
    won, parts = -lost * 1000, max(books[books[MEASURE] + PARTS], 1)
    grade = 50 if won >= 0 else 49
    for passed in _STEPS:
        if won >= 0 and won >= passed * parts:
            grade += 1
        if won < 0 and won < -passed * parts:
            grade -= 1
    return -grade


@kernel
def weigh(ground: Cells, books: Cells, trial: Cells) -> None:
    """Let kinds weigh the more the less of the fleet they can use."""
    at, idle = books[MEASURE], 0
    for kind in range(books[at + KINDS]):
        books[at + FIRST_KIND + kind * KIND + KIND_WEIGHT] = 0
    for node in range(ground[NODES]):
        copy(trial, trial[SCRATCH], books, trial[FIRST] + node * ground[COLUMNS], ground[COLUMNS])
        here = idle_milli(ground, trial, trial[SCRATCH])
        idle += 2 * here
        is_open = books[at + OPEN_TO] + books[books[at + ALIKE] + node] * books[at + KINDS]
        for kind in range(books[at + KINDS] if here else 0):
            entry = at + FIRST_KIND + kind * KIND
            ask = ask_of(ground, books[entry + KIND_GROUP])
            good, enough = large_enough(ground, trial, ground[ask + MILLI])
            if books[is_open + kind] and 0 < ground[ask + GPUS] <= enough:
                books[entry + KIND_WEIGHT] += usable(ground, trial, ask, good)
    for kind in range(books[at + KINDS]):
        entry = at + FIRST_KIND + kind * KIND
        can_use = books[entry + KIND_WEIGHT]
        if can_use:
            books[entry + KIND_WEIGHT] = min(books[entry + KIND_PART] * idle // can_use, MOST_WEIGHT)
