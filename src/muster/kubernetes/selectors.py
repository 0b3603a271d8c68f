"""Selectors of nodes and pods, as the engine's values; and constraints made narrower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from muster.kubernetes import objects
from muster.model.labels import Constraint, Expression, NodeAffinity, Term, Toleration

_NODE_NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class Selector:
    """Demands on labels that must all hold; no demand at all holds of everything."""

    demands: tuple[Expression, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        for demand in self.demands:  # noqa: SIM110 -- half the time of all()
            if not demand.admits(labels.get(demand.key)):
                return False
        return True


def selector_of(selector: objects.LabelSelector | None, also: Mapping[str, str] | None = None) -> Selector | None:
    """Which objects are selected, of those with the labels `also`; None selects nothing, as in Kubernetes."""
    if selector is None and not also:
        return None
    selector = selector or objects.LabelSelector()
    equal = [
        Expression(key=key, operator="In", values=(value,)) for key, value in sorted(selector.match_labels.items())
    ]
    equal += [Expression(key=key, operator="In", values=(value,)) for key, value in sorted((also or {}).items())]
    return Selector((*equal, *map(expression_of, selector.match_expressions)))


def constraint_of(spec: objects.PodSpec) -> Constraint:
    """The nodes that a pod's selector, its required node affinity and its tolerations admit."""
    node = spec.affinity.node_affinity if spec.affinity else None
    return Constraint(
        selector=tuple(sorted(spec.node_selector.items())),
        affinity=affinity_of(node.required) if node and node.required else None,
        tolerations=tuple(
            Toleration(key=each.key, operator=each.operator or "Equal", value=each.value, effect=each.effect)
            for each in spec.tolerations
        ),
    )


def expression_of(requirement: objects.Requirement) -> Expression:
    """One demand of a selector."""
    values = tuple(sorted(set(requirement.values)))
    return Expression(key=requirement.key, operator=requirement.operator, values=values)


def affinity_of(selector: objects.NodeSelector) -> NodeAffinity:
    """Terms of which one must match."""
    return NodeAffinity(terms=tuple(map(_term_of, selector.node_selector_terms)))


def _term_of(term: objects.NodeSelectorTerm) -> Term:
    return Term(
        expressions=tuple(map(expression_of, term.match_expressions)),
        fields=tuple(map(expression_of, term.match_fields)),
    )


def not_on(nodes: Iterable[str]) -> Term:
    """Every node but these."""
    return Term(fields=(Expression(key=_NODE_NAME, operator="NotIn", values=tuple(sorted(nodes))),))


def only_on(node: str) -> NodeAffinity:
    """This node."""
    return NodeAffinity(terms=(Term(fields=(Expression(key=_NODE_NAME, operator="In", values=(node,)),)),))


def narrowed(constraint: Constraint, affinity: NodeAffinity) -> Constraint:
    """The nodes that both admit."""
    if constraint.affinity is None:
        return replace(constraint, affinity=affinity)
    # Terms without demands match nothing. With those of others beside them they would.
    terms = tuple(
        Term(expressions=one.expressions + other.expressions, fields=one.fields + other.fields)
        for one in constraint.affinity.terms
        for other in affinity.terms
        if not is_empty(one) and not is_empty(other)
    )
    return replace(constraint, affinity=NodeAffinity(terms=terms))


def is_empty(term: Term) -> bool:
    """Whether it has no demand, and so matches no node."""
    return not term.expressions and not term.fields
