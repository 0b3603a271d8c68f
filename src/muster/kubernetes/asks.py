"""What a pod asks for, and where it may go by itself: whatever its spec says, and none of its neighbours matters for.

What we would not honour is told, never left out: a pod of which `unsupported` says something is never bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.kubernetes import objects
from muster.kubernetes.amounts import request_of
from muster.model.labels import Constraint, Expression, NodeAffinity, Term, Toleration
from muster.model.nodes import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A pod's demands. `unsupported`: the field that we do not honour, and what of it. `gates`: until they are removed
    the pod is not considered. `priority`: that of its PriorityClass, as the API server resolved it.
    """

    request: Request
    constraint: Constraint
    priority: int = 0
    gates: tuple[str, ...] = ()
    unsupported: str = ""


def ask_of(pod: objects.Pod) -> Ask:
    """What the pod asks for."""
    spec = pod.spec
    return Ask(
        request=request_of(spec),
        constraint=constraint_of(spec),
        priority=spec.priority,
        gates=tuple(gate.name for gate in spec.scheduling_gates),
        unsupported=_unsupported(spec),
    )


def constraint_of(spec: objects.PodSpec) -> Constraint:
    """The nodes that its selector, its required node affinity and its tolerations admit."""
    return Constraint(
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=_node_affinity(spec),
        tolerations=tuple(
            Toleration(key=each.key, operator=each.operator or "Equal", value=each.value, effect=each.effect)
            for each in spec.tolerations
        ),
    )


def _node_affinity(spec: objects.PodSpec) -> NodeAffinity | None:
    node = spec.affinity.node_affinity if spec.affinity else None
    if node is None or node.required is None:
        return None
    return NodeAffinity(terms=tuple(term_of(term) for term in node.required.node_selector_terms))


def term_of(term: objects.NodeSelectorTerm) -> Term:
    """A term of a node selector."""
    return Term(
        expressions=tuple(expression_of(each) for each in term.match_expressions),
        fields=tuple(expression_of(each) for each in term.match_fields),
    )


def expression_of(requirement: objects.Requirement) -> Expression:
    """One demand of a selector."""
    return Expression(key=requirement.key, operator=requirement.operator, values=tuple(sorted(set(requirement.values))))


def _unsupported(spec: objects.PodSpec) -> str:
    if spec.affinity and spec.affinity.pod_affinity and spec.affinity.pod_affinity.required:
        return "spec.affinity.podAffinity: being close to other pods is not honoured"
    if spec.affinity and spec.affinity.pod_anti_affinity and spec.affinity.pod_anti_affinity.required:
        return "spec.affinity.podAntiAffinity: being far from other pods is not honoured"
    if any(each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints):
        return "spec.topologySpreadConstraints: DoNotSchedule is not honoured"
    if any(port.host_port for container in spec.containers for port in container.ports):
        return "spec.containers.ports: host ports are not honoured"
    if any(each.persistent_volume_claim or each.ephemeral for each in spec.volumes):
        return "spec.volumes: claims of volumes are not honoured"
    if spec.resource_claims:
        return "spec.resourceClaims: claims of devices are not honoured"
    return ""
