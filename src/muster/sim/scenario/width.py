"""What a scenario says about width: levels, windows, the capacity calendar, cores beside GPUs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from muster.documents.values import Map, Scalar
from muster.model.calendar import DAY_MS, DAYS, Window
from muster.model.jobs import TaskGroup
from muster.model.nodes import DEVICE_MILLI
from muster.model.policy import Policy, WidthRule
from muster.model.resources import CPU, GPU, MICRO, Resources
from muster.model.scaling import speeds_of
from muster.model.width import FREEZING_MS, LEVELS, MOST_LEVEL, NORMAL
from muster.sim.scenario.fields import Fields
from muster.sim.scenario.pools import Pools
from muster.sim.scenario.scalars import ANY_EXTENDED, NAME, is_name
from muster.state.work import ByCluster, Work

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")
_TIME_OF_DAY = 'a time of day in quotes such as "08:00", up to "24:00"'
_WHICH_DAYS = f"days such as mon-fri, sat or mon,wed: {', '.join(DAYS)}; or all"
_PERCENT = MICRO // 100
_MOST_UNEVEN = 100
MOST_SPEED = 1_000_000 * MICRO
_SPEED = "a number above 0 and up to 1000000 with at most six decimals"


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


def read_level(fields: Fields, levels: Mapping[str, int]) -> int:
    """The key `level` of a job, as a number."""
    return fields.choice("level", levels, NORMAL)


def read_freezing(fields: Fields) -> int:
    """The key `freezingWindow` of a job."""
    return fields.duration("freezingWindow", FREEZING_MS)


def read_speeds(fields: Fields, most: int) -> tuple[int, ...]:
    """The key `scalability` of a group: how fast the job is at some widths, in any unit."""
    stated = fields.mapping("scalability", "scalability")
    speeds: dict[int, int] = {}
    for width in stated.given():
        speed = stated.micro(width, _SPEED, least=1, most=MOST_SPEED)
        if not width.isascii() or not width.isdigit() or not 1 <= int(width) <= most or str(int(width)) != width:
            stated.refuse_key(width, f"a width, which is a whole number from 1 to {most}")
        elif speed is not None:
            speeds[int(width)] = speed
    return speeds_of(speeds, most) if speeds else ()


def read_work(fields: Fields, groups: Collection[TaskGroup], clusters: Collection[str], pause_ms: int) -> Work | None:
    """The work that `runtime` says there is; None where it says a duration, or nothing."""
    if not isinstance(fields.get("runtime"), Map):
        return None
    work = fields.mapping("runtime", "runtime")
    task_ms = work.optional_duration("work", least_ms=1)
    speeds = _speeds_by_cluster(work.mapping("speed", "speed"), clusters)
    is_kept = work.boolean("kept", False)
    if not work.has("work"):
        work.missing("work", "task-hours of work such as 8h")
    elif not speeds and not any(group.min < group.max for group in groups):
        fields.add("runtime", "only tasks of elastic groups work: some group must have a min below its max")
    work.close()
    return None if task_ms is None else Work(task_ms, ByCluster(speeds) if speeds else None, pause_ms, is_kept)


def _speeds_by_cluster(fields: Fields, clusters: Collection[str]) -> dict[str, int]:
    """How fast the job is in each cluster, in micro-units."""
    speeds: dict[str, int] = {}
    for name in fields.given():
        if name not in clusters:
            fields.refuse_key(name, f"a cluster of this file: {', '.join(sorted(clusters)) or 'it has none'}")
        speed = fields.micro(name, _SPEED, least=1, most=MOST_SPEED)
        if speed is not None:
            speeds[name] = speed
    return speeds


def raised(fields: Fields, group: TaskGroup, cores_per_gpu: int) -> TaskGroup:
    """The group with at least so many cores beside each GPU it asks for (paddle-trainingjob.md, case 1)."""
    asks = group.request.resources
    least = asks.get(GPU) * cores_per_gpu // DEVICE_MILLI
    if asks.get(CPU) >= least:
        return group
    if fields.has("cpu"):
        fields.refuse("cpu", f"at least {least}m: a GPU needs {cores_per_gpu}m of CPU beside it (config: coresPerGpu)")
    more = Resources.of({CPU: least - asks.get(CPU)})
    return replace(group, request=replace(group.request, resources=asks + more))


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
