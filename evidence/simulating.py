"""One simulation for evidence: as fast as it goes, measured on its way."""

from __future__ import annotations

from collections.abc import Mapping

from evidence.experiment import Columns
from muster.model.resources import Weights
from muster.sim.measures import Gauge, Measured
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation, settle_memory


def measured(scenario: Scenario, *, weights: Weights | None = None) -> Measured:
    """Run a scenario to its end; nobody reads why jobs wait on the way."""
    simulation = Simulation(scenario, estimates=False, tells_why=False)
    gauge = Gauge(simulation, weights=weights)
    settle_memory()
    for tick in simulation:
        gauge.add(tick)
    return gauge.result()


def fairness_facts(found: Measured) -> Mapping[str, float]:
    """Who got less than its due, and how even the rest was."""
    fairness = found.fairness
    worst_off = fairness.worst_off
    return {
        "shortfall": fairness.shortfall,
        "worst_shortfall": 0.0 if worst_off is None else worst_off.shortfall or 0.0,
        "worst_hour": 0.0 if fairness.worst is None else fairness.worst.shortfall,
        "below_half_hours": max((queue.below_half_ms for queue in fairness.queues), default=0) / 3_600_000,
        "jain": fairness.jain,
    }


def job_table(found: Measured) -> Columns:
    """When each job came, started and ended."""
    jobs = found.jobs
    return {
        "id": list(jobs.ids),
        "queue": [jobs.queues[place] for place in jobs.queue.tolist()],
        "submit_ms": jobs.submit.tolist(),
        "start_ms": jobs.start.tolist(),
        "end_ms": jobs.end.tolist(),
        "width": jobs.width.tolist(),
        "attempts": jobs.attempts.tolist(),
    }
