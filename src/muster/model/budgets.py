"""Disruption budgets: how many tasks of a group its owner wants to keep while others may be served in its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At least so many tasks of a job's group are to stay while it runs. A preference (docs/adr/0022)."""

    job: str
    group: str
    min_available: int
