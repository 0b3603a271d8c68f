"""What a server survived, as a row of the table in docs/reliability.md. `MUSTER_RELIABILITY` names that file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from ledger import Ledger

VICTIMS = ("server", "agent", "database")
KILLS = " | ".join(f"kills of the {victim}" for victim in VICTIMS)
HEAD = f"| database | {KILLS} | jobs | attempts | lost | run twice | seed | time |"


@dataclass(frozen=True)
class Survived:
    """How often whom was killed, the jobs that were acknowledged, and what the agent's ledger says became of them."""

    kind: str
    kills: Mapping[str, int]
    acknowledged: Sequence[str]
    ledger: Ledger
    seed: str
    took_s: float

    def row(self) -> str:
        """As the table has it."""
        lost = len(set(self.acknowledged) - set(self.ledger.succeeded))
        twice = len(self.ledger.began_twice) + sum(times > 1 for times in self.ledger.succeeded.values())
        kills = [str(self.kills.get(it, 0)) for it in VICTIMS]
        jobs, attempts = len(self.acknowledged), len(self.ledger.began)
        cells = [self.kind, *kills, jobs, attempts, lost, twice, f"`{self.seed}`", f"{self.took_s:.0f} s"]
        return f"| {' | '.join(map(str, cells))} |"


def note(survived: Survived) -> None:
    """Put the row into the document, in the place of the one that the same database had."""
    name = os.environ.get("MUSTER_RELIABILITY")
    if name:
        path = Path(name)
        path.write_text(with_row(path.read_text(encoding="utf-8"), survived), encoding="utf-8")


def with_row(text: str, survived: Survived) -> str:
    """The document with that row."""
    lines = text.splitlines()
    first = lines.index(HEAD) + 2
    rows = list(takewhile(lambda line: line.startswith("| "), lines[first:]))
    others = [row for row in rows if not row.startswith(f"| {survived.kind} |")]
    return "\n".join([*lines[:first], *sorted([*others, survived.row()]), *lines[first + len(rows) :]]) + "\n"
