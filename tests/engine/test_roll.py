"""The roll of queued jobs says the same as plain lists of them; order by name is worked out when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import a_job, a_world

from muster.engine.columns.bulk import Crowd
from muster.engine.columns.queued_jobs import Roll
from muster.engine.kernels.hunger import is_less
from muster.model.after import After
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Request
from muster.model.retries import Retries
from muster.model.snapshot import Lane

PROFILES = [
    Profile(groups=(TaskGroup(name="g", min=1, initial=1, max=1, request=Request.of({"cpu": 1000 * cores})),))
    for cores in (1, 2, 3)
]
JOBS = st.builds(
    Job,
    id=st.from_regex(r"\A[ab]-[0-9]{1,2}\Z"),
    queue=st.sampled_from("xyz"),
    profile=st.sampled_from(PROFILES),
    submit_ms=st.integers(0, 5),
    number=st.integers(0, 2),
    user=st.sampled_from(["", "u"]),
    job_set=st.sampled_from(["", "s"]),
    priority_class=st.just(0),
    priority=st.integers(0, 1),
    lifetime_ms=st.sampled_from([None, 0, 5]),
    expected_ms=st.sampled_from([None, 0, 7]),
    time_limit_ms=st.sampled_from([None, 9]),
    retries=st.builds(Retries, st.integers(0, 1), st.sampled_from([None, 0])),
    after=st.sampled_from([(), (After("other"),)]),
)


@given(st.lists(st.one_of(JOBS, st.integers(0, 1000)), max_size=80))
def test_property_a_roll_holds_its_lanes_in_order_whoever_comes_and_goes(steps: list[Job | int]) -> None:
    roll, standing = Roll(), {}
    for step in steps:
        if isinstance(step, Job):
            if step.id not in standing:
                standing[step.id] = step
                roll.add(step)
        elif standing:
            gone = standing.pop(sorted(standing)[step % len(standing)])
            roll.remove(gone.id)
    assert len(roll) == len(standing)
    for queue in "xyz":
        lanes: dict[tuple[Profile, int], list[Job]] = {}
        for job in sorted(standing.values(), key=lambda job: (job.submit_ms, job.number, job.key)):
            if job.queue == queue:
                lanes.setdefault((job.profile, job.priority), []).append(job)
        assert {(lane.profile, lane.jobs[0].priority): list(lane.jobs) for lane in roll.lanes_of(queue)} == lanes
    assert shorter_than_their_lane_says(roll, standing.values()) == []


@given(
    st.lists(JOBS, max_size=12, unique_by=lambda job: job.id),
    st.lists(JOBS, min_size=1, max_size=30, unique_by=lambda job: job.id),
    st.lists(st.integers(0, 1000), max_size=40),
)
def test_property_a_crowd_stands_in_line_as_if_each_had_come_by_itself(
    before: list[Job], crowd: list[Job], leaving: list[int]
) -> None:
    one_by_one, together = Roll(), Roll()
    for job in before:
        one_by_one.add(job)
        together.add(job)
    there = {job.id: job for job in before}
    new = [job for job in crowd if job.id not in there]
    for job in new:
        one_by_one.add(job)
        there[job.id] = job
    if new:
        together.add_all(crowd_of(new))
    for place in leaving:
        if there:
            gone = sorted(there)[place % len(there)]
            del there[gone]
            one_by_one.remove(gone)
            together.remove(gone)
    assert together.row_of.keys() == there.keys()
    assert together.waiting_with().tolist()[: len(PROFILES)] == one_by_one.waiting_with().tolist()[: len(PROFILES)]
    for queue in "xyz":
        assert {lane_key(lane): lane for lane in together.lanes_of(queue)} == {
            lane_key(lane): lane for lane in one_by_one.lanes_of(queue)
        }
    # Where ranks are worked out, they are in order.
    columns = together.columns()
    ranks = [
        (job.submit_ms, int(columns.rank[row]), (job.submit_ms, job.number, job.key))
        for job in there.values()
        if columns.rank[row := together.row_of[job.id]]
    ]
    assert [age for *_, age in sorted(ranks)] == sorted(age for *_, age in ranks)
    assert shorter_than_their_lane_says(together, there.values()) == []


def shorter_than_their_lane_says(roll: Roll, jobs: Iterable[Job]) -> list[str]:
    """A lane may say less than the time its shortest job takes, for that one may have left; never more."""
    shortest, found = roll.columns().lane_shortest, []
    for job in jobs:
        by_lifetime = None if job.lifetime_ms is None else max(job.lifetime_ms, 1)
        bound = by_lifetime if job.known_ms is None else job.known_ms
        if bound is not None and bound < shortest[roll.lanes_in(np.array([roll.row_of[job.id]]))[0]]:
            found.append(job.id)
    return found


def crowd_of(jobs: list[Job]) -> Crowd:
    """The same jobs, in columns."""
    crowd, likes = Crowd(), dict[Job, int]()
    for job in jobs:
        like = replace(job, id="", submit_ms=0, number=0)
        if like not in likes:
            likes[like] = crowd.new_like(like)
        crowd.add(likes[like], job.id, job.submit_ms, job.number)
    assert list(crowd.jobs()) == jobs
    return crowd


def lane_key(lane: Lane) -> tuple[Profile, int]:
    """What tells lanes of a queue apart here."""
    return lane.profile, lane.jobs[0].priority


@given(st.permutations(range(12)))
def test_property_jobs_of_one_moment_start_in_order_of_their_names(order: list[int]) -> None:
    """Lanes differ in what is asked for, so that the order between lanes decides."""
    world = a_world(over_share=None).with_node(cpu=100).with_queues("q")
    world.with_jobs(*(a_job("q").named(f"j-{number}").cpu(1 + number % 3) for number in order))
    started = [action.job for action in world.turn().actions if type(action).__name__ == "Start"]
    assert started == [f"j-{number}" for number in range(12)]


@given(st.permutations(range(12)), st.permutations(range(12)))
def test_property_jobs_of_one_moment_start_in_order_of_their_numbers_whatever_they_are_called(
    order: list[int], names: list[int]
) -> None:
    world = a_world(over_share=None).with_node(cpu=100).with_queues("q")
    jobs = [a_job("q").named(f"j-{names[number]}").cpu(1 + number % 3).of(number=number) for number in order]
    started = [action.job for action in world.with_jobs(*jobs).turn().actions if type(action).__name__ == "Start"]
    assert started == [f"j-{name}" for name in names]


@given(*(st.integers(low, 1 << 62) for low in (0, 1, 0, 1)))
def test_property_fractions_are_compared_exactly(one: int, per_one: int, other: int, per_other: int) -> None:
    difference = one * per_other - other * per_one
    assert is_less(one, per_one, other, per_other) == (difference > 0) - (difference < 0)


def test_a_snapshot_that_was_not_looked_at_in_time_says_so() -> None:
    world = a_world().with_node(cpu=1).with_jobs(a_job("a").cpu(1))
    snapshot = world.state.freeze(world.now_ms)
    world.with_jobs(a_job("a").cpu(1)).turn()
    with pytest.raises(LookupError, match="the line of a has moved on"):
        list(snapshot.queues[0].lanes)


@given(st.lists(st.one_of(JOBS, st.integers(0, 1000)), max_size=60), st.integers(0, 60))
def test_property_names_are_those_of_the_moment_they_were_asked_for(steps: list[Job | int], asked_at: int) -> None:
    roll, standing, asked = Roll(), {}, []
    for place, step in enumerate(steps):
        if place % (asked_at + 1) == 0:
            rows = [roll.row_of[job_id] for job_id in standing]
            asked.append((roll.names_in(np.array(rows, np.int64)), list(standing)))
        if isinstance(step, Job):
            if step.id not in standing:
                standing[step.id] = step
                roll.add(step)
        elif standing:
            job_id = sorted(standing)[step % len(standing)]
            del standing[job_id]
            roll.remove(job_id)
    assert [names.ids for names, _ in asked] == [ids for _, ids in asked]
