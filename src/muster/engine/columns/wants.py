"""What queues want, kept from turn to turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from muster.model.resources import NOTHING, Resources, Weights
from muster.model.snapshot import QueueState


class Want(NamedTuple):
    """What a queue, as it is in this state, wants and could have; without what can `never` start."""

    state: QueueState
    never: Resources
    could_have: Resources
    usage: int


class Known:
    """What queues wanted when someone last asked: most are as they were then."""

    def __init__(self) -> None:
        self._last: tuple[Resources, Weights | None, dict[str, Want]] = (NOTHING, None, {})

    def wants_of(
        self, queues: Iterable[QueueState], capacity: Resources, weights: Weights, never: Mapping[str, Resources]
    ) -> dict[str, Want]:
        """What each queue wants and could have of the capacity."""
        known = self._last[2] if self._last[:2] == (capacity, weights) else {}
        wants: dict[str, Want] = {}
        for state in queues:
            name = state.queue.name
            hopeless, last = never.get(name, NOTHING), known.get(name)
            if last is None or last.state is not state or last.never != hopeless:
                could_have = (state.demand - hopeless).capped(state.queue.quota).lowest(capacity)
                last = Want(state, hopeless, could_have, weights.usage(could_have))
            wants[name] = last
        self._last = (capacity, weights, wants)  # at once: whoever asks about an earlier turn may do so meanwhile
        return wants
