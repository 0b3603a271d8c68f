"""How far attempts are that work: by pace, with pauses, with what was done before."""

from __future__ import annotations

from dataclasses import replace

from muster.model.jobs import Job, Profile, Running, Task, TaskGroup
from muster.model.nodes import Request
from muster.model.resources import CPU, MICRO
from muster.model.scaling import speeds_of
from muster.state.work import ByCluster, Work, Works


def running(width: int, *, speeds: dict[int, int] | None = None, started_ms: int = 0, attempt: int = 1) -> Running:
    scaled = speeds_of(speeds, 4) if speeds else ()
    group = TaskGroup(name="w", min=1, initial=1, max=4, request=Request.of({CPU: 1000}), speeds=scaled)
    tasks = tuple(Task("w", index, "n") for index in range(width))
    job = Job(id="a", queue="A", profile=Profile(groups=(group,)))
    return Running(job=job, attempt=attempt, cluster="east", started_ms=started_ms, tasks=tasks)


def test_it_goes_as_fast_as_it_is_wide():
    assert Works().ends_ms(running(4), Work(1000), 0) == 250


def test_it_goes_as_fast_as_it_was_said_to_scale():
    assert Works().ends_ms(running(4, speeds={1: 10, 4: 20}), Work(1000), 0) == 500


def test_after_each_change_it_stands_still():
    works, work = Works(), Work(1000, pause_ms=30)

    assert works.ends_ms(running(1), work, 0) == 1030
    assert works.ends_ms(running(2), work, 530) == 530 + 30 + 250


def test_a_change_during_a_pause_begins_another():
    works, work = Works(), Work(1000, pause_ms=30)

    works.ends_ms(running(1), work, 0)
    assert works.ends_ms(running(2), work, 10) == 10 + 30 + 500


def test_what_was_done_is_kept_if_it_can_be():
    pace = ByCluster({"east": MICRO // 2})
    for is_kept, end_ms in ((True, 2000 + 1500), (False, 2000 + 2000)):
        works, work = Works(), Work(1000, pace, is_kept=is_kept)
        works.ends_ms(running(1), work, 0)
        works.stop("a", 500)

        again = replace(running(1, started_ms=2000, attempt=2))
        assert works.ends_ms(again, work, 2000) == end_ms
