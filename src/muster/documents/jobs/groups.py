"""Task groups: what the tasks of a job ask for, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from muster.documents.fields import Fields
from muster.documents.scalars import INT32, resource_name
from muster.documents.shapes import NAME, SWITCH, Schema, integer, mapping_of, number, said
from muster.model.errors import InvalidValue
from muster.model.jobs import TaskGroup
from muster.model.labels import ANYWHERE, Constraint
from muster.model.nodes import DEVICE_MILLI, Request
from muster.model.resources import CPU, GPU, MICRO, Resources
from muster.model.scaling import speeds_of

MOST_TASKS = 100_000
ONLY_GROUP = "main"  # the name of the one group of a job in short form

MOST_SPEED = 1_000_000 * MICRO
SPEED = "a number above 0 and up to 1000000 with at most six decimals"

_LABELS: Schema = mapping_of({"type": "string"})

TASK_KEYS: dict[str, Schema] = {
    "gpuMilli": said(integer(1, DEVICE_MILLI), "How much of each of its GPUs a task takes.", default=DEVICE_MILLI),
    "wholeNode": said(SWITCH, "Each task has its node to itself.", default=False),
    "maxHops": said(
        integer(0, INT32), "No two tasks further apart: 0 on one node, 2 under one switch, …", examples=[2]
    ),
    "preferClose": said(SWITCH, "As close together as can be, without a limit.", default=False),
    "nodeSelector": said(_LABELS, "Labels that a node must have.", examples=[{"zone": "z1"}]),
    "affinity": said({"type": ["object", "null"]}, "Kubernetes' required node affinity."),
    "tolerations": said({"type": ["array", "null"], "items": {"type": "object"}}, "Kubernetes' tolerations."),
}
"""What may be said of tasks besides amounts: in a group, or beside the job's other keys in the short form."""

