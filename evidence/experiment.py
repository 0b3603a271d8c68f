"""What an experiment is: cases that can be run one by one, and a chapter that is written from their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any, Protocol

Columns = Mapping[str, Sequence[Any]]
"""A table, column by column: what is kept in a Parquet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a case came to: a few numbers, and the table they were worked out from."""

    facts: Mapping[str, float | int | str]
    table: Columns = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One configuration on one piece of data. `work` must be picklable: a module's function, or a partial of one.

    `key` names it among all cases of its experiment, with parts between slashes: "lublin-1/easy-fcfs".
    """

    key: str
    work: Callable[[], Outcome]


def timed(work: Callable[[], Outcome]) -> tuple[Outcome, float]:
    """What a case comes to, and the seconds of CPU time it takes."""
    began_s = process_time()
    return work(), process_time() - began_s


class Experiment(Protocol):
    """A question, asked of other people's data."""

    name: str  # E1
    title: str

    def cases(self) -> Sequence[Case]:
        """All that must be run, the longest first."""

    def chapter(self, outcomes: Mapping[str, Outcome]) -> str:
        """Its part of docs/evidence.md, from the outcomes of its cases by key; those that were not run are left out."""
