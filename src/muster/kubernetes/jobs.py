"""Which pods start together, and the job that the engine sees of them (kube-arbitrator-gang.md, rules 1 to 5).

Pods of one gang are those that name one PodGroup, or share a controller that has a SchedulingSpec; any other pod is a
gang of one. A gang starts when its least number of pods can; pods beyond that start by themselves, once it has.

Pure. Why pods beyond the least are jobs of their own, and not width: docs/adr/0044-kube-scheduler.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from muster.kubernetes.asks import Ask, may_preempt
from muster.kubernetes.groups import GROUP_LABEL, NativeGroup, PluginGroup, PriorityClass, SchedulingSpec
from muster.kubernetes.objects import Key, Owner, Pod
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.labels import Constraint
from muster.model.nodes import Request
from muster.model.pools import DEFAULT_POOL, as_pool

KAR = "kar-scheduler"
NAMES = frozenset({"muster", "ai-scheduler", KAR})
QUEUE_LABEL, USER_LABEL = "muster.dev/queue", "muster.dev/user"
POOL_ANNOTATIONS = ("muster.dev/pool", "resource.aibee.cn/pool")

TIMEOUT_MS = 60_000  # for which a gang that is half bound is tried to be completed, unless its PodGroup says
POD, PLUGIN, NATIVE = "pod", "pod-group", "podgroup"


class Gang(NamedTuple):
    """Pods that belong together. `kind` is that of their controller, if it is that which keeps them together."""

    kind: str
    namespace: str
    name: str
    uid: str = ""

    @property
    def id(self) -> str:
        """What its job is called; a pod by itself as people call it."""
        return f"{self.namespace}/{self.name}" if self.kind == POD else f"{self.namespace}/{self.kind}/{self.name}"


class Hold(NamedTuple):
    """Why a pod does not even stand in line."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a gang is scheduled; what is None is for its pods to say. `hold`: what must be there first."""

    least: int = 1
    priority: int | None = None
    may_preempt: bool | None = None
    selector: tuple[tuple[str, str], ...] = ()
    timeout_ms: int = TIMEOUT_MS
    hold: Hold | None = None


ALONE = Terms()


@dataclass(slots=True)
class Groups:
    """Everything that groups pods, as it is now."""

    specs: dict[tuple[str, str], dict[str, SchedulingSpec]] = field(default_factory=dict)  # by the controller's uid
    plugin: dict[Key, PluginGroup] = field(default_factory=dict)
    native: dict[Key, NativeGroup] = field(default_factory=dict)
    classes: dict[Key, PriorityClass] = field(default_factory=dict)

    def spec_of(self, namespace: str, controller: Owner | None) -> SchedulingSpec | None:
        """The SchedulingSpec with that controller; of several, the first by name."""
        found = self.specs.get((namespace, controller.uid)) if controller else None
        return found[min(found)] if found else None

    def gang_of(self, pod: Pod) -> Gang:
        """The gang that a pod is of."""
        meta, group = pod.metadata, pod.spec.scheduling_group
        if group is not None and group.pod_group_name:
            return Gang(NATIVE, meta.namespace, group.pod_group_name)
        if meta.labels.get(GROUP_LABEL):
            return Gang(PLUGIN, meta.namespace, meta.labels[GROUP_LABEL])
        controller = meta.controller
        if controller is not None and self.spec_of(meta.namespace, controller) is not None:
            return Gang(controller.kind.lower(), meta.namespace, controller.name, controller.uid)
        return Gang(POD, meta.namespace, meta.name, meta.uid)

    def terms_of(self, gang: Gang, pod: Pod) -> Terms:
        """How a gang is scheduled, of which `pod` is one."""
        if gang.kind == NATIVE:
            return self._native(gang)
        if gang.kind == PLUGIN:
            return self._plugin(gang)
        spec = self.spec_of(gang.namespace, pod.metadata.controller)
        if spec is not None:
            return self._specified(spec)
        if pod.spec.scheduler_name == KAR:  # rule 2
            return Terms(hold=Hold("SCHEDULING_SPEC_MISSING", "there is no SchedulingSpec with its controller yet"))
        return ALONE

    def _native(self, gang: Gang) -> Terms:
        group = self.native.get((gang.namespace, gang.name))
        if group is None:
            return _without_group(gang)
        policy = group.spec.scheduling_policy.gang
        return ALONE if policy is None else Terms(least=policy.min_count)

    def _plugin(self, gang: Gang) -> Terms:
        group = self.plugin.get((gang.namespace, gang.name))
        if group is None:
            return _without_group(gang)
        timeout_s = group.spec.schedule_timeout_seconds
        return Terms(least=group.spec.min_member, timeout_ms=timeout_s * 1000 if timeout_s else TIMEOUT_MS)

    def _specified(self, spec: SchedulingSpec) -> Terms:
        terms, name = spec.spec, spec.spec.priority_class_name
        hold = may_take = None
        priority = terms.priority
        if priority is None and name:
            if (known := self.classes.get(("", name))) is not None:
                priority, may_take = known.value, may_preempt(known.preemption_policy)
            else:
                hold = Hold(
                    "PRIORITY_CLASS_MISSING", f"its SchedulingSpec names a PriorityClass that is not there: {name}"
                )
        selector = tuple(sorted(terms.node_selector.items()))
        return Terms(least=terms.min_available, priority=priority, may_preempt=may_take, selector=selector, hold=hold)


