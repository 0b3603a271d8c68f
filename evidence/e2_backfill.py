"""E2, backfilling and slowdown: RLScheduler's sequences, and whole logs with what users asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import NamedTuple

import numpy as np

from evidence.e2_choices import MOST, Asked, asked, replay_key, section
from evidence.e2_choices import cases as replays
from evidence.e2_plain import Choices
from evidence.experiment import Case, Columns, Outcome
from evidence.simulating import fairness_facts, job_table, measured
from evidence.traces import trace
from evidence.writing import bar, table
from muster.model.order import ARRIVAL, NAMED, Order
from muster.model.policy import SECOND_MS, Policy, Preemption
from muster.sim.measures import Measured
from muster.sim.scenario.scenario import Scenario
from muster.sim.traces import swf
from muster.sim.traces.formats import from_zero, in_order
from muster.sim.traces.loading import on_machine
from muster.sim.traces.shaping import Machine

STARTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
SEQUENCE = 1024
NEVER_MS = 1 << 50

OURS = Order(expected=920, size=1090, waited=10_610, patience_ms=278_915 * SECOND_MS, floor_ms=24 * SECOND_MS)
"""Chosen on Lublin-1: a smaller area goes first, and after some days of waiting hardly anything does."""


def _policy(order: Order = ARRIVAL, *, backfill: bool = True) -> Policy:
    """EASY: one reservation, for the first in line."""
    return Policy(
        order=order,
        backfill=backfill,
        over_share=None,
        preemption=Preemption.OFF,
        aging_after_ms=NEVER_MS,
        elastic_every_ms=None,
        profiles_deep=1000,
    )


POLICIES = {
    "fcfs": _policy(backfill=False),
    "easy-fcfs": _policy(),
    "easy-sjf": _policy(NAMED["shortest"]),
    "easy-saf": _policy(NAMED["smallest"]),
    "easy-wfp3": _policy(NAMED["wfp3"]),
    "easy-slowdown": _policy(NAMED["slowdown"]),
    "muster": _policy(OURS),
}
SEQUENCES = {"lublin-1": "lublin_256.swf.gz", "lublin-2": "lublin_256_new2.swf.gz"}


class Log(NamedTuple):
    """A whole log, and under which policies it runs; RICC's users are queues of their own under Muster."""

    file: str
    processors: int
    policies: tuple[str, ...]
    users_are_queues: bool = False


LOGS = {
    "ricc": Log("RICC-2010-2.swf.gz", 8192, ("easy-fcfs", "muster"), users_are_queues=True),
    "kth": Log("KTH-SP2-1996-2.1-cln.swf.gz", 100, ("easy-fcfs", "easy-sjf", "easy-saf", "muster")),
    "mira": Log("mira_walltime.swf.gz", 49_152, ("easy-fcfs", "easy-sjf", "easy-saf", "muster")),
}


_FILES = {name: (log.file, log.processors) for name, log in LOGS.items()}
ASKED = asked(_FILES | {name: (file, 256) for name, file in SEQUENCES.items()}, STARTS)
RICC = Asked(LOGS["ricc"].file, LOGS["ricc"].processors, Choices(), "", None)


def sequences(log: str, policy: str) -> Outcome:
    """Ten sequences of a synthetic log on an empty machine each; run times are known."""
    machine, rows = Machine(1, 256), []
    for start in STARTS:
        reading = swf.Reading(expected=swf.Expected.EXACT, first=start, many=SEQUENCE)
        path = str(trace("swf", SEQUENCES[log]))
        entries = tuple(from_zero(in_order(swf.jobs(path, machine, reading), path)))
        found = measured(on_machine(machine, entries, Scenario(policy=POLICIES[policy])))
        rows.append((start, *_slowdown(found)))
    columns: Columns = dict(zip(("start", "slowdown", "wait", "most"), zip(*rows, strict=True), strict=True))
    facts = {name: mean(columns[name]) for name in ("slowdown", "wait", "most")}
    return Outcome(facts=facts, table={name: list(values) for name, values in columns.items()})


