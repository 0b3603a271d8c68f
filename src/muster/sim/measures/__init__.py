"""What a simulation was like, for people who compare policies: fairness, waiting, use and what was left over.

`Gauge` watches a simulation; `Measured` is what it saw. The definitions are in docs/report.md.
"""

from __future__ import annotations

from muster.sim.measures.fairness import Fairness, QueueFairness, Spell
from muster.sim.measures.gauge import Gauge
from muster.sim.measures.jobs import Distribution, JobTable, WaitedFor
from muster.sim.measures.measured import Course, Measured, Spread, Stay

__all__ = [
    "Course",
    "Distribution",
    "Fairness",
    "Gauge",
    "JobTable",
    "Measured",
    "QueueFairness",
    "Spell",
    "Spread",
    "Stay",
    "WaitedFor",
]
