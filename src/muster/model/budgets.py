"""What keeps tasks from being evicted: disruption budgets, which are preferences, and limits, which are walls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At least so many tasks of a job's group are to stay while it runs. A preference (docs/adr/0022)."""

    job: str
    group: str
    min_available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionLimit:
    """Whoever carries evictions out would refuse more than `allowed` of the tasks that this covers, as things stand.

    `covers`: of each job, how many of its tasks; those that come first, where that makes a difference (docs/adr/0046).
    """

    name: str
    allowed: int
    covers: tuple[tuple[str, int], ...]
