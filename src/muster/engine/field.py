"""What filling places on: the room now and at every promised moment, in cells."""

from __future__ import annotations

from muster.engine.horizon import Horizon
from muster.engine.kernels.filling import Field
from muster.engine.rooms import Span


def field_of(horizon: Horizon) -> Field:
    """The field as it is. Only good until someone else changes rooms or promises."""
    promised = sorted(horizon.promised.values(), key=lambda it: it.order)
    moments = [horizon.now, *(it.rooms for it in promised)]
    span, books, asks = Span(moments), horizon.now.books, horizon.asks
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
        starts=books.of([it.reservation.start_ms for it in promised]),
        signs=books.of([books.sign_of(tuple(births[: last + 1])) for last in range(len(births))]),
    )
