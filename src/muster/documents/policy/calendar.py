"""The capacity calendar as people write it: room that is kept for services at certain times of the week."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Protocol

from muster.documents.fields import Fields
from muster.documents.jobs.known import listed
from muster.documents.scalars import ANY_EXTENDED
from muster.documents.values import Scalar
from muster.model.calendar import DAY_MS, DAYS, Window
from muster.model.resources import Resources

EPOCH_MONDAY_MS = 4 * DAY_MS
"""The first Monday of the clock of computers, which began on a Thursday, in UTC."""

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")
_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])")
_TIME_OF_DAY = 'a time of day in quotes such as "08:00", up to "24:00"'
_WHICH_DAYS = f"days such as mon-fri, sat or mon,wed: {', '.join(DAYS)}; or all"


class PoolNames(Protocol):
    """The pools that there are."""

    def named(self, fields: Fields, key: str) -> str | None:
        """The pool under a key; None when it is absent or wrong."""


def read_calendar(
    top: Fields,
    clusters: Collection[str] | None,
    pools: PoolNames,
    *,
    where: str = "this file",
    has_clock: bool = False,
) -> tuple[Window, ...]:
    """The key `calendar`. `has_clock`: time is that of computers, and each window may say in which time zone it is.

    `clusters` None: any that it names.
    """
    return tuple(_window(fields, clusters, pools, where, has_clock) for fields in top.entries("calendar", "calendar"))


def _window(fields: Fields, clusters: Collection[str] | None, pools: PoolNames, where: str, has_clock: bool) -> Window:
    only = next(iter(clusters)) if clusters is not None and len(clusters) == 1 else ""
    cluster, pool = fields.name("cluster"), pools.named(fields, "pool")
    if not fields.has("cluster") and not only and not fields.has("pool"):
        fields.missing("cluster", "the cluster whose room is withheld, or a pool")
    elif cluster is not None and clusters is not None and cluster not in clusters:
        fields.refuse("cluster", listed("a cluster", clusters, where))
    withhold = fields.mapping("withhold", "withhold")
    amounts = withhold.node_amounts()
    withhold.close(hint=ANY_EXTENDED)
    if not fields.has("withhold"):
        fields.missing("withhold", "amounts such as {cpu: 64}")
    window = Window(
        cluster=cluster or ("" if has_clock and pool is not None else only),  # more clusters may come
        pool=pool,
        days=_days(fields),
        from_ms=_time(fields, "from"),
        to_ms=_time(fields, "to"),
        withhold=Resources.of(amounts),
        ahead_ms=min(fields.duration("shrinkAhead"), DAY_MS),
        monday_ms=EPOCH_MONDAY_MS - _offset_ms(fields) if has_clock else 0,
    )
    fields.close()
    return window


def time_of_day(ms: int) -> str:
    """A time of day as it is written."""
    minutes = ms // 60_000
    return f"{minutes // 60:02}:{minutes % 60:02}"


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


def _offset_ms(fields: Fields) -> int:
    """By how much the clocks where the window is meant are ahead of UTC."""
    value = fields.get("utcOffset")
    match = _OFFSET.fullmatch(value.text) if isinstance(value, Scalar) else None
    if value is not None and match is None:
        fields.refuse("utcOffset", 'hours and minutes ahead of UTC in quotes, such as "+08:00" or "-03:30"')
    if match is None:
        return 0
    return (int(match[2]) * 60 + int(match[3])) * (-60_000 if match[1] == "-" else 60_000)


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
