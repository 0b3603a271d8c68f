"""How often a job is tried again, counted by what ended its attempts.

`failed`: an attempt ended by the job's own fault. `lost`: its node, its agent or its cluster was gone. `preempted`: it
gave way to another job. Unless someone says otherwise no failure is forgiven, and everything else always.
"""

from __future__ import annotations

from typing import NamedTuple

FAILED, LOST, PREEMPTED = "failed", "lost", "preempted"
DRAINED = "drained"  # an operator emptied its node: that costs the job nothing

COUNTED = {FAILED: "failures", LOST: "losses", PREEMPTED: "preemptions"}
"""What ends attempts that are counted, and the name of the count wherever it is shown."""


class Retries(NamedTuple):
    """How many attempts that ended so a job is forgiven; None: all of them."""

    failed: int = 0
    lost: int | None = None
    preempted: int | None = None

    def refusal(self, cause: str, times: int) -> str | None:
        """Why the job is not tried again after so many attempts ended so, in plain words; None: it is."""
        allowed: int | None = getattr(self, cause)
        if allowed is None or times <= allowed:
            return None
        return f"{cause} {'once' if times == 1 else f'{times} times'}; retries.{cause} allows {allowed}"


NO_RETRIES = Retries()
