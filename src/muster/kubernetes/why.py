"""Why one pod waits, worked out anew: the scheduler keeps nothing that the cluster does not hold, so neither need we.

Everything is listed once into a world of our own, in which turns are taken and nothing is carried out. What a scheduler
said last is in the condition of the pod, and told first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.kubernetes.batches import Member
from muster.kubernetes.cache import Change
from muster.kubernetes.client import Client
from muster.kubernetes.errors import Forbidden, NotFound
from muster.kubernetes.jobs import NAMES, bound_ms
from muster.kubernetes.kinds import PODS
from muster.kubernetes.objects import Condition, Pod
from muster.kubernetes.sources import needed_by, optional_for
from muster.kubernetes.world import World
from muster.model.jobs import Job
from muster.model.policy import Policy
from muster.state.why import explain, paragraph
from muster.state.why.words import clock

A_MOMENT_MS = 1000  # whom a turn has only just found running gives way to nobody in it
_OVER = {"Succeeded": "has succeeded", "Failed": "has failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What there is to say of a pod. `reason` and `facts` are of its verdict, if it waits."""

    pod: str
    state: str  # over, bound, other, gated, held, waiting, starting, unknown
    text: tuple[str, ...]  # paragraphs
    condition: Condition | None = None
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


async def why(client: Client, namespace: str, name: str, now_ms: int) -> Answer:
    """Why the pod waits; what became of it, if it does not. NotFound if there is none."""
    pod = await client.get(PODS, name, namespace)
    if (known := _settled(pod)) is not None:
        return known
    try:
        world = await _world_of(client)
    except Forbidden as err:
        return _answer(pod, "unknown", f"More can be said of it only by those who may list what decides: {err}.")
    world.turn(now_ms - A_MOMENT_MS)
    world.turn(now_ms)
    member = world.register.members.get(pod.metadata.uid)
    if member is None:
        return _answer(pod, "unknown", "It is gone, or over, by now.")
    return _verdict(world, member, now_ms)


def _settled(pod: Pod) -> Answer | None:
    """What there is to say of a pod that no scheduler of ours has to decide on."""
    if pod.is_over:
        return _answer(pod, "over", f"It {_OVER[pod.status.phase]}.")
    if pod.spec.node_name:
        since = bound_ms(pod, 0)
        return _answer(
            pod,
            "bound",
            f"It does not wait: it is bound to {pod.spec.node_name}" + (f" since {clock(since)}." if since else "."),
        )
    if pod.spec.scheduler_name not in NAMES:
        ours = ", ".join(sorted(NAMES))
        return _answer(pod, "other", f"spec.schedulerName is {pod.spec.scheduler_name}, which is not one of {ours}.")
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return _answer(pod, "gated", f"It is not considered until its scheduling gates are removed: {gates}.")
    return None


async def _world_of(client: Client) -> World:
    world = World(Policy(over_share=None))
    for kind, hear in needed_by(world):
        for found in await client.list(kind):
            hear(Change(None, found))
    for kind, hear in optional_for(world):
        try:
            there = await client.list(kind)
        except NotFound:  # not served here
            continue
        for found in there:
            hear(Change(None, found))
    return world


def _verdict(world: World, member: Member, now_ms: int) -> Answer:
    if member.hold is not None:
        return _answer(member.pod, "held", f"{member.hold.reason}: {member.hold.message}.", reason=member.hold.reason)
    if member.node:
        once = ""
        if world.is_anyone_leaving(member.node):
            once = " once others that give way to it are gone"
        elif missing := world.surroundings.provisioning.missing(member):
            once = f" once volumes are made there for its claims {', '.join(name for _, name in missing)}"
        return _answer(
            member.pod,
            "starting",
            f"As things are now it starts on {member.node}{once}. If it does not, no scheduler runs.",
        )
    found = explain(world.state.freeze(now_ms), world.plan, member.job)
    if found is None:
        return _answer(member.pod, "waiting", "A bind of it was refused; it is tried again.")
    text = " ".join([paragraph(found), *_budgets(world, found.job)])
    others = world.batches.by_id[member.job].members
    if len(others) > 1:
        text += f" It starts together with {len(others) - 1} other pods."
    facts = dict(found.waiting.facts)
    return _answer(member.pod, "waiting", text, reason=found.waiting.reason.name, facts=facts)


def _budgets(world: World, job: Job) -> Iterator[str]:
    """Whom the job could take from if disruption budgets let them go."""
    if not job.profile.may_preempt:
        yield "It never preempts."
        return
    lower = {run.job.id for run in world.state.running.values() if run.job.priority_class < job.priority_class}
    keeping = [limit for limit in world.state.protection.limits() if any(name in lower for name, _ in limit.covers)]
    if keeping:
        told = ", ".join(f"{limit.name} lets {limit.allowed} go now" for limit in keeping)
        yield f"Disruption budgets keep pods of lower priority: {told}."


def _answer(pod: Pod, state: str, text: str, *, reason: str = "", facts: dict[str, Any] | None = None) -> Answer:
    conditions = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    condition = next(conditions, None)
    return Answer(
        pod="/".join(pod.metadata.key),
        state=state,
        text=tuple(_paragraphs(condition, text)),
        condition=condition,
        reason=reason,
        facts=facts or {},
    )


def _paragraphs(condition: Condition | None, text: str) -> Iterator[str]:
    if condition is not None:
        at = condition.last_transition_time
        since = f" since {clock(int(at.timestamp() * 1000))}" if at is not None else ""
        yield f"PodScheduled is False{since}: {condition.reason}: {condition.message}."
    yield text