def whole_log(name: str, policy: str) -> Outcome:
    """A log as users submitted it, with the times they asked for."""
    log = LOGS[name]
    machine, path = Machine(1, log.processors), str(trace("swf", log.file))
    by = swf.QueueBy.USER if log.users_are_queues and policy == "muster" else swf.QueueBy.ONE
    entries = tuple(from_zero(in_order(swf.jobs(path, machine, swf.Reading(queue_by=by)), path)))
    found = measured(on_machine(machine, entries, Scenario(policy=POLICIES[policy])))
    slowdown, wait, most = _slowdown(found)
    facts = {"slowdown": slowdown, "wait": wait, "most": most, "used": found.used["cpu"], **fairness_facts(found)}
    return Outcome(facts=facts, table=job_table(found))


def _slowdown(found: Measured) -> tuple[float, float, float]:
    """Mean bounded slowdown, mean wait and longest wait; in seconds."""
    jobs = found.jobs
    wait_s, run_s = (jobs.start - jobs.submit) / 1000, (jobs.end - jobs.start) / 1000
    slowdown = np.maximum((wait_s + run_s) / np.maximum(run_s, 10), 1)
    return float(slowdown.mean()), float(wait_s.mean()), float(wait_s.max())


class Backfill:
    """EASY backfilling under several orders."""

    name = "E2"
    title = "backfilling and slowdown (Lublin sequences, KTH-SP2, Mira, RICC)"

    def cases(self) -> Sequence[Case]:
        """All that must be run, the longest first."""
        logs = [
            Case(key=f"{name}/{policy}", work=partial(whole_log, name, policy))
            for name, log in LOGS.items()
            for policy in log.policies
        ]
        short = [
            Case(key=f"{log}/{policy}", work=partial(sequences, log, policy))
            for log in SEQUENCES
            for policy in POLICIES
        ]
        return [*logs, *short, *replays(ASKED, RICC)]

    def chapter(self, outcomes: Mapping[str, Outcome]) -> str:
        """Its part of docs/evidence.md."""
        return "\n".join([*_of_sequences(outcomes), "", *_of_logs(outcomes), "", *section(ASKED, outcomes)])


PUBLISHED = {
    "fcfs": ("7,273.77 / 7,842.47", "RLScheduler, without backfilling"),
    "easy-fcfs": ("271.40 / 222.25", "independent textbook EASY; RLScheduler's own backfilling 235.82 / 247.61"),
    "easy-sjf": ("–", "RLScheduler's own backfilling 73.31 / 91.99"),
    "easy-saf": ("34.38 / 72.73", "independent textbook EASY"),
    "easy-wfp3": ("81.09 / 71.34", "independent textbook EASY"),
    "easy-slowdown": ("–", ""),
    "muster": ("–", "RLScheduler with learning: 58.64 / 118.79"),
}


def _of_sequences(outcomes: Mapping[str, Outcome]) -> list[str]:
    facts = {key: outcome.facts for key, outcome in outcomes.items()}

    def told(log: str, policy: str, fact: str) -> float:
        return float(facts[f"{log}/{policy}"][fact])

    known = [policy for policy in POLICIES if all(f"{log}/{policy}" in outcomes for log in SEQUENCES)]
    if not {"muster", "easy-fcfs"} <= set(known):
        return []
    rows = [
        [
            f"**{policy}**" if policy == "muster" else policy,
            PUBLISHED[policy][0],
            told("lublin-1", policy, "slowdown"),
            told("lublin-1", policy, "most"),
            told("lublin-2", policy, "slowdown"),
            told("lublin-2", policy, "most"),
            PUBLISHED[policy][1],
        ]
        for policy in known
    ]
    bars = []
    for log, most in (("lublin-1", 34.4), ("lublin-2", 71.3)):
        own, fcfs = told(log, "muster", "most"), told(log, "easy-fcfs", "most")
        slowdown = told(log, "muster", "slowdown")
        bars.append(bar(f"{log}: mean bounded slowdown {slowdown:.2f} (bar {most})", slowdown <= most))
        bars.append(bar(f"{log}: longest wait {own / fcfs:.2f} × EASY-FCFS's (bar 1.5)", own <= 1.5 * fcfs))
    return [
        "Ten sequences of 1,024 jobs on an empty machine of 256 processors, run times known (RLScheduler, SC'20). Mean"
        " bounded slowdown (threshold 10 s), and the longest wait of a sequence in seconds, both as means over the"
        " sequences. Muster's order was chosen on Lublin-1; Lublin-2 was not looked at for that.",
        "",
        *table(
            ["policy", "published", "Lublin-1", "longest wait", "Lublin-2 (held out)", "longest wait", "where"], rows
        ),
        "",
        *bars,
    ]


