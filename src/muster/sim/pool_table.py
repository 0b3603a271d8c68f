"""The table of pools for people, as ai-scheduler-pools.md prints it."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from muster.sim.table import table
from muster.state.pools import KINDS

_COLUMNS = ("capacity", "allocatable", "used", "shared", "borrowed", "pending", "total")
_ALWAYS = ("cpu", "nodes", "pods")
_SWITCHES = {"p": "preemption", "b": "borrowing", "s": "sharing"}


def show_pools(pools: dict[str, Any]) -> Table:
    """One block for each pool: its switches, then a row for each resource that some pool has or asks for."""
    made = table("pool", *_SWITCHES, "resource", *_COLUMNS)
    there = {name: pool for name, pool in pools.items() if "resources" in pool}
    kinds = [kind for kind in KINDS if any(_is_told(kind, pool["resources"][kind]) for pool in there.values())]
    for name, pool in there.items():
        head = [name, *("✓" if pool[switch] else "x" for switch in _SWITCHES.values())]
        for kind in kinds:
            row = pool["resources"][kind]
            made.add_row(*head, kind, *("no limit" if row[column] is None else row[column] for column in _COLUMNS))
            head = [""] * len(head)
    return made


def _is_told(kind: str, row: dict[str, str | None]) -> bool:
    return kind in _ALWAYS or any(amount != "0" for amount in row.values())
