"""Who may give way, and what firm promises leave, as kernels see it that ask whether a head could have room by taking
from others (kernels/hoping.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from muster.engine.blanks import NO_CEILINGS, nothing_offered
from muster.engine.books import Books
from muster.engine.columns import running_jobs as runs
from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import blank_cells
from muster.engine.columns.profiles import ShapeTable
from muster.engine.columns.table import NONE
from muster.engine.horizon import Horizon
from muster.engine.kernels.filling import Ceilings, Offers
from muster.engine.kernels.hoping import FEW, FIRM, promises_met
from muster.engine.kernels.placing import TASK, TASK_GROUP, TASK_NODE, Cells
from muster.engine.stays import Stays
from muster.model.jobs import NEVER_MS, Job

MANY = 16 * FEW  # in all queues together: to list them takes longer than a count saves


def offers_of(horizon: Horizon, shapes: ShapeTable) -> Offers:
    """Those who may give way, of all queues that have few of them; until when, promises tell (`until_of`)."""
    stays, books, queues = horizon.stays, horizon.now.books, len(horizon.stays.roll.queues)
    rows, queue = stays.giving()
    if len(rows) > MANY:
        return nothing_offered(queues)._replace(is_uncounted=np.ones(queues, np.uint8))
    is_uncounted = stays.givers.many > FEW
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
        rows=rows,
        gives=stays.who_gives().view(np.uint8),
        class_of=stays.column(runs.CLASS, rows),
        priority=stays.column(runs.PRIORITY, rows),
        profile=profile,
        until=np.zeros(len(rows), np.int64),
        last=lasts,
        moves=books.from_array(moves),
        left=_nothing_left(books),
    )


def ceilings_of(horizon: Horizon) -> Ceilings:
    """The most that firm promises, the first few of them, leave on their nodes."""
    return _beside_promises(horizon)[0]


def until_of(horizon: Horizon, rows: Ints) -> Ints:
    """Until when those in these rows are taken to be there when promises are due, if that is known; 0 of those who may
    be taken to leave for them."""
    return _until(horizon, rows, leavers_of(horizon))


def leavers_of(horizon: Horizon) -> Ints:
    """Those who may be taken to leave for promises, if any is firm: or nobody asks."""
    return _beside_promises(horizon)[1]


def _beside_promises(horizon: Horizon) -> tuple[Ceilings, Ints]:
    """Ceilings, and those who may be taken to leave; worked out once as things stand."""
    promised = [(it.job.id, it.reservation) for it in horizon.promised.values()]
    if horizon.spare is not None or horizon.withheld is not None or not any(it.is_firm for _, it in promised):
        return NO_CEILINGS, np.zeros(0, np.int64)  # or more may leave, or less be there, than who runs tells
    as_of = (horizon.stays.moves, promised)
    if horizon.ceilings is None or horizon.ceilings[0] != as_of:
        leavers = _may_leave(horizon)
        horizon.ceilings = (as_of, (_ceilings_under(horizon, leavers), leavers))
    return horizon.ceilings[1]


def _ceilings_under(horizon: Horizon, leavers: Ints) -> Ceilings:
    firm = sorted((it for it in horizon.promised.values() if it.reservation.is_firm), key=lambda it: it.order)[:FIRM]
    books, grounds, stays = horizon.now.books, horizon.now.books.grounds, horizon.stays
    nodes = sorted({grounds.number[task.node] for it in firm for task in it.reservation.tasks})
    at = np.full(len(grounds.names), NONE)
    at[nodes] = np.arange(len(nodes))
    starts = np.array([it.due_ms for it in firm], np.int64)
    most = np.repeat(books.free_on(horizon.now.moment, nodes)[np.newaxis], len(firm), axis=0)
    promised = frozenset(task.node for it in firm for task in it.reservation.tasks)
    rows = np.union1d(stays.stated_on(promised, int(starts[-1])), leavers)
    moves, lasts = stays.moves_of(rows, grounds, horizon.asks)
    owner = np.repeat(rows, np.diff(lasts, prepend=0))
    is_on = at[moves[:, TASK_NODE]] != NONE
    moves, until = moves[is_on], _until(horizon, owner[is_on], leavers)
    amounts, places = grounds.amounts(moves[:, TASK_GROUP]), at[moves[:, TASK_NODE]]
    for moment, it in enumerate(firm):
        is_gone = until <= it.due_ms
        np.add.at(most[moment], places[is_gone], amounts[is_gone])
        for other in firm:
            if other.is_under_way(it.due_ms):
                taken = np.array(books.moves(other.job.profile, other.reservation.tasks), np.int64).reshape(-1, TASK)
                np.subtract.at(most[moment], at[taken[:, TASK_NODE]], grounds.amounts(taken[:, TASK_GROUP]))
    at[moves[grounds.are_whole(moves[:, TASK_GROUP]), TASK_NODE]] = NONE  # they leave more than they asked for
    most = most.reshape(len(firm), -1)
    return Ceilings(starts=starts, at=at, most=most, left=np.zeros_like(most))


def _may_leave(horizon: Horizon) -> Ints:
    """The rows of those who may be taken to leave for promises: those who overtook one, and those on nodes of
    drains."""
    unsure = (it.reservation for it in horizon.promised.values() if not it.reservation.is_firm)
    guesses = frozenset(task.node for it in unsure for task in it.tasks)
    overtook = [row for row, jobs in horizon.stays.overtook().items() if not horizon.promised.keys().isdisjoint(jobs)]
    return np.union1d(np.array(overtook, np.int64), horizon.stays.all_on(guesses))


def _until(horizon: Horizon, rows: Ints, leavers: Ints) -> Ints:
    ends = horizon.stays.column(runs.END, rows)
    is_stated = (ends > horizon.now_ms) & (ends < NEVER_MS)
    until = np.where(is_stated, ends, NEVER_MS)
    if len(leavers):
        until[np.isin(rows, leavers)] = 0
    return until


class Leaving(NamedTuple):
    """Several who may go: their moves, up to which of them each has, until when they would stay, and who goes."""

    moves: Cells
    lasts: Cells
    until: Cells
    may: Cells


def are_many_or_odd(stays: Stays, rows: Ints, shapes: ShapeTable) -> bool:
    """Whether what these leave is not counted: they are many, or some leave more or less than all they asked for."""
    if len(rows) > FEW:
        return True
    is_whole, surplus = shapes.is_whole[stays.column(runs.PROFILE, rows)], stays.column(runs.SURPLUS, rows)
    return bool((is_whole > 0).any() or (surplus > 0).any())


def leaving_in(horizon: Horizon, rows: Ints) -> Leaving:
    """All of these rows go."""
    books = horizon.now.books
    moves, lasts = horizon.stays.moves_of(rows, books.grounds, horizon.asks)
    until, may = until_of(horizon, rows), np.ones(len(rows), np.int64)
    return Leaving(*(books.from_array(column) for column in (moves, lasts, until, may)))


def has_room_without(
    horizon: Horizon, job: Job, cluster: str, leaving: Iterable[Leaving], *, only_delays: bool
) -> bool:
    """Whether by a plain count a head could have room without all of these, beside firm promises.

    `only_delays`: there is room for it, which is promised to others. Whom promises yield to is not counted.
    """
    if horizon.is_yielded_to(job):
        return True
    now, books, ceilings = horizon.now, horizon.now.books, ceilings_of(horizon)
    ground, cells, _ = now.cells()
    left = _nothing_left(books)
    for some in leaving:
        books.kernels.let_those_leave(ground, some.moves, some.lasts, some.until, some.may, left, ceilings)
    groups, least = books.grounds.shape_of(job.profile).cells(listed=books.listed)
    number, bound_ms = books.grounds.cluster_number[cluster], horizon.policy.bound_ms(job)
    met = promises_met(ceilings.starts, horizon.now_ms, NONE if bound_ms is None else bound_ms)
    where = (now.moment, groups, least, number)
    has_room = books.kernels.has_room_in(ground, cells, left, ceilings, *where, met, only_delays)
    books.kernels.forget(ground, left, ceilings)
    return has_room


def _nothing_left(books: Books) -> Cells:
    """Where it is noted what others leave on nodes."""
    grounds = books.grounds
    nodes = len(grounds.names)
    return blank_cells(1 + nodes + nodes * (1 + len(grounds.dims)), listed=books.listed)