_RECORDED = {
    "kth": ("193.40 / 15,296", 69.95, 6010.0),
    "mira": ("50.69 / 52,676", 36.42, 38_979.0),
    "ricc": ("22.30 / 15,971", 22.30, 15_971.0),
}
_EASY = {"kth": "89.43 / 6,832", "mira": "45.42 / 47,710", "ricc": "482.09 / 36,421"}


def _of_logs(outcomes: Mapping[str, Outcome]) -> list[str]:
    rows, bars = [], []
    for name, log in LOGS.items():
        rows.append([name, "as recorded", _RECORDED[name][0], *["–"] * 7])
        known = [policy for policy in log.policies if f"{name}/{policy}" in outcomes]
        if not {"muster", "easy-fcfs"} <= set(known):
            bars.append(bar(f"{name}: not run", False))
            continue
        for policy in known:
            told = {fact: float(value) for fact, value in outcomes[f"{name}/{policy}"].facts.items()}
            published = _EASY[name] if policy == "easy-fcfs" else "–"
            own = [told[fact] for fact in ("slowdown", "wait", "most", "used")]
            fair = [told[fact] for fact in ("shortfall", "worst_hour", "jain")]
            rows.append([name, f"**{policy}**" if policy == "muster" else policy, published, *own, *fair])
        ours = {fact: float(value) for fact, value in outcomes[f"{name}/muster"].facts.items()}
        easy = {fact: float(value) for fact, value in outcomes[f"{name}/easy-fcfs"].facts.items()}
        _, slowdown, wait = _RECORDED[name]
        bars.append(bar(f"{name}: slowdown {ours['slowdown']:.2f} (bar {slowdown})", ours["slowdown"] < slowdown))
        if name == "ricc":
            words = f"{name}: utilisation {ours['used']:.4f} (bar .889{_at_most(outcomes)})"
            bars.append(bar(words, ours["used"] >= 0.889))
            continue
        bars.append(bar(f"{name}: mean wait {ours['wait']:,.0f} s (bar {wait:,.0f})", ours["wait"] < wait))
        words = f"{name}: longest wait {ours['most']:,.0f} s (EASY-FCFS {easy['most']:,.0f}{_of_sjf(name, outcomes)})"
        bars.append(bar(words, ours["most"] <= easy["most"]))
    headings = ["log", "policy", "published slowdown / wait", "slowdown", "mean wait", "longest wait", "used"]
    return [
        "Whole logs with the times users asked for. RICC under Muster has one queue per user, of equal weight; all"
        " others have one queue, where shares mean nothing and shortfall and Jain's index are those of one.",
        "",
        *table([*headings, "shortfall", "worst hour", "Jain"], rows),
        "",
        *bars,
        "",
        "RICC's utilisation goes by the end of its last job. Two jobs of 8,000 of the 8,192 processors, which asked for"
        " 21,600 s, ran for 88,224 and 195,981 s. Muster's order lets them wait until hardly anyone else is left, and"
        " then they have the machine to themselves; whoever starts them sooner stops everyone else for three days.",
    ]


def _of_sjf(log: str, outcomes: Mapping[str, Outcome]) -> str:
    """The longest wait of EASY-FCFS that backfills the shortest first, which the bar asks us to beat otherwise."""
    replayed = outcomes.get(replay_key(f"{log}/fcfs-sjf", own=False))
    return f"; with the shortest backfilled first {float(replayed.facts['most']):,.0f}" if replayed else ""


def _at_most(outcomes: Mapping[str, Outcome]) -> str:
    """What no schedule can beat, if it was worked out."""
    most = outcomes.get(MOST)
    return f"; {float(most.facts['used']):.4f} if the last job ends as soon as it can" if most else ""


EXPERIMENT = Backfill()
