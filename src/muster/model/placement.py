"""Which of the nodes that fit a task gets: the rules an operator may choose from, and what they are told.

Why there are several, and which to choose: docs/concepts/placement.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from muster.model.labels import ANYWHERE, Constraint
from muster.model.nodes import Request

MOST_LEARNED = 64  # kinds of tasks that a turn tells apart by itself; rarer ones count as others like them


class PlacementRule(Enum):
    """How nodes that fit are compared; ties go by node order."""

    TIGHTEST = "tightest"
    FRAGMENTATION = "fragmentation"
    GRADIENT = "fgd"
    BEST_FIT = "bestFit"
    DOT_PRODUCT = "dotProduct"
    PACKING = "packing"
    RANDOM = "random"

    @property
    def knows_typical(self) -> bool:
        """Whether it asks what typical tasks could still use."""
        return self in (PlacementRule.FRAGMENTATION, PlacementRule.GRADIENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """A kind of task that is expected to come: what it asks for, where it may be, and how many there are of it."""

    request: Request
    constraint: Constraint = ANYWHERE
    count: int = 1

    @property
    def order(self) -> tuple[object, ...]:
        """Most frequent first; then by what they ask for, so that nothing depends on who was seen first."""
        asks, where = self.request, self.constraint
        named = repr((where.selector, where.affinity, where.tolerations))
        return (-self.count, tuple(asks.resources.items()), asks.gpus, asks.gpu_milli, asks.whole_node, named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The rule, and what it needs. `seed` is for RANDOM; no `typical`: those that run and wait are."""

    rule: PlacementRule = PlacementRule.TIGHTEST
    seed: int = 0
    typical: tuple[Typical, ...] = ()


TIGHTEST = Placement()
