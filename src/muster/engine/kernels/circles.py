"""Circles: how many tasks of a close group each node and each domain takes, counted again only where rooms changed."""

from __future__ import annotations

from muster.engine.kernels.fitting import how_many
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    CHANGES,
    CIRCLE,
    CIRCLE_COUNT,
    CIRCLE_GROUP,
    CIRCLE_MASK,
    CIRCLE_SEEN,
    CIRCLE_SIGN,
    CIRCLE_SIZE,
    CIRCLES,
    COUNTS,
    FIRST_CIRCLE,
    GPUS,
    HAS_GPUS,
    HOLDERS,
    HOME,
    HOMES,
    NODES,
    RANK,
    RING,
    RING_SIZE,
    SIGN,
    SUMS,
    TRAIT,
    TRAITS,
    WORD,
    WORDS,
    Cells,
)
from muster.engine.kernels.sets import ask_of, includes, set_of


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
