"""The capacity calendar of a scenario: room that is kept for services at certain times of the week."""

from __future__ import annotations

import re
from collections.abc import Collection

from muster.documents.fields import Fields
from muster.documents.scalars import ANY_EXTENDED
from muster.documents.values import Scalar
from muster.model.calendar import DAY_MS, DAYS, Window
from muster.model.resources import Resources
from muster.sim.scenario.pools import Pools

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")
_TIME_OF_DAY = 'a time of day in quotes such as "08:00", up to "24:00"'
_WHICH_DAYS = f"days such as mon-fri, sat or mon,wed: {', '.join(DAYS)}; or all"


def read_calendar(top: Fields, clusters: Collection[str], pools: Pools) -> tuple[Window, ...]:
    """The key `calendar`."""
    return tuple(_window(fields, clusters, pools) for fields in top.entries("calendar", "calendar"))


def _window(fields: Fields, clusters: Collection[str], pools: Pools) -> Window:
    cluster, pool = fields.name("cluster"), pools.named(fields, "pool")
    if not fields.has("cluster") and len(clusters) != 1 and not fields.has("pool"):
        fields.missing("cluster", "the cluster whose room is withheld, or a pool")
    elif cluster is not None and cluster not in clusters:
        fields.refuse("cluster", f"a cluster of this file: {', '.join(sorted(clusters)) or 'it has none'}")
    withhold = fields.mapping("withhold", "withhold")
    amounts = withhold.node_amounts()
    withhold.close(hint=ANY_EXTENDED)
    if not fields.has("withhold"):
        fields.missing("withhold", "amounts such as {cpu: 64}")
    window = Window(
        cluster=cluster or (next(iter(clusters)) if len(clusters) == 1 else ""),
        pool=pool,
        days=_days(fields),
        from_ms=_time(fields, "from"),
        to_ms=_time(fields, "to"),
        withhold=Resources.of(amounts),
        ahead_ms=min(fields.duration("shrinkAhead"), DAY_MS),
    )
    fields.close()
    return window


def _time(fields: Fields, key: str) -> int:
    value = fields.get(key)
    match = _TIME.fullmatch(value.text) if isinstance(value, Scalar) else None
    if value is None:
        fields.missing(key, _TIME_OF_DAY)
    elif match is None:
        fields.refuse(key, _TIME_OF_DAY)
    if match is None or match[1] is None:
        return DAY_MS if match is not None else 0
    return (int(match[1]) * 60 + int(match[2])) * 60_000


def _days(fields: Fields) -> frozenset[int]:
    value = fields.get("days")
    if value is None or (isinstance(value, Scalar) and value.text == "all"):
        return frozenset(range(len(DAYS)))
    days: set[int] = set()
    for part in value.text.split(",") if isinstance(value, Scalar) else [""]:
        first, _, last = part.strip().partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            fields.refuse("days", _WHICH_DAYS)
            return frozenset()
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days |= {day % len(DAYS) for day in range(begin, end + 1 + (len(DAYS) if end < begin else 0))}
    return frozenset(days)
