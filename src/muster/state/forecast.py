"""When each waiting job will start, if everyone runs as long as expected and nothing new comes.

The answer is found by running the very same loop ahead on a copy of the world, so with exact run times it
is exact. Where nobody stated a run time we assume one as the engine does: as long again as it has run, at
least 10 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from muster.model.events import JobStarted
from muster.model.jobs import Running
from muster.model.policy import Policy
from muster.state.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """When a job will start. `is_assumed`: before that, some run time had to be guessed."""

    start_ms: int
    is_assumed: bool


def stated_or_guessed(run: Running, now_ms: int, policy: Policy) -> tuple[int, bool]:
    """How long an attempt runs in all as far as can be known at a moment, in ms, and whether that is a guess."""
    known_ms, age_ms = run.job.known_ms, max(now_ms - run.started_ms, 0)
    if known_ms is not None and known_ms > age_ms:
        return known_ms, False
    return age_ms + max(age_ms, policy.unknown_end_ms), True


def forecast(world: Run, *, most_turns: int, goes_on: Callable[[], bool] = lambda: True) -> dict[str, Estimate]:
    """Estimated starts of the jobs that wait now; those that do not start within `most_turns` have none, nor those that
    had not when someone said that it should not go on."""
    now_ms, policy = world.state.now_ms, world.state.policy
    guesses: list[int] = []

    def expected_ms(run: Running) -> int:
        runtime_ms, is_guess = stated_or_guessed(run, now_ms, policy)
        if is_guess:
            guesses.append(run.started_ms + runtime_ms)
        return runtime_ms

    waiting = world.state.waiting()
    ahead = world.ahead(expected_ms)
    estimates: dict[str, Estimate] = {}
    for _ in range(most_turns):
        moment_ms = ahead.next_moment_ms()
        if moment_ms is None or len(estimates) == len(waiting) or not goes_on():
            break
        for event in ahead.step(moment_ms).events:
            if isinstance(event, JobStarted) and event.job in waiting and event.job not in estimates:
                is_assumed = any(guess_ms <= moment_ms for guess_ms in guesses)
                estimates[event.job] = Estimate(start_ms=moment_ms, is_assumed=is_assumed)
    return estimates
