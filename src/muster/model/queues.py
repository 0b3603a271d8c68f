"""Queues and users: who shares the fleet, and what each may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.resources import MICRO

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A line of jobs with a share. Amounts of quotas are base units; the budget is micro-units × ms."""

    name: str
    weight: int = MICRO
    quota: Mapping[str, int] = field(default_factory=dict)
    excess_budget: int | None = None
    cordoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person, with what all their jobs together may hold."""

    name: str
    quota: Mapping[str, int] = field(default_factory=dict)
