"""Philly by a plain scheduler, apart from the engine: what the published numbers depend on.

Its protocol leaves things open. With the choices of the publication a few dozen lines give its numbers to the second,
and with Muster's what the engine gives: so what lies between the two is these choices, and nothing else.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from evidence.experiment import Outcome

NODES, WHOLE = 64, 8  # GPUs of a node


class Plain(NamedTuple):
    """A job of the trace; times in seconds."""

    submit: int
    run: int
    gpus: int
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the protocol leaves open, as the publication has it."""

    shortest_of_a_second: bool = True
    """Of jobs that came in the same second the shortest is first, not the one that the trace has first."""

    lends_last_node: bool = True
    """A gang starts on empty nodes, but what it leaves of the last one is for others."""

    passed_over: int | None = 200
    """How many jobs that find no room a round passes over before it gives up; None: any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Who goes first. `shares`: virtual clusters by what they hold for their weight, and in this order among equals."""

    is_strict: bool = False
    by_run_time: bool = False
    shares: Mapping[str, int] | None = None


class Nodes:
    """What is free on each node. A job goes where the least room is left, a gang on the first empty nodes."""

    def __init__(self) -> None:
        self._free = [WHOLE] * NODES

    def take(self, gpus: int, *, lends_last: bool) -> list[tuple[int, int]] | None:
        """GPUs by node, or None where there is no room."""
        free = self._free
        if gpus <= WHOLE:
            room = min((left for left in free if left >= gpus), default=None)
            held = [(free.index(room), gpus)] if room is not None else None
        else:
            needed = -(-gpus // WHOLE)
            empty = [node for node, left in enumerate(free) if left == WHOLE][:needed]
            rest = gpus - WHOLE * (needed - 1) if lends_last else WHOLE
            held = [*((node, WHOLE) for node in empty[:-1]), (empty[-1], rest)] if len(empty) == needed else None
        for node, many in held or ():
            free[node] -= many
        return held

    def give(self, held: Sequence[tuple[int, int]]) -> None:
        """What a job leaves."""
        for node, many in held:
            self._free[node] += many


class Replay:
    """All jobs of a trace under one rule."""

    def __init__(self, jobs: Sequence[Plain], rule: Rule, choices: Choices) -> None:
        self.jobs = sorted(jobs, key=lambda job: job if choices.shortest_of_a_second else job.submit)
        self.start = [0] * len(jobs)
        self._rule, self._choices, self._nodes = rule, choices, Nodes()
        self._held = dict.fromkeys(rule.shares or ("all",), 0)
        self._waiting: dict[str, list[tuple[int, int]]] = {name: [] for name in self._held}
        self._running: list[tuple[int, int, list[tuple[int, int]]]] = []  # until when, which, where

    def run(self) -> None:
        """From the first submission to the last end: at each, all that may start does."""
        came = 0
        while came < len(self.jobs) or self._running:
            arrives = self.jobs[came].submit if came < len(self.jobs) else None
            ends = self._running[0][0] if self._running else None
            now = min(moment for moment in (arrives, ends) if moment is not None)
            while self._running and self._running[0][0] == now:
                _, which, held = heappop(self._running)
                self._nodes.give(held)
                self._held[self._line(which)] -= self.jobs[which].gpus
            while came < len(self.jobs) and self.jobs[came].submit == now:
                rank = self.jobs[came].run if self._rule.by_run_time else 0
                insort(self._waiting[self._line(came)], (rank, came))
                came += 1
            self._round(now)

    def _line(self, which: int) -> str:
        return self.jobs[which].cluster if self._rule.shares else "all"

    def _round(self, now: int) -> None:
        """Start what fits. What is as wide as something that found no room, or wider, finds none either."""
        lends = self._choices.lends_last_node
        passed, most = 0, 1 if self._rule.is_strict else self._choices.passed_over
        too_wide = NODES * WHOLE + 1
        started: dict[str, set[int]] = {}
        for line, place, which in self._in_turn():
            job = self.jobs[which]
            held = self._nodes.take(job.gpus, lends_last=lends) if job.gpus < too_wide else None
            if held is None:
                passed, too_wide = passed + 1, min(too_wide, job.gpus)
                if passed == most or too_wide == 1:
                    break
                continue
            started.setdefault(line, set()).add(place)
            self.start[which] = now
            self._held[line] += job.gpus
            heappush(self._running, (now + job.run, which, held))
        for line, places in started.items():
            kept = [entry for place, entry in enumerate(self._waiting[line]) if place not in places]
            self._waiting[line] = kept

    def _in_turn(self) -> Iterator[tuple[str, int, int]]:
        """Line, place in it and number of the next to be tried, by what its line holds at that moment."""
        shares = self._rule.shares or {"all": 1}
        nexts = {line: 0 for line, waiting in self._waiting.items() if waiting}
        while nexts:
            line = min(nexts, key=lambda name: self._held[name] / shares[name])
            place = nexts[line]
            yield line, place, self._waiting[line][place][1]
            nexts[line] += 1
            if nexts[line] == len(self._waiting[line]):
                del nexts[line]


def replayed(jobs: Sequence[Plain], rule: Rule, choices: Choices, horizon: int) -> Outcome:
    """Means over all jobs, and what was used up to the horizon."""
    replay = Replay(jobs, rule, choices)
    replay.run()
    submit, run, gpus = (np.array([job[place] for job in replay.jobs]) for place in range(3))
    start = np.array(replay.start)
    wait = start - submit
    used = (np.clip(horizon - start, 0, run) * gpus).sum() / (NODES * WHOLE * horizon)
    facts = {"jct": (wait + run).mean(), "wait": wait.mean(), "gangs": wait[gpus > WHOLE].mean(), "used": used}
    return Outcome(facts={name: float(value) for name, value in facts.items()})


def most_used(jobs: Sequence[Plain], horizon: int) -> float:
    """What would be used up to the horizon if every job started the moment it came, on any number of GPUs.

    No schedule uses more: a job can have run for no longer than since it came, unless it is made to run twice.
    """
    return sum(min(job.run, horizon - job.submit) * job.gpus for job in jobs) / (NODES * WHOLE * horizon)
