"""Why pods wait, as the last turn said it: the words of their conditions and Events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from muster.kubernetes.batches import Member
from muster.kubernetes.world import World
from muster.state.why.table import behind, table_of
from muster.state.why.words import sentence


class Said(NamedTuple):
    """A reason and a sentence."""

    reason: str
    message: str


def verdicts(world: World) -> Iterator[tuple[Member, Said]]:
    """What is said of each pod that waits. Pods with scheduling gates are Kubernetes' own to explain."""
    table = table_of(world.state, world.plan)
    looked_at = {wait.job: wait.waiting for wait in table.waits if wait.job}
    for member in world.waiting.values():
        if member.hold is not None:
            yield member, Said(member.hold.reason, member.hold.message)
        elif member.job in world.batches.by_id:
            batch = world.batches.by_id[member.job]
            waiting = looked_at.get(member.job) or behind(batch.job.queue, table.heads)
            yield member, Said(waiting.reason.name, sentence(waiting.reason, waiting.facts))
