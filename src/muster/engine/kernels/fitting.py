"""One node: what fits on it at every moment of a trial, on which devices, and what tasks take from it and give back."""

from __future__ import annotations

from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    AMOUNTS,
    COLUMNS,
    CORES,
    CPU_DIM,
    DEVICE_MILLI,
    DEVICES,
    DIMS,
    FIRST,
    FREE,
    GPUS,
    MILLI,
    MOMENTS,
    NEVER,
    SCRATCH,
    TASKS,
    WHOLE,
    Cells,
)
from muster.engine.kernels.sets import ask_of, copy


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
        if books[CORES] and not leaves_cores(ground, books, room, ask):
            return False
    return ground[ask + GPUS] == 0 or has_devices(ground, books, trial, node, ask)


@kernel
def leaves_cores(ground: Cells, books: Cells, room: int, ask: int) -> bool:
    """Whether one more task leaves the cores that idle devices need; those with devices of their own need not."""
    kept = kept_cores(ground, books, room, ask)
    if kept and ground[ask + WHOLE]:
        return False
    return books[room + FREE + CPU_DIM] - ground[ask + AMOUNTS + CPU_DIM] >= kept


@kernel
def kept_cores(ground: Cells, books: Cells, room: int, ask: int) -> int:
    """Millicores that such a task must leave free: so many for each device, or part of one, that is idle."""
    if ground[ask + GPUS] or ground[ask + AMOUNTS + CPU_DIM] == 0:
        return 0
    idle, first = 0, room + FREE + ground[DIMS]
    for device in range(first, first + ground[DEVICES]):
        idle += max(books[device], 0)
    return idle * books[CORES] // DEVICE_MILLI


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
            if dim == CPU_DIM and books[CORES]:
                kept = kept_cores(ground, books, room, ask)
                if free - kept < amount or (kept and ground[ask + WHOLE]):
                    return 0
                free -= kept
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
