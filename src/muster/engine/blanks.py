"""What the kernels of filling are given at first: the rules, what profiles ask for, lines nobody stands in, and room
for what a round does. What each column means: muster.engine.kernels.filling."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from muster.engine.columns.arrays import Ints
from muster.engine.columns.fleet_index import blank_cells
from muster.engine.columns.known import asks_planner
from muster.engine.columns.profiles import ShapeTable
from muster.engine.kernels import filling, placing
from muster.engine.kernels.filling import ALWAYS, NONE, Care, Ceilings, Limits, Offers, Rules
from muster.engine.present import Flags
from muster.model.policy import Policy

_NONE, _NOTHING = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
NO_CEILINGS = Ceilings(starts=_NONE, at=_NONE, most=_NOTHING, left=_NOTHING)
"""Nothing is promised for good."""


def rules_of(policy: Policy, now_ms: int) -> Rules:
    """What filling needs of a policy."""
    order = policy.order
    return Rules(
        asks_planner=asks_planner(policy),
        now=now_ms,
        profiles_deep=policy.profiles_deep,
        lifetime_bounds=policy.lifetime_bounds,
        backfills=policy.backfill,
        starts_per_turn=ALWAYS if policy.starts_per_turn is None else policy.starts_per_turn,
        starts_per_queue=ALWAYS if policy.starts_per_queue is None else policy.starts_per_queue,
        is_scored=not order.is_by_arrival,
        by_expected=order.expected,
        by_size=order.size,
        by_waited=order.waited,
        by_sojourn=order.sojourn,
        by_attained=order.attained,
        patience_ms=order.patience_ms,
        floor_ms=order.floor_ms,
        unknown_ms=policy.unknown_end_ms,
        mark=policy.order_mark_ms(now_ms),
        gpu_first=policy.gpu_first,
    )


def shapes_of(shapes: ShapeTable, ours: Flags | None = None) -> filling.Shapes:
    """What filling needs of profiles."""
    return filling.Shapes(
        usage=shapes.usage,
        least=shapes.least,
        weighed=shapes.weighed,
        asks_gpu=shapes.asks_gpu,
        is_rigid=shapes.is_rigid,
        never_fits=shapes.never_fits,
        is_ours=np.ones(len(shapes.usage), np.uint8) if ours is None else ours.astype(np.uint8),
        is_full=np.zeros(len(shapes.usage), np.int64),
        scarce=np.empty(len(shapes.usage), np.int64),
        scarce_at=nones(len(shapes.usage)),
        delays=np.empty(len(shapes.usage), np.int64),
        delays_at=nones(len(shapes.usage)),
    )


def blank_lines(queues: int, profiles: int, lanes: int, rows: int) -> filling.Lines:
    """Lines in which nobody stands. What is empty here is written before it is read: by `Lines.reopen`, or by the
    kernels that line up and order."""
    return filling.Lines(
        heap=np.empty(lanes, np.int64),
        begin=np.empty(queues, np.int64),
        many=np.empty(queues, np.int64),
        cursor=nones(lanes),
        first=nones(lanes),
        order=np.empty((lanes, 5), np.int64),
        late=np.zeros(lanes, np.int64),
        gpus=np.zeros(1, np.uint8),
        out=np.zeros(rows, np.uint8),
        is_asked=np.zeros(queues, np.uint8),
        aside=np.empty((queues, profiles), np.int64),
        aside_count=np.empty(queues, np.int64),
        is_deep=np.empty(queues, np.uint8),
        head=nones(queues),
        stale=np.empty(queues, np.uint8),
        first_head=nones(queues),
        tie=nones(1),
        queues=np.empty(queues, np.int64),
        offering=np.zeros(1, np.int64),
        due=np.empty(queues, np.int64),
        usage_with=np.empty(queues, np.int64),
        passed_class=np.empty(queues, np.int64),
        passed_usage=np.empty(queues, np.int64),
        stands=np.zeros(queues, np.uint8),
    )


def nones(size: int) -> Ints:
    """So many places in which nothing is."""
    places = np.empty(size, np.int64)
    places.fill(NONE)
    return places


@lru_cache(maxsize=8)
def care_of_nobody(queues: int, resources: int) -> Care:
    """Nobody takes from anyone. Kernels only read it."""
    nothing, always = np.zeros(queues, np.int64), np.full(queues, ALWAYS, np.int64)
    return Care(
        may_reserve=np.zeros(2, np.int64),
        is_below=nothing,
        gives=nothing,
        entitled=np.zeros((queues, resources), np.int64),
        gives_class=always,
        gives_priority=always,
        lowest_class=ALWAYS,
        was_overtaken=np.zeros(1, np.uint8),
        offers=nothing_offered(queues),
        ceilings=NO_CEILINGS,
        may_make_room=False,
        asks_planner=False,
    )


def nothing_done(room: int) -> filling.Started:
    """Room for what a round does."""
    return filling.Started(
        size=np.zeros(4, np.int64),
        row=np.empty(room, np.int64),
        cluster=np.empty(room, np.int64),
        above_nominal=np.empty(room, np.uint8),
        first_task=np.empty(room, np.int64),
        tasks=np.empty((8 * room, placing.TASK), np.int64),
        aside_row=np.empty(room, np.int64),
        aside_why=np.empty(room, np.int64),
        aside_flow=np.empty(room, np.int64),
    )


def with_more_room(done: filling.Started) -> filling.Started:
    """The same output with room for more."""
    wider = nothing_done(max(2 * len(done.aside_row), len(done.tasks)))
    for name in done._fields:
        old = getattr(done, name)
        getattr(wider, name)[: len(old)] = old
    return wider


def no_limits(queues: int, room: int) -> Limits:
    """No limit was hit; there is room for so many of each queue."""
    return Limits(np.zeros(queues, np.int64), *(np.empty((queues, room), np.int64) for _ in range(4)))


def with_room(limits: Limits) -> Limits:
    """The same limits with room for more."""
    queues, room = limits.user.shape
    wider = no_limits(queues, 2 * room)
    wider.many[:] = limits.many
    for column, old in zip(wider[1:], limits[1:], strict=True):
        column[:, :room] = old
    return wider


def nothing_offered(queues: int) -> Offers:
    """Nobody gives way."""
    nobody, nothing, cells = np.zeros(0, np.uint8), np.zeros(0, np.int64), blank_cells(1, listed=False)
    return Offers(
        first=np.zeros(queues + 1, np.int64),
        is_uncounted=np.zeros(queues, np.uint8),
        rows=nothing,
        gives=nobody,
        class_of=nothing,
        priority=nothing,
        profile=nothing,
        until=nothing,
        last=nothing,
        moves=cells,
        left=cells,
    )
