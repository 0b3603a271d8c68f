"""What a pod asks for, and where it may go.

Some of that is for the pod to say; some depends on its volumes, and some on the pods around it, and is true only
until those change. What we would not honour is told, never left out: a pod of which `unsupported` says something is
never bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.kubernetes import objects
from muster.kubernetes.amounts import request_of
from muster.kubernetes.neighbours import Neighbours, minds_neighbours
from muster.kubernetes.selectors import constraint_of, narrowed
from muster.kubernetes.volumes import Volumes, ties_of
from muster.model.errors import InvalidValue
from muster.model.labels import Constraint
from muster.model.nodes import Request

_COMPARED = ("Lt", "Gt")
_RESTART_ALL = "RestartAllContainers"
_NOT_LOOKED_AT = "is for nodes that declare it, which is not looked at"
_NOTHING = Request.of({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A pod's demands. `priority` and `may_preempt` are those of its PriorityClass, as the API server resolved it.

    `gates`: until they are removed, its owners do not want it considered. `waits`: the field of which something is
    not there yet, and what that is. `provisions`: claims whose volumes are made where it goes. `unsupported`: the field
    that we do not honour, and what of it.
    """

    request: Request
    constraint: Constraint
    priority: int = 0
    may_preempt: bool = True
    gates: tuple[str, ...] = ()
    waits: str = ""
    provisions: tuple[objects.Key, ...] = ()
    unsupported: str = ""


def ask_of(pod: objects.Pod, neighbours: Neighbours | None = None, volumes: Volumes | None = None) -> Ask:
    """What the pod asks for now. Without `neighbours` or `volumes`, whatever depends on them is not honoured.

    Pods that mind no neighbours may be minded by them: only with `neighbours` is the constraint the whole truth.
    """
    ties = ties_of(pod, volumes)
    constraint = constraint_of(pod.spec)
    for affinity in ties.affinities:
        constraint = narrowed(constraint, affinity)
    if neighbours is not None:
        constraint = neighbours.narrowed(pod, constraint)
    unsupported = _unsupported(pod.spec) or ties.unsupported
    if neighbours is None and not unsupported and (minded := minds_neighbours(pod)):
        unsupported = f"{minded}: what depends on other pods is not honoured"
    try:
        request = request_of(pod.spec)
    except InvalidValue as err:  # more than we count to
        request, unsupported = _NOTHING, str(err)
    return Ask(
        request=request,
        constraint=constraint,
        priority=pod.spec.priority,
        may_preempt=may_preempt(pod.spec.preemption_policy),
        gates=tuple(gate.name for gate in pod.spec.scheduling_gates),
        waits=ties.waits,
        provisions=ties.provisions,
        unsupported=unsupported,
    )


def may_preempt(policy: str) -> bool:
    """What a preemptionPolicy says."""
    return policy != "Never"


def _unsupported(spec: objects.PodSpec) -> str:
    if spec.resource_claims:
        return "spec.resourceClaims: claims of devices are not honoured"
    if spec.host_network and not spec.host_users:
        return f"spec.hostUsers: false beside hostNetwork {_NOT_LOOKED_AT}"
    for index, container in enumerate(spec.containers):
        if any(rule.action == _RESTART_ALL for rule in container.restart_policy_rules):
            return f"spec.containers[{index}].restartPolicyRules: {_RESTART_ALL} {_NOT_LOOKED_AT}"
    for index, toleration in enumerate(spec.tolerations):
        if toleration.operator in _COMPARED:
            return f"spec.tolerations[{index}].operator: {toleration.operator} is not honoured"
    return ""
