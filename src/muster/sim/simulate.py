"""Runs a scenario: the same engine, state and loop as production, with a simulated clock and clusters."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from muster.engine.garbage import collect_seldom
from muster.engine.kernels import size_after
from muster.model import events as ev
from muster.model.jobs import Running
from muster.model.plan import Waiting
from muster.model.reasons import Reason
from muster.sim.opaque import SimulatedClusters
from muster.sim.scenario.scenario import Scenario
from muster.state.forecast import Estimate, forecast
from muster.state.run import Listener, Moment, Run, Runtime
from muster.state.state import State
from muster.state.work import Work

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from muster.model.quick import dataclass

Sees = Callable[[Running, int | Work | None], int | Work | None]
"""How long an attempt is taken to run that really runs so long, in ms, or until how much is done."""

FORECAST_TURNS = 512
FORECAST_WAITING = 64
FORECAST_JOBS = 200
"""A start is forecast whenever a reason changes in scenarios of at most so many jobs, while at most
FORECAST_WAITING of them wait; in larger ones only reservations give an estimate on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A job waits, and the kind of reason is new."""

    job: str
    waiting: Waiting
    estimate: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One moment of a simulation, with what is worth telling about those who wait."""

    moment: Moment
    notices: tuple[Notice, ...]


class Simulation:
    """One scenario on its way. Iterate over it; `state` is the world after the last tick.

    `tells_why`: whether to tell why jobs wait; the same is decided if nobody wants to know.
    `estimates`: whether to forecast starts on the way (None: in small scenarios). `listener`: hears everything, the
    opening of the world included. `sees`: how long attempts run as it is simulated, if not as the scenario says.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        skips_turns: bool = True,
        tells_why: bool = True,
        estimates: bool | None = None,
        listener: Listener | None = None,
        sees: Sees | None = None,
    ) -> None:
        self.scenario = scenario
        self.estimates = len(scenario.jobs) <= FORECAST_JOBS if estimates is None else estimates
        self.runtimes = {
            entry.job.id: entry.runtime_ms if entry.work is None else entry.work for entry in scenario.jobs
        }
        self.state = opened(scenario, listener)
        races = {entry.job.id: entry.race for entry in scenario.jobs if entry.race is not None}
        opaque = SimulatedClusters(self.state, races) if races else None
        self.run = Run(
            self.state,
            _runtime_in(self.runtimes, sees),
            skips_turns=skips_turns,
            ahead=len(scenario.jobs),
            opaque=opaque,
            rounds_ms=scenario.rounds_ms,
        )
        self.run.listener = listener
        for entry in scenario.jobs:
            spec = None if entry.race is None else entry.race.spec
            self.run.expect(entry.job.submit_ms, ev.JobSubmitted(job=entry.job, race=spec))
        for scripted in scenario.events:
            self.run.expect(scripted.at_ms, scripted.event)
        self.tells_why = tells_why
        self._told: dict[str, Reason] = {}
        self._looks = 0  # at waiting jobs, by all turns so far

    def __iter__(self) -> Iterator[Tick]:
        until_ms = self.scenario.until_ms
        while (now_ms := self.run.next_moment_ms(until_ms)) is not None:
            if until_ms is not None and now_ms > until_ms:
                return
            moment = self.run.step(now_ms)
            self._looks += len(self.state.roll)
            self.state.roll.to_come = max(len(self.scenario.jobs), size_after(self._looks))
            yield Tick(moment=moment, notices=self._notices(moment) if self.tells_why else ())
            if now_ms == until_ms and not self.run.is_due(now_ms):
                return

    def _notices(self, moment: Moment) -> tuple[Notice, ...]:
        """Jobs the turn looked at whose reason is another than last time."""
        news: dict[str, Waiting] = {}
        for event in moment.events:
            if isinstance(event, ev.JobStarted | ev.RaceBegan | ev.JobSucceeded | ev.JobFailed | ev.JobCancelled):
                self._told.pop(event.job, None)
        for job, reason in moment.plan.reasons():
            if self._told.get(job) is not reason:
                self._told[job] = reason
                verdict = moment.plan.verdicts[job]
                assert isinstance(verdict, Waiting)
                news[job] = verdict
        for job, waiting in self.state.races.blocked.items():
            if self._told.get(job) is not waiting.reason:
                self._told[job] = waiting.reason
                news[job] = waiting
        estimates = self.forecast() if news and self.estimates else {}
        return tuple(
            Notice(job=job, waiting=waiting, estimate=estimates.get(job) or promised(waiting))
            for job, waiting in news.items()
        )

    def forecast(self) -> dict[str, Estimate]:
        """Estimated starts as of now, as long as not too many wait."""
        if len(self.state.waiting()) > FORECAST_WAITING:
            return {}
        return forecast(self.run, most_turns=FORECAST_TURNS)


def _runtime_in(runtimes: Mapping[str, int | Work | None], sees: Sees | None) -> Runtime:
    if sees is None:
        return lambda run: runtimes[run.job.id]
    return lambda run: sees(run, runtimes[run.job.id])


def settle_memory() -> None:
    """For processes that do nothing else: what was loaded stays, so garbage is not looked for in it over and over."""
    gc.collect()
    collect_seldom()


def promised(waiting: Waiting) -> Estimate | None:
    """The start a reservation promises."""
    if waiting.estimate_ms is None:
        return None
    return Estimate(start_ms=waiting.estimate_ms, is_assumed=bool(waiting.facts.get("assumed")))


def opened(scenario: Scenario, listener: Listener | None = None) -> State:
    """The world before anything happens. `listener` hears how it came to be."""
    state = State(scenario.policy)
    for event in _opening(scenario):
        if listener is not None:
            listener.happened(event, 0)
        state.apply(event, 0)
    return state


def _opening(scenario: Scenario) -> Iterator[ev.Event]:
    """The world before anything happens."""
    for cluster in scenario.clusters:
        yield ev.ClusterSet(cluster=cluster)
    for node in scenario.nodes:
        yield ev.NodeAdded(node=node)
    for pool in scenario.pools:
        yield ev.PoolSet(pool=pool)
    for queue in scenario.queues:
        yield ev.QueueSet(queue=queue)
    for user in scenario.users:
        yield ev.UserSet(user=user)
    for budget in scenario.budgets:
        yield ev.BudgetSet(budget=budget)
