"""E4, elastic width: training jobs whose speed by width and placement was measured (Pollux, OSDI'21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean

from evidence.e4_tiresias import completion_times
from evidence.experiment import Case, Outcome
from evidence.traces import trace
from evidence.writing import bar, table
from muster.model.policy import Policy, Preemption, WidthRule
from muster.sim.simulate import Simulation
from muster.sim.traces.pollux import RESTART_MS, ROUND_MS, scenario

LOADS = {"1.0": "workloads", "1.5": "workloads-1.5", "2.0": "workloads-2.0"}
WORKLOADS = range(1, 9)
TUNED_ON = range(1, 5)

PUBLISHED = {
    "Tiresias": (4038, 6182, 10040),
    "Optimus (knows what is left to do)": (5682, 7235, 9721),
    "Pollux (tunes batch sizes)": (2751, 3685, 5289),
}
IN_ROUNDS = Policy(
    turn_ms=ROUND_MS,
    elastic_every_ms=ROUND_MS,
    over_share=None,
    preemption=Preemption.OFF,
    resize_cost_ms=RESTART_MS,
)
POLICIES = {
    "benefit": replace(IN_ROUNDS, width=WidthRule.BENEFIT, uneven_percent=300),
    "virtual-time": IN_ROUNDS,
}


def under_tiresias(load: str, number: int) -> Outcome:
    """A workload under the baseline."""
    times = completion_times(trace("pollux", f"{LOADS[load]}/workload-{number}.csv"), trace("pollux", "traces"))
    return _outcome(times, 0)


def under_muster(load: str, number: int, policy: str) -> Outcome:
    """A workload under a configuration of the engine."""
    path = trace("pollux", f"{LOADS[load]}/workload-{number}.csv")
    made = scenario(path, trace("pollux", "traces"), POLICIES[policy])
    simulation, resizes = Simulation(made, estimates=False), 0
    for tick in simulation:
        resizes += sum(type(event).__name__ == "JobResized" for event in tick.moment.events)
    done_ms = simulation.run.done_ms
    times = {entry.job.id: (done_ms[entry.job.id] - entry.job.submit_ms) / 1000 for entry in made.jobs}
    return _outcome(times, resizes)


def _outcome(times: Mapping[str, float], resizes: int) -> Outcome:
    facts = {"mean": mean(times.values()), "longest": max(times.values()), "resizes": resizes / len(times)}
    return Outcome(facts=facts, table={"job": list(times), "seconds": list(times.values())})


class Width:
    """Elastic width on Pollux's workloads."""

    name = "E4"
    title = "elastic width (Pollux workloads)"

    def cases(self) -> Sequence[Case]:
        """All that must be run, the longest first."""
        made = []
        for load in reversed(LOADS):
            for number in WORKLOADS:
                for policy in POLICIES:
                    key = f"{load}/{number}/{policy}"
                    made.append(Case(key=key, work=partial(under_muster, load, number, policy)))
                made.append(Case(key=f"{load}/{number}/tiresias", work=partial(under_tiresias, load, number)))
        return made

    def chapter(self, outcomes: Mapping[str, Outcome]) -> str:
        """Its part of docs/evidence.md."""

        def over(policy: str, numbers: Sequence[int]) -> list[float]:
            return [mean(_mean(outcomes[f"{load}/{number}/{policy}"]) for number in numbers) for load in LOADS]

        rows: list[list[object]] = [[f"{name}, published", *numbers] for name, numbers in PUBLISHED.items()]
        rows.append(["Tiresias, our reproduction", *over("tiresias", WORKLOADS)])
        rows.append(["Muster, width by virtual time", *over("virtual-time", WORKLOADS)])
        rows.append(["**Muster, width by benefit**", *over("benefit", WORKLOADS)])
        others = [number for number in WORKLOADS if number not in TUNED_ON]
        rows.append(["– workloads 1–4, used for choosing", *over("benefit", TUNED_ON)])
        rows.append(["– workloads 5–8, not used", *over("benefit", others)])
        rows.append(["Tiresias, our reproduction, 5–8", *over("tiresias", others)])
        ours, theirs = over("benefit", WORKLOADS), PUBLISHED["Tiresias"]
        aims = [round(number * 1.15) for number in PUBLISHED["Pollux (tunes batch sizes)"]]
        resizes = mean(float(it.facts["resizes"]) for key, it in outcomes.items() if key.endswith("benefit"))
        bars = [
            bar(f"{load}× load: {own:,.0f} s, below Tiresias' {other:,}", own < other)
            for load, own, other in zip(LOADS, ours, theirs, strict=True)
        ]
        aimed = [
            f"- aim at {load}× load, Pollux + 15 % = {aim:,} s: {_reached(own, aim)} ({own:,.0f})"
            for load, own, aim in zip(LOADS, ours, aims, strict=True)
        ]
        return "\n".join([_PROTOCOL, "", *table(["mean JCT, s", *(f"{load}×" for load in LOADS)], rows), "",
                          *bars, *aimed, "", _NOTES.format(resizes=resizes)])  # fmt: skip


def _reached(own: float, aim: float) -> str:
    return "reached" if own <= aim else "not reached"


def _mean(outcome: Outcome) -> float:
    return float(outcome.facts["mean"])


_PROTOCOL = """16 nodes × 4 GPUs, rounds of 60 s, eight workloads of 160, 240 or 320 jobs over eight hours, a restart
costs 30 s. A job runs with 1 up to the replicas its workload asks for, at its batch size. How fast it
really is follows, moment by moment, from the measured step times at the placement it has; jobs that
end between rounds are heard of in the next."""

_NOTES = """Muster knows how each job scales on packed nodes (speeds relative to one GPU) and what it was given so
far. It knows neither run times nor epochs nor what is left to do, and it does not tune batch sizes;
Pollux does that, and so has less work to do. Parameters (claims halve with four times the service
from 20 GPU-minutes on, a task changes hands if it is worth three times as much) were chosen on
workloads 1–4. A job is resized {resizes:.1f} times on average. Tiresias takes jobs off their nodes at
every round and puts them on the emptiest ones, so it is a simulation of its own
(`evidence/e4_tiresias.py`), on the same speeds; where placements were not measured we interpolate
along nodes and replicas, Pollux over a triangulation, and that is what is left of the difference."""

EXPERIMENT = Width()
