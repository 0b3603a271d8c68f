"""Readers of traces of training jobs: what the engine is told, how fast jobs really are, and lines they cannot read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from muster.model.jobs import Running, Task
from muster.model.policy import Policy, WidthRule
from muster.model.resources import GPU, MICRO
from muster.sim.scenario.problems import ScenarioError
from muster.sim.simulate import Simulation
from muster.sim.traces import gavel, pollux

PLACEMENTS = """placement,local_bsz,step_time,sync_time
1,4,1.0,0.0
1,8,1.0,0.0
2,4,0.5,0.0
2,8,0.5,0.0
11,4,0.8,0.0
11,8,0.8,0.0
"""
SCALABILITY = """num_nodes,num_replicas,local_bsz,step_time,sync_time
4,4,4,0.4,0.0
4,4,8,0.4,0.0
"""
VALIDATION = """progress,iteration,metric,grad_sqr,grad_var
100,100,1,1.0,0.0
200,200,1,1.0,0.0
"""
HEADER = "name,time,application,num_replicas,batch_size\n"
WORKLOAD = f"""{HEADER}bert-0,5,bert,2,8
bert-1,70,bert,4,8
"""


@pytest.fixture
def folder(tmp_path):
    """An application whose measurements are easy to work out: 200 steps of one second on one GPU."""
    measured = tmp_path / "traces" / "bert"
    measured.mkdir(parents=True)
    (measured / "placements.csv").write_text(PLACEMENTS)
    (measured / "scalability.csv").write_text(SCALABILITY)
    (measured / "validation-8.csv").write_text(VALIDATION)
    (tmp_path / "workload.csv").write_text(WORKLOAD)
    return tmp_path


def read_pollux(folder, **changes):
    return pollux.scenario(folder / "workload.csv", folder / "traces", replace(Policy(), **changes))


def spread(entry, *nodes):
    tasks = tuple(Task(pollux.GROUP, index, node) for index, node in enumerate(nodes))
    return Running(job=entry.job, attempt=1, cluster=pollux.CLUSTER, started_ms=0, tasks=tasks)


@pytest.mark.parametrize(
    "nodes, speed",
    [
        pytest.param("a", 1, id="one replica"),
        pytest.param("aa", 2, id="two on a node, as measured"),
        pytest.param("ab", 1.25, id="two on two nodes are slower"),
        pytest.param("abcd", 2.5, id="on more nodes by the other table"),
        pytest.param("abc", 200 / 120, id="in between on a straight line"),
    ],
)
def test_a_job_is_as_fast_as_its_placement(folder, nodes, speed):
    entry = read_pollux(folder).jobs[1]

    assert entry.work is not None
    assert entry.work.pace is not None
    assert entry.work.pace(spread(entry, *nodes)) == pytest.approx(speed * MICRO, rel=0.01)


def test_the_engine_is_told_how_a_packed_job_scales_and_not_how_long_it_runs(folder):
    first, second = read_pollux(folder).jobs

    (group,) = first.job.profile.groups
    assert (group.min, group.max, group.speeds) == (1, 2, (MICRO, 2 * MICRO))
    assert (first.job.expected_ms, first.job.time_limit_ms) == (None, None)
    assert (first.job.submit_ms, second.job.submit_ms) == (5000, 70_000)


def test_jobs_are_heard_of_in_rounds_and_end_when_they_end(folder):
    simulation = Simulation(read_pollux(folder, turn_ms=60_000, elastic_every_ms=60_000, width=WidthRule.BENEFIT))

    moments = [tick.moment.now_ms for tick in simulation if tick.moment.events]

    assert all(moment % pollux.ROUND_MS == 0 for moment in moments)
    # Alone for a round, half of which it stands still; then twice as fast, after a restart.
    assert simulation.run.done_ms["bert-0"] == 120_000 + 30_000 + 85_000


def test_what_is_left_to_do_changes_no_decision(folder):
    """The work of jobs that have not ended is hidden: with ten times as much, all is decided as before until an end."""
    made = read_pollux(folder, turn_ms=60_000, elastic_every_ms=60_000, width=WidthRule.BENEFIT)
    longer = [replace(entry, work=replace(entry.work, task_ms=10 * entry.work.task_ms)) for entry in made.jobs]

    def plans(scenario):
        return [(tick.moment.now_ms, tick.moment.plan.actions) for tick in Simulation(scenario, estimates=False)]

    before = [it for it in plans(made) if it[0] < 240_000]
    assert before
    assert before == [it for it in plans(replace(made, jobs=tuple(longer))) if it[0] < 240_000]


@pytest.mark.parametrize(
    "file, text, message",
    [
        pytest.param("workload.csv", f"{HEADER}x,0,chess,1,8\n", "one of bert", id="an unknown application"),
        pytest.param("workload.csv", f"{HEADER}x,0,bert,65,8\n", "at most 64", id="more replicas than GPUs"),
        pytest.param("workload.csv", f"{HEADER}x,soon,bert,1,8\n", "time", id="a time that is none"),
        pytest.param("workload.csv", f"{HEADER}x,0,bert\n", "has 5 fields", id="a line cut off"),
        pytest.param("traces/bert/placements.csv", "h\n10,4,1,1\n", "digit for each node", id="an empty node"),
        pytest.param("traces/bert/placements.csv", "h\n1,4,fast,1\n", "a number", id="a step time that is none"),
        pytest.param("traces/bert/placements.csv", "h\n", "at least one measurement", id="no placement was measured"),
        pytest.param("traces/bert/validation-8.csv", "h\n1,1,1,1,1\n", "has 1 epochs; bert has 2", id="too few epochs"),
        pytest.param("traces/bert/validation-x.csv", "h\n", "'x' is not a batch size", id="a batch size that is none"),
        pytest.param("workload.csv", "job,user\n", "name,time,application", id="another kind of file"),
    ],
)
def test_lines_that_cannot_be_read_are_named(folder, file, text, message):
    (folder / file).write_text(text)

    with pytest.raises(ScenarioError) as err:
        read_pollux(folder)
    assert message in str(err.value)


# --- gavel --------------------------------------------------------------------------------------

TRACE = "A\tpython a\tdir\t-n\t1\t3600\t1\t1\t-1.0\t0\nB\tpython b\tdir\t-n\t1\t7200\t4\t1\t-1.0\t100\n"
RATES = {
    "v100": {"('A', 1)": {"null": 1.0, "('B', 4)": [1, 1]}, "('B', 4)": {"null": 2.0}},
    "p100": {"('A', 1)": {"null": 0.5}, "('B', 4)": {"null": 1.5}},
    "k80": {"('A', 1)": {"null": 0.1}, "('B', 4)": {"null": 0.0}},
}


def read_gavel(tmp_path, trace=TRACE, **options):
    (tmp_path / "jobs.trace").write_text(trace)
    (tmp_path / "rates.json").write_text(json.dumps(RATES))
    return gavel.scenario(tmp_path / "jobs.trace", tmp_path / "rates.json", Policy(), **options)


def test_a_job_prefers_clusters_by_its_speed_there_and_may_not_go_where_it_cannot_run(tmp_path):
    first, second = read_gavel(tmp_path).jobs

    assert first.job.profile.clusters == (("k80", 10), ("p100", 50), ("v100", 100))
    assert second.job.profile.clusters == (("p100", 75), ("v100", 100))
    assert second.job.profile.least.get(GPU) == 4000
    assert [entry.work.task_ms for entry in (first, second) if entry.work] == [3_600_000, 3_600_000]


def test_run_times_are_told_only_as_priorities_and_only_if_asked_for(tmp_path):
    assert [entry.job.priority for entry in read_gavel(tmp_path).jobs] == [0, 0]
    assert [entry.job.priority for entry in read_gavel(tmp_path, longest_first=True).jobs] == [60, 60]
    assert {entry.job.expected_ms for entry in read_gavel(tmp_path, longest_first=True).jobs} == {None}


@pytest.mark.parametrize(
    "trace, message",
    [
        pytest.param("A\tx\n", "has 10 fields", id="a line cut off"),
        pytest.param(TRACE.replace("3600", "many"), "total steps", id="steps that are no number"),
        pytest.param(TRACE.replace("A\t", "C\t"), "was measured", id="a type nobody measured"),
    ],
)
def test_lines_of_gavel_that_cannot_be_read_are_named(tmp_path, trace, message):
    with pytest.raises(ScenarioError) as err:
        read_gavel(tmp_path, trace)
    assert message in str(err.value)
