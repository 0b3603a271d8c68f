"""The keys of a job that are about the job as a whole: one table, read alike wherever jobs are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from muster.documents.fields import Fields
from muster.documents.jobs.known import DEFAULT_CLASS, DEFAULT_QUEUE, Known
from muster.documents.problems import Problems
from muster.documents.scalars import INT32, as_name
from muster.documents.shapes import DURATION, NAME, Schema, choice, integer, list_of, mapping, mapping_of, said
from muster.documents.values import Map, Value
from muster.model.after import After, When
from muster.model.pools import DEFAULT_NAME, as_pool
from muster.model.retries import FAILED, LOST, PREEMPTED, Retries
from muster.model.width import FREEZING_MS, NORMAL

WHEN = {when.value: when for when in When}


class Key(NamedTuple):
    """A key of a job, the field of model.jobs.Job that it is about, how it is read, and how it looks."""

    name: str
    attribute: str
    read: Callable[[Fields, Known], Any]
    schema: Schema


class Need(NamedTuple):
    """A job that another comes after, by its name, and where that is said."""

    after: After
    line: int
    path: str

    @property
    def name(self) -> str:
        """What the job is called."""
        return self.after.job


def read_common(fields: Fields, known: Known, keys: Sequence[Key]) -> dict[str, Any]:
    """The fields of model.jobs.Job that these keys are about."""
    return {key.attribute: key.read(fields, known) for key in keys}


# --- names of what must be there -----------------------------------------------------------------


def read_queue(fields: Fields, known: Known) -> str:
    """The key `queue`; a job need not have one where some queue is `default`, or if opaque clusters race for it."""
    name = fields.name("queue")
    has_default = known.queues is None or DEFAULT_QUEUE in known.queues
    is_needed = not has_default and (known.holds_jobs or not fields.has("race"))
    if known.queues is not None and is_needed and not fields.has("queue"):
        fields.missing("queue", known.listed("a queue", known.queues))
    elif known.queues is not None and name is not None and name not in known.queues:
        fields.refuse("queue", known.listed("a queue", known.queues))
    return name or DEFAULT_QUEUE


def read_class(fields: Fields, known: Known) -> int:
    """The key `priorityClass` as a number."""
    name = fields.name("priorityClass")
    if name is None:
        return known.classes[DEFAULT_CLASS]
    if name not in known.classes:
        fields.refuse("priorityClass", known.listed("a priority class", known.classes))
    return known.classes.get(name, 0)


def read_level(fields: Fields, known: Known) -> int:
    """The key `level` as a number."""
    return fields.choice("level", known.levels, NORMAL)


def read_clusters(fields: Fields, known: Known) -> tuple[tuple[str, int], ...]:
    """The keys `cluster` and `clusters`: candidates with a preference from 0 to 100."""
    is_any, transparent = known.clusters is None, known.transparent
    only = fields.name("cluster")
    several = fields.mapping("clusters", "clusters")
    if only is not None and not is_any and only not in transparent:
        fields.refuse("cluster", known.placeable())
    if fields.has("cluster") and fields.has("clusters"):
        fields.add("cluster", "cluster and clusters exclude each other: give one of them")
    chosen = []
    for name in several.given():
        chosen.append((name, several.integer(name, 50, 0, 100)))
        if not is_any and name not in transparent:
            several.refuse_key(name, known.placeable())
    if only is not None and (is_any or only in transparent):
        chosen.append((only, transparent[only].preference if only in transparent else 50))
    return tuple(chosen)


def read_pool(fields: Fields) -> str:
    """The pool a job names as its own. One that nobody makes is no error: the default pool takes its place."""
    return as_pool(fields.name("pool") or DEFAULT_NAME)


def read_after(fields: Fields) -> tuple[Need, ...]:
    """The key `after`: names, or {job: name, when: ok | any | failed}; each name once."""
    needs: dict[str, Need] = {}
    for item, path in fields.items("after"):
        after = _read_need(item, path, fields.problems)
        if after is None:
            continue
        before = needs.setdefault(after.job, Need(after, item.line, path)).after
        if before != after:
            message = f"{after.job} is named before, with {before.when.value}: one end of it is allowed"
            fields.problems.add(path, item.line, message)
    return tuple(needs.values())


def _read_need(item: Value, path: str, problems: Problems) -> After | None:
    if not isinstance(item, Map):
        name = as_name(item, path, problems)
        return None if name is None else After(name)
    need = Fields("after", item, path, problems)
    name, when = need.required_name("job"), need.choice("when", WHEN, When.OK)
    need.close()
    return None if name is None else After(name, when)


def read_retries(fields: Fields) -> Retries:
    """The key `retries`: a number for its own failures, or a number for each of what can end an attempt."""
    if not fields.has_map("retries"):
        allowed = f"a whole number from 0 to {INT32}, or a mapping such as {{failed: 2, lost: 3, preempted: 10}}"
        return Retries(failed=fields.optional_integer("retries", 0, INT32, allowed) or 0)
    each = fields.mapping("retries", "retries")
    retries = Retries(
        failed=each.integer(FAILED, 0, 0, INT32),
        lost=each.optional_integer(LOST, 0, INT32),
        preempted=each.optional_integer(PREEMPTED, 0, INT32),
    )
    each.close()
    return retries


# --- the table -----------------------------------------------------------------------------------

RETRIES: dict[str, Schema] = {
    FAILED: said(integer(0, INT32), "Attempts that ended by its own fault.", default=0),
    LOST: said(integer(0, INT32), "Attempts whose node, agent or cluster was gone. Absent: all of them."),
    PREEMPTED: said(integer(0, INT32), "Attempts that gave way to another job. Absent: all of them."),
}

KEYS = (
    Key("queue", "queue", read_queue, said(NAME, "The queue it waits in.", examples=["research"])),
    Key(
        "priority",
        "priority",
        lambda fields, _: fields.integer("priority", 0, -INT32, INT32),
        said(integer(-INT32, INT32), "The higher the more urgent; orders jobs inside their queue.", default=0),
    ),
    Key(
        "priorityClass",
        "priority_class",
        read_class,
        said(NAME, "A priority class of the server; higher classes come first in all queues.", default=DEFAULT_CLASS),
    ),
    Key(
        "lifetime",
        "lifetime_ms",
        lambda fields, _: fields.optional_duration("lifetime"),
        said(
            DURATION,
            "Once older than this it may be preempted for fairness. 0: always. Absent: never.",
            examples=["30m"],
        ),
    ),
    Key(
        "expectedRuntime",
        "expected_ms",
        lambda fields, _: fields.optional_duration("expectedRuntime"),
        said(DURATION, "How long it will probably run: lets it pass others without delaying them.", examples=["2h"]),
    ),
    Key(
        "timeLimit",
        "time_limit_ms",
        lambda fields, _: fields.optional_duration("timeLimit", least_ms=1),
        said(
            {**DURATION, "exclusiveMinimum": 0},
            "The longest it may run; taken as the expected run time when there is none.",
            examples=["1d"],
        ),
    ),
    Key(
        "retries",
        "retries",
        lambda fields, _: read_retries(fields),
        said(
            {**mapping(RETRIES), **integer(0, INT32), "type": ["integer", "object"]},
            "How often its own failures are forgiven; or how many attempts that failed, were lost and were preempted.",
            default=0,
            examples=[2, {"failed": 2, "lost": 3, "preempted": 10}],
        ),
    ),
    Key("user", "user", lambda fields, _: fields.name("user") or "", said(NAME, "Whose job it is.", examples=["ada"])),
    Key(
        "jobSet",
        "job_set",
        lambda fields, _: fields.name("jobSet") or "",
        said(NAME, "A label to group jobs by; decides nothing.", examples=["nightly"]),
    ),
    Key("level", "level", read_level, said(NAME, "How an elastic job is served beside others.", default="Normal")),
    Key(
        "freezingWindow",
        "freezing_ms",
        lambda fields, _: fields.duration("freezingWindow", FREEZING_MS),
        said(DURATION, "How long its width is left alone after a change.", default="5m"),
    ),
)

_NEED = {
    **mapping(
        {
            "job": said(
                NAME, "The name or the id of a job; that of an array means all its jobs.", examples=["prepare"]
            ),
            "when": said(choice(WHEN), "How it must end.", default="ok"),
        },
        required=("job",),
    ),
    "type": ["string", "object"],
}

PLACE_KEYS: dict[str, Schema] = {
    "pool": said(NAME, "The pool it belongs to.", default=DEFAULT_NAME),
    "cluster": said(NAME, "The only cluster it may run in.", examples=["east"]),
    "clusters": said(
        mapping_of(integer(0, 100)), "Candidate clusters, each with a preference.", examples=[{"east": 80, "west": 20}]
    ),
    "after": said(
        list_of({**NAME, **_NEED}),
        "It starts when these jobs have succeeded; or have ended in any way, or failed, where that is said.",
        examples=[["prepare"], [{"job": "prepare", "when": "any"}]],
    ),
}
"""The keys about where and after whom a job runs."""
