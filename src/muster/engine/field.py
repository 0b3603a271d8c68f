"""What filling places on: the room now and at every promised moment, in cells."""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.columns.profile_cells import Asks
from muster.engine.horizon import Horizon
from muster.engine.kernels.filling import Field
from muster.engine.rooms import Rooms, Span


def field_of(horizon: Horizon) -> Field:
    """The field as it is. Only good until someone else changes rooms or promises."""
    promised = sorted(horizon.promised.values(), key=lambda it: it.order)
    moments = [horizon.now, *(it.rooms for it in promised)]
    return field_on(moments, [it.due_ms for it in promised], horizon.asks)


def field_on(moments: Sequence[Rooms], starts: Sequence[int], asks: Asks) -> Field:
    """The rooms of now and of moments that start then, and what profiles ask of them."""
    span, books = Span(moments), moments[0].books
    births = [rooms.birth for rooms in moments]
    ground, cells, index, circles, trial = span.cells(asks.most)
    return Field(
        ground=ground,
        books=cells,
        by_tightness=index,
        circles=circles,
        trial=trial,
        first_group=asks.first_group,
        groups=asks.groups,
        widths=asks.widths,
        first_cluster=asks.first_cluster,
        clusters=asks.clusters,
        starts=books.of(starts),
        signs=books.of([books.sign_of(tuple(births[: last + 1])) for last in range(len(births))]),
        preference=books.nothing,
        has_gpus=books.nothing,
        idle=books.nothing,
        tasks=books.nothing,
        pools=books.nothing,
        spare=books.nothing,
    )
