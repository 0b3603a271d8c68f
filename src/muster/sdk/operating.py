"""Questions of those who operate: many jobs at once, disruption budgets, the policy, an end of a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from muster.model.errors import InvalidValue
from muster.sdk import decoding as read
from muster.sdk import shapes
from muster.sdk.asking import API, Ask, as_json, given, named, several

Act = Literal["cancel", "hold", "release", "preempt", "change"]

KEEP: Any = object()
"""Of a policy: it stays as it is."""


class Selected(TypedDict, total=False):
    """Which jobs, where they are not named: all of a job set (in one queue), or with `everything` all of a queue. Of
    them those that are not over, and in one of these states if any are given."""

    job_set: str
    queue: str
    everything: bool
    states: Sequence[shapes.Unfinished]


def act(what: Act, jobs: Iterable[str], which: Selected, changes: Mapping[str, Any] | None = None) -> Ask[list[str]]:
    """Do something to many jobs; the answer is those to which it was done. Asked twice, preempting stops the next
    attempts too."""
    body = {**_chosen(several(jobs), which), **(changes or {})}
    return Ask(
        method="POST",
        path=f"{API}/jobs/{what}",
        body=as_json(body),
        read=lambda body: read.Chosen.decode(body).jobs,
        is_repeatable=what != "preempt",
    )


def _chosen(names: list[str], which: Selected) -> dict[str, Any]:
    job_set, queue = which.get("job_set", ""), which.get("queue", "")
    everything, states = which.get("everything", False), list(which.get("states", ()))
    if names and (job_set or queue or everything):
        raise InvalidValue(names, "either jobs or a job set, or everything of a queue", "jobs")
    if everything and (job_set or not queue):
        raise InvalidValue(everything, "with a queue, and without a job set", "everything")
    if not (names or job_set or everything):
        raise InvalidValue(names, "jobs, or a job set, or everything of a queue", "jobs")
    unknown = [state for state in states if state not in shapes.ALIVE]
    if unknown:
        raise InvalidValue(unknown[0], f"one of {', '.join(shapes.ALIVE)}", "states")
    said = {"jobs": names, "jobSet": job_set, "queue": queue, "all": everything, "states": states}
    return {name: value for name, value in said.items() if value}


def changes(
    *,
    priority: int | None = None,
    priority_class: str | None = None,
    level: str | None = None,
    freezing_window: float | None = None,
) -> dict[str, Any]:
    """What is to change of jobs; the freezing window is seconds."""
    said = {
        "priority": priority,
        "priorityClass": priority_class,
        "level": level,
        "freezingWindow": freezing_window,
    }
    told = {name: value for name, value in said.items() if value is not None}
    if not told:
        raise InvalidValue(None, "a priority, a priority class, a level or a freezing window", "priority")
    return told


def change(job_id: str, changed: Mapping[str, Any]) -> Ask[shapes.Job]:
    """Change one job, also while it runs; `changed` as `changes` makes it."""
    return Ask(method="PATCH", path=f"{API}/jobs/{named(job_id, 'job')}", body=as_json(changed), read=read.Job.decode)


def budgets() -> Ask[list[shapes.Budget]]:
    """All disruption budgets of jobs that whoever asks may see."""
    return Ask(method="GET", path=f"{API}/budgets", read=read.Budgets.decode)


def put_budget(job_id: str, *, min_available: int, group: str = "") -> Ask[shapes.Budget]:
    """Say how many tasks of a job's group are to stay; a job of one group need not name it."""
    body = as_json({"group": group, "minAvailable": min_available})
    return Ask(method="PUT", path=f"{API}/jobs/{named(job_id, 'job')}/budget", body=body, read=read.Budget.decode)


def remove_budget(job_id: str, *, group: str = "") -> Ask[None]:
    """Take a disruption budget away."""
    path = f"{API}/jobs/{named(job_id, 'job')}/budget"
    return Ask(method="DELETE", path=path, params=given(group=group), read=lambda _: None, is_repeatable=False)


def remove_queue(name: str, *, cancel: bool = False) -> Ask[None]:
    """Make an end of a queue without jobs that are not over; `cancel`: they are cancelled first."""
    params = given(cancel="true" if cancel else None)
    path = f"{API}/queues/{named(name, 'queue')}"
    return Ask(method="DELETE", path=path, params=params, read=lambda _: None, is_repeatable=False)


def policy() -> Ask[shapes.Policy]:
    """The numbers of the rules, as turns go by them."""
    return Ask(method="GET", path=f"{API}/policy", read=read.Policy.decode)


def change_policy(
    *,
    aging_after: str | float | None = KEEP,
    over_share: str | float | None = KEEP,
    cores_per_gpu: str | float | None = KEEP,
    calendar: Sequence[Mapping[str, Any]] | None = KEEP,
) -> Ask[shapes.Policy]:
    """Set numbers of the rules, as scenario files write them; None takes back what was set."""
    said = {"agingAfter": aging_after, "overShare": over_share, "coresPerGpu": cores_per_gpu, "calendar": calendar}
    body = as_json({name: value for name, value in said.items() if value is not KEEP})
    return Ask(method="PATCH", path=f"{API}/policy", body=body, read=read.Policy.decode)
