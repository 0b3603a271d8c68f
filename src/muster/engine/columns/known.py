"""What kernels and shortcuts know of queues, users, jobs and policies: the fields whose rules they apply themselves.

A rule is written once, in the planner. A kernel or a shortcut may answer only where every other field has its default;
anything else is handed to the planner (`asks_planner`). So a new field takes effect everywhere as soon as the planner
reads it, and costs the speed of kernels only where it is set. Teach a kernel the rule first, then name the field here.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from muster.model.jobs import Job
from muster.model.policy import Policy
from muster.model.queues import Queue, User

_KNOWN: dict[type, frozenset[str]] = {
    Queue: frozenset(
        {
            *("name", "weight", "quota", "excess_budget", "cordoned"),
            # Read when a job is submitted, and never again.
            *("default_time_limit_ms", "default_expected_ms"),
            # No turn reads these.
            *("owners", "labels"),
        }
    ),
    User: frozenset({"name", "quota"}),
    Job: frozenset(
        {
            *("id", "queue", "profile", "submit_ms", "number", "user", "priority_class", "priority", "lifetime_ms"),
            *("expected_ms", "time_limit_ms", "attained", "_key"),
            # No decision about a queued job reads these; held jobs and jobs that come `after` others are in no line.
            *("job_set", "retries", "after", "level", "freezing_ms", "held_by"),
        }
    ),
    Policy: frozenset(
        {
            *("turn_ms", "half_time_ms", "over_share", "weights", "order", "fair_by", "short_first", "order_step_ms"),
            *("reservations", "reservations_in_all", "backfill", "aging_after_ms", "preemption", "gpu_first"),
            *("preempts_for_shares", "evictions_per_turn", "vain_searches_per_turn", "starts_per_turn"),
            *("starts_per_queue", "profiles_deep", "protected_ms", "unknown_end_ms", "reestimate_ms"),
            *("share_memory_ms", "elastic_every_ms", "max_load", "uneven_percent", "width", "resize_cost_ms"),
            *("move_points", "calendar", "cores_per_gpu", "placement", "may_evict_all"),
        }
    ),
}


def asks_planner(thing: Queue | User | Job | Policy) -> bool:
    """Whether a field is set that no kernel knows: then a rule may hold that only the planner applies."""
    kind: type = type(thing)
    return any(getattr(thing, name) != default for name, default in _unknown_fields(kind))


@cache
def _unknown_fields(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields that no kernel knows, with their defaults. A field without a default equals nothing."""
    known = next(names for base, names in _KNOWN.items() if issubclass(kind, base))
    unknown = (field for field in fields(kind) if field.name not in known)
    return tuple(
        (field.name, field.default if field.default_factory is MISSING else field.default_factory())
        for field in unknown
    )
