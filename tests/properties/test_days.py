"""Over a day in which everyone has jobs in line, each queue gets its weight's part (design.md 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from worlds import World, a_job, a_world, ms

from muster.model import events as ev

DAY_MS = ms(hours=24)
MINUTE_MS = ms(minutes=1)
MOST_STARTS = 400  # in all: shorter jobs take longer to try


@dataclass(frozen=True, kw_only=True)
class Line:
    """A queue that always has jobs in line: how wide, and for how many minutes they run."""

    name: str
    weight: int
    sizes: tuple[int, ...]
    minutes: int
    is_known: bool
    lifetime: int | None

    @property
    def largest(self) -> int:
        """Machine-minutes of its largest job."""
        return max(self.sizes) * self.minutes


def lines_of(chance: Random, machines: int) -> list[Line]:
    """2 to 12 queues, weights of 1 to 20, jobs of a minute to six hours, of one machine to all of them."""
    least = max(1, machines * 24 * 60 // MOST_STARTS)
    return [
        Line(
            name=f"q{number}",
            weight=chance.choice([1, 1, 2, 3, 5, 20]),
            sizes=tuple({chance.choice([1, 1, min(2, machines), machines]) for _ in range(2)}),
            minutes=max(least, chance.choice([1, 5, 10, 30, 60, 120, 360])),
            is_known=chance.random() < 0.3,
            lifetime=chance.choice([None, 0]),
        )
        for number in range(chance.randint(2, 12))
    ]


def furnished(chance: Random, machines: int, lines: list[Line]) -> World:
    """The machines, and more jobs of each queue than there is time for."""
    world = a_world(over_share=None).with_node(count=machines, cpu=1)
    for line in lines:
        world.with_queues(line.name, weight=line.weight)
        left = machines * 25 * 60
        while left > 0:
            tasks = chance.choice(line.sizes)
            job = a_job(line.name).cpu(1).tasks(tasks)
            job = job.lasts(minutes=line.minutes) if line.is_known else job.runs(minutes=line.minutes)
            world.with_jobs(job if line.lifetime is None else job.lifetime(minutes=line.lifetime))
            left -= tasks * line.minutes
    return world


def served(world: World, until_ms: int) -> dict[str, float]:
    """Live on until then: machine-minutes of each queue's attempts, by what started and what ended."""
    got: dict[str, float] = {}
    runs: dict[str, tuple[int, int]] = {}

    def is_over(job: str, now_ms: int) -> None:
        if job in runs:
            since_ms, tasks = runs.pop(job)
            queue = job.split("-")[0]
            got[queue] = got.get(queue, 0) + tasks * (now_ms - since_ms) / MINUTE_MS

    moment_ms: int | None = 0
    while moment_ms is not None and moment_ms <= until_ms:
        for event in world.run.step(moment_ms).events:
            if isinstance(event, ev.JobStarted):
                runs[event.job] = (moment_ms, len(event.tasks))
            elif isinstance(event, ev.JobSucceeded | ev.JobRequeued):
                is_over(event.job, moment_ms)
        moment_ms = world.run.next_moment_ms()
    for job in list(runs):
        is_over(job, until_ms)
    return got


@a_part(20)
@given(seed=st.integers(0, 2**32), machines=st.integers(1, 8))
def test_property_over_a_day_nobody_is_further_off_than_one_job_of_its_own_and_one_of_a_rival(
    seed: int, machines: int
) -> None:
    chance = Random(seed)
    lines = lines_of(chance, machines)

    got = served(furnished(chance, machines, lines), DAY_MS)

    total, weights = sum(got.values()), sum(line.weight for line in lines)
    for line in lines:
        rival = max(other.largest for other in lines if other is not line)
        off = got.get(line.name, 0) - total * line.weight / weights
        assert abs(off) <= line.largest + rival, (line, off, machines, lines)
