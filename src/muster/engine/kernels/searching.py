"""The tightest node that fits, found in the index: line by line, bucket by bucket, word by word."""

from __future__ import annotations

from muster.engine.kernels.fitting import fits
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    BUCKETS,
    CPU_LEVELS,
    END,
    FLOOR,
    LEVEL,
    LEVELS,
    LINE,
    LINES,
    MEMORY_LEVELS,
    OCCUPIED,
    OFFSET,
    PART,
    PARTS,
    ROWS,
    SCANNED,
    SET,
    SHELF_END,
    STEPS,
    WHOLE,
    WORD,
    WORDS,
    Cells,
)
from muster.engine.kernels.sets import lowest_bit


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
def next_line(index: Cells, line: int, end: int) -> int:
    """The first line from `line` on that is not empty; `end` if there is none before it."""
    while line < end:
        word = index[LINES + line // WORD] >> (line % WORD)
        if word:
            return min(line + lowest_bit(word), end)
        line = (line // WORD + 1) * WORD
    return end


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
