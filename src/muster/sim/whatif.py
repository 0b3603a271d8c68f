"""What would happen if: a scenario and the same with a change, each run ahead as a scheduler could.

Until the moment of the question everything happens as in the scenario. From then on only what was stated is known:
everyone runs as long as expected and, where nobody said how long, as long again as so far, at least 10 minutes
(docs/adr/0013). With stated run times that are true the answer is what a simulation of the changed file does.
"""

from __future__ import annotations

from muster.model.jobs import Running
from muster.model.policy import Policy
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.sim.summary import Summary
from muster.state.forecast import stated_or_guessed
from muster.state.future import Answer, Future
from muster.state.work import Work


class Foresight:
    """What is known of run times from a moment on: no more than was stated. `guesses`: the ends that were guessed."""

    def __init__(self, policy: Policy, at_ms: int, *, knows_runtimes: bool) -> None:
        self._policy = policy
        self._at_ms = at_ms
        self._knows_runtimes = knows_runtimes
        self.guesses: list[int] = []

    def runtime(self, run: Running, real: int | Work | None) -> int | Work | None:
        """How long an attempt is expected to run that really runs so long."""
        # How much work there is to do was stated; how long that takes depends on widths.
        is_seen = isinstance(real, Work) or (real is not None and run.started_ms + real <= self._at_ms)
        if is_seen or self._knows_runtimes:
            return real
        runtime_ms, is_guess = stated_or_guessed(run, self._at_ms, self._policy)
        if is_guess:
            self.guesses.append(run.started_ms + runtime_ms)
        return runtime_ms


def future(scenario: Scenario, at_ms: int, *, knows_runtimes: bool = False) -> Future:
    """What lies ahead in a scenario, as far as can be known at a moment."""
    foresight = Foresight(scenario.policy, at_ms, knows_runtimes=knows_runtimes)
    simulation = Simulation(scenario, estimates=False, sees=foresight.runtime)
    summary, ahead = Summary(simulation), Future()
    for tick in simulation:
        summary.add(tick)
        now_ms = tick.moment.now_ms
        for event in tick.moment.events:
            if now_ms < at_ms:
                ahead.note_before(event, now_ms)
            else:
                is_assumed = any(guess_ms <= now_ms for guess_ms in foresight.guesses)
                ahead.note(event, now_ms, is_assumed=is_assumed)
    for entry in scenario.jobs:
        job = entry.job
        ahead.queues[job.id] = job.queue
        ahead.why[job.id] = summary.verdict(job.id, {})
        if (first_ms := summary.stories[job.id].first_start_ms) is not None:
            ahead.waits[job.id] = first_ms - job.submit_ms
    return ahead


def ask(before: Scenario, after: Scenario, at_ms: int, *, knows_runtimes: bool = False) -> Answer:
    """What would happen from a moment on in a scenario, and in the same with a change."""
    return Answer(
        at_ms=at_ms,
        without=future(before, at_ms, knows_runtimes=knows_runtimes),
        with_it=future(after, at_ms, knows_runtimes=knows_runtimes),
    )
