"""E3, fairness, gangs and utilisation: two months of Microsoft's Philly cluster, pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np

from evidence.e3_choices import MOST, section
from evidence.e3_choices import cases as replays
from evidence.e3_shares import Watch
from evidence.experiment import Case, Outcome
from evidence.traces import trace
from evidence.writing import bar, table
from muster.model.nodes import DEVICE_MILLI
from muster.model.policy import FairBy, Policy, Preemption
from muster.model.queues import MINUTE_MS, Queue
from muster.model.resources import GPU, MICRO
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation, settle_memory
from muster.sim.traces import philly
from muster.sim.traces.loading import on_machine
from muster.sim.traces.shaping import Machine

WEIGHTS = {
    "6214e9": 64,
    "7f04ca": 32,
    "11cb48": 16,
    "b436b2": 64,
    "ee9e8c": 64,
    "e13805": 16,
    "6c71a0": 32,
    "2869ce": 16,
    "ed69ec": 8,
    "103959": 8,
    "0e4a51": 32,
}
SINCE, HALF, UNTIL = (datetime(2017, month, 1, tzinfo=UTC) for month in (10, 11, 12))
HORIZON_MS = int((UNTIL - SINCE).total_seconds()) * 1000
HALF_MS = int((HALF - SINCE).total_seconds()) * 1000
READING = philly.Reading(since=SINCE, until=UNTIL, clusters=frozenset(WEIGHTS))
HOUR_MS = 60 * MINUTE_MS
NEVER_MS = 1 << 50


def _policy(**changes: object) -> Policy:
    plain: dict[str, object] = {
        "over_share": None,
        "fair_by": FairBy.FLOW,  # the logs are compared with what was published of fair shares by use
        "preemption": Preemption.OFF,
        "elastic_every_ms": None,
        "reestimate_ms": 10 * MINUTE_MS,
        "aging_after_ms": NEVER_MS,
        "half_time_ms": 1,  # what was used a moment ago is forgotten
    }
    return Policy(**{**plain, **changes})  # type: ignore[arg-type]


POLICIES: Mapping[str, tuple[Policy, bool]] = {
    "fifo-strict": (_policy(backfill=False), False),
    "fifo-skip": (_policy(reservations=0), False),
    "fair-skip": (_policy(reservations=0), True),
    "muster": (
        _policy(
            aging_after_ms=HOUR_MS,
            reservations=0,
            preemption=Preemption.ON,
            preempts_for_shares=False,
            short_first=500,
        ),
        True,
    ),
}
"""Each with whether virtual clusters are queues; else there is one for all."""


PUBLISHED = {
    "fifo-strict": (307_244, 295_764, 425_435, 0.863, "36.7 % (72.6)"),
    "fifo-skip": (40_601, 29_120, 996_433, 0.887, "30.2 % (72.6)"),
    "fair-skip": (21_844, 10_363, 1_034_549, 0.885, "22.0 % (70.0)"),
}


def pooled(policy: str) -> Outcome:
    """All jobs of eleven virtual clusters on 64 nodes of 8 GPUs; nobody knows how long anything runs."""
    rules, has_queues = POLICIES[policy]
    machine = Machine(64, 8, GPU)
    reading = replace(READING, lifetime_ms=0 if rules.preemption is Preemption.ON else None)
    found = philly.jobs(str(trace("philly", "philly.csv.gz")), machine, reading)
    entries = [_owned(entry, has_queues=has_queues) for entry in found]
    queues = [Queue(name=name, weight=weight * MICRO) for name, weight in WEIGHTS.items()] if has_queues else []
    scenario = on_machine(machine, entries, Scenario(policy=rules, queues=tuple(queues)))
    gpus = {entry.job.id: entry.job.profile.least.get(GPU) // DEVICE_MILLI for entry in entries}
    simulation = Simulation(scenario, estimates=False, tells_why=False)
    watch = Watch(entries, gpus, WEIGHTS, machine.units, HORIZON_MS)
    settle_memory()
    for tick in simulation:
        watch.add(tick.moment)
    return _outcome(entries, watch)


def _owned(entry: ScriptJob, *, has_queues: bool) -> ScriptJob:
    """The virtual cluster is its user; and its queue, where there is more than one."""
    job = entry.job
    return replace(entry, job=replace(job, user=job.queue, queue=job.queue if has_queues else "all"))


def _outcome(entries: Sequence[ScriptJob], watch: Watch) -> Outcome:
    ids = [entry.job.id for entry in entries]
    submit, run = (np.array(each) for each in zip(*((e.job.submit_ms, e.runtime_ms) for e in entries), strict=True))
    first, end = (np.array([known[name] for name in ids]) for known in (watch.first_ms, watch.end_ms))
    width = np.array([watch.gpus[name] for name in ids])
    is_second = submit >= HALF_MS
    facts = {"preempted": watch.preempted, **watch.facts()}
    for name, which in (("all", submit >= 0), ("held_out", is_second)):
        facts[f"jct_{name}"] = float((end - submit)[which].mean() / 1000)
        facts[f"wait_{name}"] = float((first - submit)[which].mean() / 1000)
        facts[f"gangs_{name}"] = float((end - submit - run)[which & (width > 8)].mean() / 1000)
    columns = {"id": ids, "submit_ms": submit, "start_ms": first, "end_ms": end, "gpus": width}
    return Outcome(facts=facts, table={name: list(values) for name, values in columns.items()})


class Fairness:
    """Fair shares, gangs and use, where nobody knows how long jobs run."""

    name = "E3"
    title = "fairness, gangs and utilisation (Philly)"

    def cases(self) -> Sequence[Case]:
        """All that must be run, the longest first."""
        plain = replays(replace(READING, whole_nodes=False), WEIGHTS, HORIZON_MS // 1000)
        return [*(Case(key=policy, work=partial(pooled, policy)) for policy in POLICIES), *plain]

    def chapter(self, outcomes: Mapping[str, Outcome]) -> str:
        """Its part of docs/evidence.md."""
        if "muster" not in outcomes:
            return "Not run."
        rows: list[list[object]] = []
        for policy in POLICIES:
            if policy not in outcomes:
                continue
            told = outcomes[policy].facts
            if policy in PUBLISHED:
                rows.append([policy, "published", *PUBLISHED[policy], "–"])
            shares = [f"{100 * float(told['shortfall']):.1f} % ({100 * float(told['worst']):.1f})", told["jain"]]
            who = "**Muster**" if policy == "muster" else "ours"
            rows.append([policy, who, *(told[f"{it}_all"] for it in ("jct", "wait", "gangs")), told["used"], *shares])
        ours = {fact: float(value) for fact, value in outcomes["muster"].facts.items()}
        at_most = f"; no more than {float(outcomes[MOST].facts['used']):.4f} can be" if MOST in outcomes else ""
        return "\n".join(
            [
                "68,503 jobs of 11 virtual clusters on 64 nodes of 8 GPUs, October and November 2017; run times are"
                " known to nobody. Seconds; utilisation and shares up to the end of the 61 days. Shortfall is what"
                " queues missed of their weighted max-min share, in brackets that of the queue that missed most.",
                "",
                *table(
                    ["policy", "by", "mean JCT", "mean wait", "wait of gangs > 8", "used", "shortfall", "Jain"], rows
                ),
                "",
                "Under Muster every job has a lifetime of 0, so that it may be evicted, and only for gangs that had"
                " waited for an hour when it started (`preemptionForShares: off`):"
                f" {int(ours['preempted']):,} evictions, whose work is lost and done again, {ours['lost']:.4f} of all"
                " GPU time.",
                "",
                "Among virtual clusters it goes by what they hold for their weight times the square root of how long"
                " their jobs that have ended ran (`shortFirst: 0.5`).",
                "",
                f"Muster's ageing and `shortFirst` were chosen on the first half. Of the jobs of the second half alone:"
                f" mean JCT {ours['jct_held_out']:,.0f} s, mean wait {ours['wait_held_out']:,.0f} s, gangs wait "
                f"{ours['gangs_held_out']:,.0f} s. A second more or less of run time, here and there, changes the mean"
                f" JCT of all by some 240 s (ADR 51).",
                "",
                bar(f"utilisation {ours['used']:.4f} (bar .90{at_most})", ours["used"] >= 0.90),
                bar(f"gangs wait {ours['gangs_all']:,.0f} s (bar 51,821)", ours["gangs_all"] <= 51_821),
                bar(f"shortfall {100 * ours['shortfall']:.1f} % (bar 16.9)", ours["shortfall"] < 0.169),
                bar(f"mean JCT {ours['jct_all']:,.0f} s (bar 21,844)", ours["jct_all"] <= 21_844),
                "",
                "What is used by the end of the 61 days is bounded by what has come by then: were every job started the"
                " moment it came, on any number of GPUs, it would be the number above. More is only counted where work"
                " is thrown away and done again.",
                "",
                *section(outcomes, PUBLISHED, WEIGHTS),
            ]
        )


EXPERIMENT = Fairness()
