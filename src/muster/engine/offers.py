"""Who may give way, as kernels see it that ask whether a head could have room by that (kernels/hoping.py)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.engine import runs
from muster.engine.grounds import blank_cells
from muster.engine.horizon import Horizon
from muster.engine.kernels.filling import Offers
from muster.engine.kernels.hoping import FEW
from muster.engine.kernels.placing import Cells
from muster.engine.rooms import Books
from muster.engine.shapes import ShapeTable
from muster.model.jobs import Profile

LeavingSome = tuple[Cells, Cells, Cells]
"""Moves of several, up to which of them each has, and who of them leaves."""


def offers_of(horizon: Horizon, shapes: ShapeTable) -> Offers:
    """Those who may give way, of all queues that have few of them."""
    stays, books, queues = horizon.stays, horizon.now.books, len(horizon.stays.roll.queues)
    is_uncounted = stays.givers.many > FEW
    rows, queue = stays.giving()
    is_listed = ~is_uncounted[queue]
    rows, queue = rows[is_listed], queue[is_listed]
    profile = stays.column(runs.PROFILE, rows)
    is_odd = (shapes.is_whole[profile] > 0) | (stays.column(runs.SURPLUS, rows) > 0)
    is_uncounted[queue[is_odd]] = True
    is_listed = ~is_uncounted[queue]
    rows, queue, profile = rows[is_listed], queue[is_listed], profile[is_listed]
    order = np.argsort(queue, kind="stable")
    rows, profile = rows[order], profile[order]
    moves, lasts = stays.moves_of(rows, books.grounds, horizon.asks)
    return Offers(
        first=np.searchsorted(queue[order], np.arange(queues + 1)),
        is_uncounted=is_uncounted.view(np.uint8),
        is_there=stays.gives(rows).view(np.uint8),
        rows=rows,
        class_of=stays.column(runs.CLASS, rows),
        priority=stays.column(runs.PRIORITY, rows),
        profile=profile,
        last=lasts,
        moves=books.from_array(moves),
        left=_nothing_left(books),
    )


def has_room_without(horizon: Horizon, profile: Profile, cluster: str, leaving: Iterable[LeavingSome]) -> bool:
    """Whether by a plain count a head, for which there is no room, could have some without all of these."""
    now, books = horizon.now, horizon.now.books
    ground, cells, *_ = now.cells()
    left = _nothing_left(books)
    for moves, lasts, may in leaving:
        books.kernels.let_those_leave(ground, moves, lasts, may, left)
    groups, least = books.grounds.shape_of(profile).cells(listed=books.listed)
    number = books.grounds.cluster_number[cluster]
    return books.kernels.has_room_in(ground, cells, left, now.moment, groups, least, number)


def _nothing_left(books: Books) -> Cells:
    """Where it is noted what others leave on nodes."""
    grounds = books.grounds
    nodes = len(grounds.names)
    return blank_cells(1 + nodes + nodes * (1 + len(grounds.dims)), listed=books.listed)


def nothing_offered(queues: int) -> Offers:
    """Nobody gives way."""
    nobody, nothing, cells = np.zeros(0, np.uint8), np.zeros(0, np.int64), blank_cells(0, listed=False)
    return Offers(
        first=np.zeros(queues + 1, np.int64),
        is_uncounted=np.zeros(queues, np.uint8),
        rows=nothing,
        is_there=nobody,
        class_of=nothing,
        priority=nothing,
        profile=nothing,
        last=nothing,
        moves=cells,
        left=cells,
    )
