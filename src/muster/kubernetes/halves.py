"""Whether a gang is half there, and must be completed in time or undone."""

from __future__ import annotations

from collections.abc import Sequence

from muster.kubernetes.batches import Member
from muster.kubernetes.disruptions import gives_way
from muster.kubernetes.jobs import bound_ms, created_ms


def is_half(placed: Sequence[Member], missing: Sequence[Member], least: int, now_ms: int) -> bool:
    """A gang of which a part is bound while the rest was there; or a part was evicted, while the rest was to follow and
    could not.

    One that was bound whole and lost pods in another way is its controller's business.
    """
    if not placed:
        return False
    if len(placed) < least and any(gives_way(member.pod) for member in placed):
        return True
    bound = max(bound_ms(member.pod, now_ms) for member in placed)
    return bool(missing) and max(created_ms(member.pod) for member in missing) <= bound
