"""What a scenario says about width: rules, levels, cores beside GPUs, the capacity calendar."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from muster.documents.fields import Fields
from muster.documents.scalars import ANY_EXTENDED, NAME, is_name
from muster.documents.values import Scalar
from muster.model.calendar import DAY_MS, DAYS, Window
from muster.model.policy import Policy, WidthRule
from muster.model.resources import MICRO, Resources
from muster.model.width import LEVELS, MOST_LEVEL, NORMAL
from muster.sim.scenario.pools import Pools

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")
_TIME_OF_DAY = 'a time of day in quotes such as "08:00", up to "24:00"'
_WHICH_DAYS = f"days such as mon-fri, sat or mon,wed: {', '.join(DAYS)}; or all"
_PERCENT = MICRO // 100
_MOST_UNEVEN = 100


def read_width(config: Fields, default: Policy) -> dict[str, Any]:
    """The fields of model.policy.Policy that are about width."""
    every_ms = config.optional_duration("elasticEvery", least_ms=1) if not config.is_off("elasticEvery") else None
    is_given = config.has("elasticEvery")
    load = config.micro("maxLoad", "a number above 0 and up to 1 with at most six decimals", least=1, most=MICRO)
    allowed = f"a number from 1 to {_MOST_UNEVEN} with at most two decimals"
    uneven = config.micro("uneven", allowed, least=MICRO, most=_MOST_UNEVEN * MICRO)
    if uneven is not None and uneven % _PERCENT:
        config.refuse("uneven", allowed)
        uneven = None
    return {
        "elastic_every_ms": every_ms if is_given else default.elastic_every_ms,
        "max_load": default.max_load if load is None else load,
        "uneven_percent": default.uneven_percent if uneven is None else uneven // _PERCENT,
        "cores_per_gpu": config.cores("coresPerGpu"),
        "width": config.choice("width", {rule.value: rule for rule in WidthRule}, default.width),
        "resize_cost_ms": config.duration("resizeCost", default.resize_cost_ms),
    }


def read_levels(config: Fields) -> dict[str, int]:
    """The document's levels, and those that the file adds or changes."""
    fields = config.mapping("levels", "levels")
    levels = dict(LEVELS)
    for name in fields.given():
        levels[name] = fields.integer(name, NORMAL, 1, MOST_LEVEL)
        if not is_name(name):
            fields.refuse_key(name, NAME)
    return levels


# --- the calendar -------------------------------------------------------------------------------


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
