"""Queues and users: who shares the fleet, and what each may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.resources import MICRO

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A line of jobs with a share. Amounts of quotas are base units; the budget is micro-units × ms.

    The defaults are for jobs that are submitted from now on and say nothing of their own. `owners` are the names of
    people who operate it; `labels` are for people and their tools. No turn reads either.
    """

    name: str
    weight: int = MICRO
    quota: Mapping[str, int] = field(default_factory=dict)
    excess_budget: int | None = None
    cordoned: bool = False
    default_time_limit_ms: int | None = None
    default_expected_ms: int | None = None
    owners: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def times_of(self, expected_ms: int | None, time_limit_ms: int | None) -> tuple[int | None, int | None]:
        """The expected run time and the time limit of a job that says these: a limit is never below what it expects."""
        if expected_ms is None and time_limit_ms is None:
            expected_ms = self.default_expected_ms
        if time_limit_ms is None and self.default_time_limit_ms is not None:
            time_limit_ms = max(self.default_time_limit_ms, expected_ms or 0)
        return expected_ms, time_limit_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person, with what all their jobs together may hold."""

    name: str
    quota: Mapping[str, int] = field(default_factory=dict)