def _without_group(gang: Gang) -> Terms:
    return Terms(hold=Hold("POD_GROUP_MISSING", f"there is no PodGroup {gang.namespace}/{gang.name} yet"))


# --- who starts with whom ----------------------------------------------------------------------


def by_age(pod: Pod) -> tuple[datetime | None, str]:
    """Older pods first."""
    return (pod.metadata.creation_timestamp, pod.metadata.name)


@dataclass(frozen=True, slots=True)
class Arranged:
    """How waiting pods stand in line: these start together, each of those alone, and the others not yet."""

    together: int = 0
    alone: int = 0
    hold: Hold | None = None


def arranged(terms: Terms, placed: int, waiting: int) -> Arranged:
    """How so many waiting pods, the oldest first, stand in line, when so many of their gang have a place already."""
    if terms.hold is not None:
        return Arranged(hold=terms.hold)
    need = terms.least - placed
    if terms.least <= 1 or need <= 0:
        return Arranged(alone=waiting)
    if waiting < need:
        there = f"{placed + waiting} of {terms.least} pods that must start together are there"
        return Arranged(hold=Hold("GANG_INCOMPLETE", there))
    return Arranged(
        together=need, hold=Hold("GANG_FIRST", f"it starts after the {terms.least} pods that its gang needs at least")
    )


# --- the engine's job --------------------------------------------------------------------------


class Grouped(NamedTuple):
    """A job, and the name of the task group that each of its pods is in, in their order."""

    job: Job
    groups: tuple[str, ...]


def job_of(name: str, pods: Sequence[tuple[Pod, Ask]], terms: Terms, number: int = 0) -> Grouped:
    """The job of pods that start together. Pods that ask for the same are one task group.

    `number` is its place among those made in the same second: nothing finer is written on pods.
    """
    first = pods[0][0].metadata
    shapes: dict[tuple[Request, Constraint], int] = {}
    for _, ask in pods:
        shapes[_shape(ask, terms)] = shapes.get(_shape(ask, terms), 0) + 1
    names = {shape: f"pods-{number}" if number else "pods" for number, shape in enumerate(shapes)}
    widths = tuple((names[shape], width, *shape) for shape, width in shapes.items())
    may_take = all(ask.may_preempt for _, ask in pods) if terms.may_preempt is None else terms.may_preempt
    job = Job(
        id=name,
        queue=first.labels.get(QUEUE_LABEL) or first.namespace,
        profile=_profile(widths, pool_named_by(pods[0][0]), may_preempt=may_take),
        submit_ms=min(created_ms(pod) for pod, _ in pods),
        number=number,
        user=first.labels.get(USER_LABEL, ""),
        priority_class=max(ask.priority for _, ask in pods) if terms.priority is None else terms.priority,
    )
    return Grouped(job, tuple(names[_shape(ask, terms)] for _, ask in pods))


def created_ms(pod: Pod) -> int:
    """When the pod was made."""
    made = pod.metadata.creation_timestamp
    return 0 if made is None else int(made.timestamp() * 1000)


def bound_ms(pod: Pod, now_ms: int) -> int:
    """When a pod was bound; now, if that is not to be seen yet."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return int(condition.last_transition_time.timestamp() * 1000)
    return now_ms


def _shape(ask: Ask, terms: Terms) -> tuple[Request, Constraint]:
    if not terms.selector:
        return ask.request, ask.constraint
    both = tuple(sorted({*ask.constraint.selector, *terms.selector}))  # one key with two values admits no node
    return ask.request, replace(ask.constraint, selector=both)


def pool_named_by(pod: Pod) -> str:
    """The pool that a pod says it is of; the default pool, if it says nothing."""
    annotations = pod.metadata.annotations
    named = next((annotations[name] for name in POOL_ANNOTATIONS if annotations.get(name)), DEFAULT_POOL)
    return as_pool(named)


@lru_cache(maxsize=4096)
def _profile(widths: Iterable[tuple[str, int, Request, Constraint]], pool: str, *, may_preempt: bool) -> Profile:
    groups = tuple(
        TaskGroup(name=name, min=width, initial=width, max=width, request=request, constraint=constraint)
        for name, width, request, constraint in widths
    )
    return Profile(groups=groups, pool=pool, may_preempt=may_preempt)