GROUP_KEYS: dict[str, Schema] = {
    "name": said(NAME, "Its tasks are called worker-0, worker-1 …", examples=["worker"]),
    "count": said(integer(1, MOST_TASKS), "How many tasks: short for min, initial and max.", default=1),
    "min": said(integer(0, MOST_TASKS), "With fewer tasks it does not start.", default=1),
    "initial": said(integer(0, MOST_TASKS), "It starts with up to so many. Default: min."),
    "max": said(integer(1, MOST_TASKS), "It may grow to so many. Default: initial."),
    "decides": said(SWITCH, "Whether the job ends with this group.", default=True),
    "scalability": said(
        mapping_of(number(MOST_SPEED // MICRO), keys={"pattern": "^[1-9][0-9]*$"}),
        "How fast the job is at some widths, in any unit.",
        examples=[{"1": 100, "4": 350}],
    ),
}
"""What else may be said of a group."""


More = Callable[[str, Fields], None]
"""Reads what else there may be about a group of that name."""


def read_groups(
    job: Fields, cores_per_gpu: int = 0, more: More | None = None, more_keys: Collection[str] = ()
) -> tuple[TaskGroup, ...]:
    """The groups of a job: those it lists, or the one its short form describes.

    `more` reads further keys of each group; `more_keys` says which these are.
    """
    if not job.has("groups"):
        job.get("groups")
        if more is not None:
            more(ONLY_GROUP, job)
        return (_raised(job, _read_group(job, ONLY_GROUP, (1, 1, 1)), cores_per_gpu),)
    for key in job.given():
        if key in TASK_KEYS or key in more_keys or resource_name(key) is not None:
            job.get(key)
            job.add(key, "not allowed beside groups: it belongs into each group")
    groups: dict[str, TaskGroup] = {}
    for fields in job.entries("groups", "group"):
        name = fields.required_name("name")
        group = _raised(fields, _read_group(fields, name or "", _width(fields)), cores_per_gpu)
        if more is not None:
            more(name or "", fields)
        fields.close_with_amounts()
        if name in groups:
            fields.refuse("name", "a group of this job has that name already: names are unique in a job")
        elif name is not None:
            groups[name] = group
    _check_groups(job, groups.values())
    return tuple(groups.values())


def _check_groups(job: Fields, groups: Collection[TaskGroup]) -> None:
    if not job.items("groups"):
        job.add("groups", "at least one group is needed")
    elif not groups:
        return  # none has a name, which was noted
    elif not sum(group.min for group in groups):
        job.add("groups", "at least one task is needed: some group must have a min of 1 or more")
    elif not any(group.decides for group in groups):
        job.add("groups", "at least one group must decide when the job ends: decides may not be false for all")


def _read_group(fields: Fields, name: str, width: tuple[int, int, int]) -> TaskGroup:
    least, initial, most = width
    return TaskGroup(
        name=name,
        min=least,
        initial=initial,
        max=most,
        request=read_request(fields),
        constraint=read_constraint(fields),
        max_hops=fields.optional_integer("maxHops", 0, INT32),
        prefers_close=fields.boolean("preferClose", False),
        decides=fields.kind != "group" or fields.boolean("decides", True),
        speeds=_read_speeds(fields, most) if fields.kind == "group" else (),
    )


def read_request(fields: Fields) -> Request:
    """What each task asks for."""
    amounts = fields.task_amounts()
    milli = fields.integer("gpuMilli", DEVICE_MILLI, 1, DEVICE_MILLI)
    whole_node = fields.boolean("wholeNode", False)
    if fields.has("gpuMilli") and not amounts.get(GPU):
        fields.add("gpuMilli", "needs gpu: 1 or more, the devices of which each gives this much")
    return Request.of(amounts, gpu_milli=milli, whole_node=whole_node)


def read_constraint(fields: Fields) -> Constraint:
    """Selector, affinity and tolerations; when several are wrong, each is noted."""
    parts: dict[str, object] = {
        "selector": fields.texts("nodeSelector"),
        "affinity": fields.plain("affinity"),
        "tolerations": fields.plain("tolerations"),
    }
    given = {name: part for name, part in parts.items() if part}
    if not given:
        return ANYWHERE
    try:
        return Constraint.parse(**given)
    except InvalidValue:
        for name, part in given.items():
            _note_invalid(fields, name, part)
        return ANYWHERE


def refuse_empty_shapes(fields: Fields) -> None:
    """Note `tolerations: false` and the like, which scenarios take for none."""
    if not fields.plain("affinity"):
        fields.mapping("affinity", "affinity")
    if not fields.plain("tolerations"):
        fields.items("tolerations")


def _note_invalid(fields: Fields, name: str, part: object) -> None:
    try:
        Constraint.parse(**{name: part})
    except InvalidValue as err:
        fields.refuse_invalid(err)


def _width(fields: Fields) -> tuple[int, int, int]:
    """(min, initial, max) of a group."""
    count = fields.optional_integer("count", 1, MOST_TASKS)
    least = fields.optional_integer("min", 0, MOST_TASKS)
    initial = fields.optional_integer("initial", 0, MOST_TASKS)
    most = fields.optional_integer("max", 1, MOST_TASKS)
    if fields.has("count"):
        for key in ("min", "initial", "max"):
            if fields.has(key):
                fields.add(key, "count and min, initial, max exclude each other: count says all three")
        count = count or 1
        return count, count, count
    if least is None:
        least = min(number for number in (1, initial, most) if number is not None)
    if initial is None:
        initial = least
    if most is None:
        most = max(initial, 1)
    if initial < least:
        fields.refuse("initial" if fields.has("initial") else "min", f"min <= initial: {least} is above {initial}")
    if most < initial:
        fields.refuse("max", f"initial <= max: {initial} is above {most}")
    return least, initial, most


def _raised(fields: Fields, group: TaskGroup, cores_per_gpu: int) -> TaskGroup:
    """The group with at least so many cores beside each GPU it asks for (paddle-trainingjob.md, case 1)."""
    asks = group.request.resources
    least = asks.get(GPU) * cores_per_gpu // DEVICE_MILLI
    if asks.get(CPU) >= least:
        return group
    if fields.has("cpu"):
        fields.refuse("cpu", f"at least {least}m: a GPU needs {cores_per_gpu}m of CPU beside it (config: coresPerGpu)")
    more = Resources.of({CPU: least - asks.get(CPU)})
    return replace(group, request=replace(group.request, resources=asks + more))


def _read_speeds(fields: Fields, most: int) -> tuple[int, ...]:
    """The key `scalability` of a group: how fast the job is at some widths, in any unit."""
    stated = fields.mapping("scalability", "scalability")
    speeds: dict[int, int] = {}
    for width in stated.given():
        speed = stated.micro(width, SPEED, least=1, most=MOST_SPEED)
        if not width.isascii() or not width.isdigit() or not 1 <= int(width) <= most or str(int(width)) != width:
            stated.refuse_key(width, f"a width, which is a whole number from 1 to {most}")
        elif speed is not None:
            speeds[int(width)] = speed
    return speeds_of(speeds, most) if speeds else ()
