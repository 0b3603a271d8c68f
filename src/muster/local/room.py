"""Whether tasks fit beside those that are still about.

To the server room is free the moment a job is told to end; here it is free when its last process is gone. Whoever was
given that room waits for it. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from muster.agent.protocol import Terms
from muster.local.sheets import Sheet, TaskOf

Amounts = Mapping[str, int]

DEVICE_MILLI = 1000


def amounts(terms: Terms, task: TaskOf, node: Amounts) -> Amounts:
    """What a task takes of its node."""
    if terms.whole_node:
        return node
    devices = {f"gpu {device}": terms.gpu for device in task.devices}
    return {"cpu": terms.cpu, "memory": terms.memory, **devices}


def held(tasks: Iterable[tuple[Sheet, TaskOf]], nodes: Mapping[str, Amounts]) -> dict[str, Counter[str]]:
    """What tasks take together, node by node."""
    found: dict[str, Counter[str]] = {}
    for sheet, task in tasks:
        taken = amounts(sheet.terms(task.group), task, nodes.get(task.node, {}))
        found.setdefault(task.node, Counter()).update(taken)
    return found


def is_full(
    nodes: Mapping[str, Amounts], taken: Mapping[str, Counter[str]], wanted: Mapping[str, Counter[str]]
) -> bool:
    """Whether some node has less left than is wanted of it."""
    return any(
        taken.get(name, Counter())[what] + many > nodes.get(name, {}).get(what, 0)
        for name, asks in wanted.items()
        for what, many in asks.items()
        if many
    )
