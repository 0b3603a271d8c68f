"""Scenario files: what they mean, and how they are refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.model.after import After
from muster.model.calendar import Window
from muster.model.events import (
    ClusterSilent,
    Event,
    ForeignGone,
    ForeignPlaced,
    JobCancelled,
    JobChanged,
    NodeAdded,
    NodeCordoned,
    NodeDrained,
    NodeLabelled,
    NodeRemoved,
    PoolChanged,
    PoolDeleted,
    QueueChanged,
    TaskFailed,
)
from muster.model.fleet import Cluster
from muster.model.jobs import Job, TaskGroup
from muster.model.labels import Constraint, Taint
from muster.model.nodes import Node, Request
from muster.model.policy import Policy, Preemption
from muster.model.pools import Pool
from muster.model.queues import Queue, User
from muster.model.resources import CPU, GPU, MEMORY, MICRO, PODS, Resources, Weights
from muster.model.retries import Retries
from muster.sim.scenario.jobs import MOST_JOBS
from muster.sim.scenario.loader import load, parse
from muster.sim.scenario.problems import Problem, ScenarioError
from muster.sim.scenario.scenario import Scenario
from muster.state.work import Work

GIB = 1 << 30
MINUTE = 60_000
HOUR = 60 * MINUTE


def world(text: str = "") -> str:
    """A file with one cluster of four nodes on lines 1 and 2, and `text` from line 3 on."""
    return f"clusters:\n  - {{name: east, nodes: [{{name: n, count: 4, cpu: 8, memory: 64Gi, gpu: 2}}]}}\n{text}"


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    return list(caught.value.problems)


def jobs_of(text: str) -> list[Job]:
    return [one.job for one in parse(text).jobs]


def the_job(fields: str) -> Job:
    (job,) = jobs_of(world(f"jobs: [{{name: a, {fields}}}]"))
    return job


def the_group(fields: str) -> TaskGroup:
    (group,) = the_job(fields).profile.groups
    return group


def events_of(text: str) -> list[tuple[int, Event]]:
    return [(one.at_ms, one.event) for one in parse(text).events]


# --- config -------------------------------------------------------------------------------------


def test_an_empty_mapping_is_a_world_without_anything() -> None:
    assert parse("{}") == Scenario(policy=Policy())


@pytest.mark.parametrize(
    "config, changes",
    [
        pytest.param("turn: 250ms", {"turn_ms": 250}, id="turn"),
        pytest.param("halfTime: 20m", {"half_time_ms": 20 * MINUTE}, id="half time"),
        pytest.param("overShare: 1.5", {"over_share": 1_500_000}, id="over-share in micro-units"),
        pytest.param("overShare: off", {"over_share": None}, id="over-share off, which YAML reads as false"),
        pytest.param("overShare: 'off'", {"over_share": None}, id="over-share off in quotes"),
        pytest.param("reservations: 0", {"reservations": 0}, id="greedy"),
        pytest.param("gpuFirst: off", {"gpu_first": False}, id="GPU jobs do not come first"),
        pytest.param("preemptionForShares: off", {"preempts_for_shares": False}, id="no queue takes from another"),
        pytest.param("agingAfter: 1d", {"aging_after_ms": 24 * HOUR}, id="a day has 24 hours"),
        pytest.param("preemption: on", {"preemption": Preemption.ON}, id="preemption on, which YAML reads as true"),
        pytest.param("preemption: 'on'", {"preemption": Preemption.ON}, id="preemption on in quotes"),
        pytest.param("preemption: off", {"preemption": Preemption.OFF}, id="preemption off, which YAML reads as false"),
        pytest.param("preemption: dry-run", {"preemption": Preemption.DRY_RUN}, id="preemption dry-run"),
        pytest.param("backfill: off", {"backfill": False}, id="backfill off"),
        pytest.param("backfill: 'off'", {"backfill": False}, id="backfill off in quotes"),
        pytest.param("startsPerTurn: 5", {"starts_per_turn": 5}, id="starts per turn"),
        pytest.param("startsPerQueue: 6", {"starts_per_queue": 6}, id="starts per queue"),
        pytest.param("elasticEvery: 10s", {"elastic_every_ms": 10_000}, id="how often widths are looked at"),
        pytest.param("elasticEvery: off", {"elastic_every_ms": None}, id="widths that nobody changes"),
        pytest.param("maxLoad: 0.8", {"max_load": 800_000}, id="a load in micro-units"),
        pytest.param("uneven: 1.5", {"uneven_percent": 150}, id="what is uneven, in per cent"),
        pytest.param("coresPerGpu: 2", {"cores_per_gpu": 2000}, id="cores beside a GPU in millicores"),
        pytest.param(
            "weights: {gpu: 8, example.com/fpga: 0.5}",
            {"weights": Weights.of({"cpu": 1, "memory": 0.25, "gpu": 8, "example.com/fpga": 0.5})},
            id="given weights change, others stay",
        ),
    ],
)
def test_config(config: str, changes: dict[str, Any]) -> None:
    assert parse(f"config: {{{config}}}").policy == replace(Policy(), **changes)


@pytest.mark.parametrize(
    "duration, ms",
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("90", 90_000, id="a number of seconds"),
        pytest.param("'90'", 90_000, id="a number of seconds in quotes"),
        pytest.param("1.5", 1500, id="a fraction of a second"),
        pytest.param("0.001", 1, id="a millisecond"),
        pytest.param("0.1", 100, id="a tenth is exactly a tenth"),
        pytest.param("1e3", 1_000_000, id="an exponent"),
        pytest.param("30s", 30_000, id="seconds"),
        pytest.param("1.5m", 90_000, id="a minute and a half"),
        pytest.param("10m", 10 * MINUTE, id="minutes"),
        pytest.param("2h", 2 * HOUR, id="hours"),
        pytest.param("1d", 24 * HOUR, id="days"),
        pytest.param("36500d", 36_500 * 24 * HOUR, id="a hundred years"),
    ],
)
def test_durations(duration: str, ms: int) -> None:
    assert parse(f"until: {duration}").until_ms == ms


@pytest.mark.parametrize(
    "duration",
    [
        *(
            "-1",
            "-1s",
            ".nan",
            ".inf",
            "-.inf",
            "36501d",
            "1e99",
            "0.0001",
            "0.5ms",
            "10:30",
            "1h30m",
            "5 m",
            "5w",
            "m",
        ),
        *("soon", "~", "[]", "{}", "on", "''", "1" + "0" * 5000, "0.1e-50"),
    ],
)
def test_what_is_not_a_duration_is_refused(duration: str) -> None:
    (problem,) = problems_of(f"config: {{}}\nuntil: {duration}")

    assert (problem.line, problem.path) == (2, "until")
    assert "a duration of up to 100 years such as 30s, 10m, 2h, 1d or a number of seconds" in problem.message


# --- clusters and nodes -------------------------------------------------------------------------


def test_nodes_spread_over_labels_and_topology_by_index() -> None:
    scenario = parse(
        "clusters:\n- name: east\n  nodes:\n"
        "  - {name: n, count: 4, cpu: 32, memory: 256Gi, gpu: 8, pods: 110, labels: {pool: a, rack: 'r{i//2}-{i%2}'},\n"
        "     topology: 's0/l{i//2}', taints: ['gpu=yes:NoSchedule', 'a:NoExecute']}\n"
        "  - {name: t, cpu: 500m, example.com/fpga: 2}\n"
    )

    assert scenario.clusters == (Cluster(name="east", preference=50),)
    assert [node.name for node in scenario.nodes] == ["n-0", "n-1", "n-2", "n-3", "t"]
    assert scenario.nodes[2] == Node(
        name="n-2",
        cluster="east",
        allocatable=Resources.of({CPU: 32_000, MEMORY: 256 * GIB, GPU: 8000, PODS: 110}),
        labels={"pool": "a", "rack": "r1-0"},
        taints=(Taint(key="a", effect="NoExecute"), Taint(key="gpu", value="yes", effect="NoSchedule")),
        topology=("s0", "l1"),
    )
    assert scenario.nodes[4].allocatable == Resources.of({CPU: 500, "example.com/fpga": 2})


def test_nodes_are_in_the_order_people_expect() -> None:
    names = [node.name for node in parse("clusters: [{name: e, nodes: [{name: n, count: 12, cpu: 1}]}]").nodes]

    assert names == [f"n-{index}" for index in range(12)]


def test_labels_are_the_text_that_was_written() -> None:
    scenario = parse("clusters: [{name: e, nodes: [{name: n, cpu: 1, labels: {gen: 010, ssd: on, v: 1.10}}]}]")

    assert scenario.nodes[0].labels == {"gen": "010", "ssd": "on", "v": "1.10"}


def test_a_count_of_one_leaves_a_node_its_name_and_both_names_are_understood() -> None:
    text = "clusters: [{name: e, nodes: [{name: n, count: 1, cpu: 1}]}]\nevents: [{at: 1, cordonNode: n-0}]"

    assert [node.name for node in parse(text).nodes] == ["n"]
    assert events_of(text) == [(1000, NodeCordoned(node="n"))]


def test_a_cluster_has_a_preference() -> None:
    assert parse("clusters: [{name: e, kind: transparent, priority: 80}]").clusters == (
        Cluster(name="e", preference=80),
    )


# --- queues, users, classes ---------------------------------------------------------------------


def test_queues_and_users() -> None:
    scenario = parse(
        "queues: [{name: B, weight: 0.5, cordoned: true},\n"
        "  {name: A, weight: 3, quota: {cpu: 100, gpu: 0, memory: 1Gi}, excessBudget: 600}]\n"
        "users: {u2: {}, u1: {quota: {gpu: 8}}}\n"
    )

    budget = 600 * MICRO * MINUTE
    assert scenario.queues == (
        Queue(name="A", weight=3 * MICRO, quota={CPU: 100_000, GPU: 0, MEMORY: GIB}, excess_budget=budget),
        Queue(name="B", weight=MICRO // 2, cordoned=True),
    )
    assert scenario.users == (User(name="u1", quota={GPU: 8000}), User(name="u2"))


@pytest.mark.parametrize(
    "said, times_ms",
    [
        pytest.param("", (600_000, 7_200_000), id="a job that says nothing has both from its queue"),
        pytest.param("expectedRuntime: 1h", (3_600_000, 7_200_000), id="what it expects is its own"),
        pytest.param("expectedRuntime: 3h", (10_800_000, 10_800_000), id="the limit is never below what it expects"),
        pytest.param("timeLimit: 30m", (None, 1_800_000), id="a limit of its own says how long it runs at most"),
        pytest.param("timeLimit: 5h, expectedRuntime: 2m", (120_000, 18_000_000), id="a job that says both has both"),
    ],
)
def test_a_queue_says_how_long_its_jobs_run_that_say_nothing(said: str, times_ms: tuple[int | None, int]) -> None:
    queue = "queues: [{name: A, defaultTimeLimit: 2h, defaultExpectedRuntime: 10m}]\n"

    (one,) = parse(queue + f"jobs: [{{name: a, queue: A, cpu: 1{said and ', '}{said}}}]").jobs

    assert (one.job.expected_ms, one.job.time_limit_ms) == times_ms


def test_a_queues_defaults_are_no_times_below_nothing() -> None:
    with pytest.raises(ScenarioError) as refused:
        parse("queues: [{name: A, defaultTimeLimit: 0s, defaultExpectedRuntime: soon}]")

    assert "queues[0].defaultTimeLimit" in str(refused.value)
    assert "queues[0].defaultExpectedRuntime" in str(refused.value)


def test_without_queues_those_that_jobs_mention_exist() -> None:
    scenario = parse("jobs: [{name: a, queue: B, cpu: 1}, {name: b, queue: A, cpu: 1}, {name: c, cpu: 1}]")

    assert [queue.name for queue in scenario.queues] == ["A", "B", "default"]
    assert [one.job.queue for one in scenario.jobs] == ["B", "A", "default"]


# --- jobs ---------------------------------------------------------------------------------------


def test_a_job_with_every_key() -> None:
    scenario = parse(
        world(
            "priorityClasses: {high: 1000}\n"
            "jobs:\n- {name: prep, count: 2, cpu: 1}\n- {name: one, cpu: 1}\n"
            "- {name: a, at: 10, queue: A, priority: -3, priorityClass: high, lifetime: 30m, runtime: 10m, user: u1,\n"
            "   expectedRuntime: 12m, timeLimit: 1h, retries: 2, after: [prep, one], jobSet: set, cluster: east,\n"
            "   cpu: 1, memory: 4Gi, preferClose: true}\n"
        )
    )

    last = scenario.jobs[-1]
    assert last.runtime_ms == 10 * MINUTE
    assert last.job == Job(
        id="a",
        queue="A",
        profile=last.job.profile,
        submit_ms=10_000,
        user="u1",
        job_set="set",
        priority_class=1000,
        priority=-3,
        lifetime_ms=30 * MINUTE,
        expected_ms=12 * MINUTE,
        time_limit_ms=HOUR,
        retries=Retries(failed=2),
        after=(After("one"), After("prep-0"), After("prep-1")),
    )
    assert last.job.profile.clusters == (("east", 50),)
    assert last.job.profile.groups == (
        TaskGroup(
            name="main",
            min=1,
            initial=1,
            max=1,
            request=Request.of({CPU: 1000, MEMORY: 4 * GIB}),
            prefers_close=True,
        ),
    )


def test_what_a_job_leaves_out() -> None:
    (one,) = parse("jobs: [{name: a}]").jobs

    assert one.runtime_ms is None
    assert one.job == Job(id="a", queue="default", profile=one.job.profile)
    assert one.job.profile.least == Resources.of({PODS: 1})


def test_a_counted_job_is_as_many_jobs_in_order_of_index_with_one_profile() -> None:
    jobs = jobs_of("jobs: [{name: a, count: 12, at: 5, cpu: 1}, {name: b, cpu: 1}, {name: c, cpu: 2}]")

    assert [job.id for job in jobs] == ["b", "c", *(f"a-{index}" for index in range(12))]
    assert len({id(job.profile) for job in jobs if job.id != "c"}) == 1


def test_a_count_of_one_still_numbers_a_job() -> None:
    assert [job.id for job in jobs_of("jobs: [{name: a, count: 1, cpu: 1}]")] == ["a-0"]


def test_candidate_clusters_with_preference() -> None:
    (job,) = jobs_of("clusters: [{name: w}, {name: e}]\njobs: [{name: a, cpu: 1, clusters: {w: 20, e: 80}}]")

    assert job.profile.clusters == (("e", 80), ("w", 20))


@pytest.mark.parametrize(
    "fields, width",
    [
        pytest.param("", (1, 1, 1), id="one task when nothing is said"),
        pytest.param("count: 3", (3, 3, 3), id="count says all three"),
        pytest.param("min: 2", (2, 2, 2), id="min alone"),
        pytest.param("initial: 4", (1, 4, 4), id="initial alone"),
        pytest.param("min: 2, initial: 4, max: 4", (2, 4, 4), id="all three"),
        pytest.param("max: 1", (1, 1, 1), id="max alone"),
    ],
)
def test_the_width_of_a_group(fields: str, width: tuple[int, int, int]) -> None:
    group = the_group(f"groups: [{{name: g, cpu: 1, {fields}}}]")

    assert (group.min, group.initial, group.max) == width


@pytest.mark.parametrize(
    "fields, expected",
    [
        pytest.param("gpu: 2", {"request": Request.of({GPU: 2000})}, id="gpu is short for nvidia.com/gpu"),
        pytest.param("nvidia.com/gpu: 2", {"request": Request.of({GPU: 2000})}, id="the long name"),
        pytest.param(
            "gpu: 1, gpuMilli: 300", {"request": Request.of({GPU: 1000}, gpu_milli=300)}, id="a part of a device"
        ),
        pytest.param("cpu: 1, wholeNode: true", {"request": Request.of({CPU: 1000}, whole_node=True)}, id="whole node"),
        pytest.param("maxHops: 2", {"max_hops": 2}, id="most hops"),
        pytest.param("preferClose: on", {"prefers_close": True}, id="close together if possible"),
        pytest.param(
            "nodeSelector: {zone: z1, n: 1}",
            {"constraint": Constraint(selector=(("n", "1"), ("zone", "z1")))},
            id="a selector, its values as written",
        ),
        pytest.param(
            "tolerations: [{key: gpu, operator: Exists}], affinity: {}",
            {"constraint": Constraint.parse(tolerations=[{"key": "gpu", "operator": "Exists"}])},
            id="tolerations and an empty affinity",
        ),
        pytest.param(
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:"
            " [{matchExpressions: [{key: zone, operator: NotIn, values: [z1]}]}]}}}",
            {
                "constraint": Constraint.parse(
                    affinity={
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z1"]}]}
                                ]
                            }
                        }
                    }
                )
            },
            id="required node affinity",
        ),
    ],
)
@pytest.mark.parametrize("form", ["{}", "groups: [{{name: g, {}}}]"], ids=["short form", "in a group"])
def test_what_a_task_asks_for(form: str, fields: str, expected: dict[str, object]) -> None:
    group = the_group(form.format(fields))

    assert {name: getattr(group, name) for name in expected} == expected


def test_a_group_may_leave_the_end_of_its_job_to_others() -> None:
    groups = the_job("groups: [{name: work, cpu: 1}, {name: eval, cpu: 1, decides: false}]").profile.groups

    assert {group.name: group.decides for group in groups} == {"work": True, "eval": False}


# --- events -------------------------------------------------------------------------------------

SCRIPTED = (
    "queues: [{name: A}]\n"
    "jobs: [{name: s, count: 3, queue: A, cpu: 1}, {name: t, queue: A, groups: [{name: w, count: 2}]}]\n"
)


@pytest.mark.parametrize(
    "event, expected",
    [
        pytest.param("removeNode: n-1", [(1, NodeRemoved(node="n-1"))], id="a node goes"),
        pytest.param("cordonNode: n-2", [(1, NodeCordoned(node="n-2"))], id="a node is cordoned"),
        pytest.param("uncordonNode: n-2", [(1, NodeCordoned(node="n-2", cordoned=False))], id="a node is uncordoned"),
        pytest.param("drainNode: n-2", [(1, NodeDrained(node="n-2"))], id="a node is drained"),
        pytest.param(
            "labelNode: {node: n-0, labels: {pool: b}}",
            [(1, NodeLabelled(node="n-0", labels={"pool": "b"}))],
            id="a node gets labels",
        ),
        pytest.param("failTask: t/w-1", [(1, TaskFailed(job="t", group="w", index=1))], id="a task fails"),
        pytest.param("failTask: s-2/main-0", [(1, TaskFailed(job="s-2", group="main", index=0))], id="of a short form"),
        pytest.param("cancel: t", [(1, JobCancelled(job="t"))], id="a job is cancelled"),
        pytest.param("cancel: s", [(1, JobCancelled(job=f"s-{i}")) for i in range(3)], id="all jobs of an entry are"),
        pytest.param(
            "setJob: {name: s-1, priority: 9}", [(1, JobChanged(job="s-1", changes={"priority": 9}))], id="priority"
        ),
        pytest.param(
            "setJob: {name: t, priorityClass: default}",
            [(1, JobChanged(job="t", changes={"priority_class": 0}))],
            id="priority class",
        ),
        pytest.param(
            "setJob: {name: t, freezingWindow: 90s}",
            [(1, JobChanged(job="t", changes={"freezing_ms": 90_000}))],
            id="freezing window",
        ),
        pytest.param(
            "setQueue: {name: A, weight: 3}", [(1, QueueChanged(queue="A", changes={"weight": 3 * MICRO}))], id="weight"
        ),
        pytest.param(
            "setQueue: {name: A, quota: {gpu: 0}, excessBudget: off}",
            [(1, QueueChanged(queue="A", changes={"quota": {GPU: 0}, "excess_budget": None}))],
            id="quota and budget",
        ),
        pytest.param("cordonQueue: A", [(1, QueueChanged(queue="A", changes={"cordoned": True}))], id="a queue closes"),
        pytest.param(
            "uncordonQueue: A", [(1, QueueChanged(queue="A", changes={"cordoned": False}))], id="a queue opens"
        ),
        pytest.param(
            "silentCluster: {name: east, for: 20s}",
            [(1, ClusterSilent(cluster="east", silent=True)), (21, ClusterSilent(cluster="east", silent=False))],
            id="a cluster is silent for a while",
        ),
        pytest.param(
            "foreign: {node: n-0, cpu: 4, for: 1h}",
            [
                (1, ForeignPlaced(id="foreign-0", node="n-0", amounts=Resources.of({CPU: 4000, PODS: 1}))),
                (3601, ForeignGone(id="foreign-0", node="n-0")),
            ],
            id="pods that are not ours come and go",
        ),
        pytest.param(
            "foreign: {node: n-0, gpu: 1, pods: 3}",
            [(1, ForeignPlaced(id="foreign-0", node="n-0", amounts=Resources.of({GPU: 1000, PODS: 3})))],
            id="pods that are not ours stay",
        ),
        pytest.param(
            "addNodes: {cluster: east, nodes: [{name: x, count: 2, cpu: 1, topology: 's{i}'}]}",
            [
                (
                    1,
                    NodeAdded(
                        node=Node(
                            name=f"x-{i}",
                            cluster="east",
                            allocatable=Resources.of({CPU: 1000}),
                            topology=(f"s{i}",),
                        )
                    ),
                )
                for i in range(2)
            ],
            id="nodes come",
        ),
    ],
)
def test_events(event: str, expected: list[tuple[int, Event]]) -> None:
    found = events_of(world(f"{SCRIPTED}events: [{{at: 1, {event}}}]"))

    assert found == [(1000 * at, what) for at, what in expected]


def test_silences_that_overlap_or_touch_are_one() -> None:
    found = events_of(
        "clusters: [{name: e}]\nevents:\n"
        "- {at: 30, silentCluster: {name: e, for: 10}}\n- {at: 10, silentCluster: {name: e, for: 15}}\n"
        "- {at: 20, silentCluster: {name: e, for: 10}}\n- {at: 60, silentCluster: {name: e, for: 1}}\n"
    )

    assert [(at, event.silent) for at, event in found if isinstance(event, ClusterSilent)] == [
        (10_000, True),
        (40_000, False),
        (60_000, True),
        (61_000, False),
    ]


def test_a_node_may_come_back_even_at_the_moment_it_goes() -> None:
    found = events_of(
        world("events: [{at: 5, addNodes: {cluster: east, nodes: [{name: n-0, cpu: 1}]}}, {at: 5, removeNode: n-0}]")
    )

    assert [type(event) for _, event in found] == [NodeRemoved, NodeAdded]


def test_an_event_may_name_a_node_that_another_adds() -> None:
    found = events_of(
        world("events: [{at: 9, removeNode: x}, {at: 5, addNodes: {cluster: east, nodes: [{name: x, cpu: 1}]}}]")
    )

    assert [type(event) for _, event in found] == [NodeAdded, NodeRemoved]


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, path, says",
    [
        pytest.param(
            "job: []", "job", "did you mean jobs? the keys here are budgets, calendar, clusters", id="an unknown key"
        ),
        pytest.param("jobs: {}", "jobs", "a mapping is not allowed: a list", id="a mapping for a list"),
        pytest.param("jobs: [5]", "jobs[0]", "'5' is not allowed: a mapping", id="a number for a mapping"),
        pytest.param("queues: [{name: a}, {name: a}]", "queues[1].name", "names are unique", id="two queues of a name"),
        pytest.param(
            "users: {u: {limit: 1}}", "users.u.limit", "the keys here are quota", id="an unknown key of a user"
        ),
        pytest.param("users: {'a b': {}}", "users['a b']", "a name of at most", id="a bad name of a user"),
        pytest.param(
            "priorityClasses: {high: x}", "priorityClasses.high", "a whole number", id="a class without number"
        ),
        pytest.param(
            "priorityClasses: {default: 5}", "priorityClasses.default", "0: the default", id="another default"
        ),
        pytest.param(
            "jobs: [{name: a}, {name: a}]", "jobs[1].name", "on line 3: names are unique", id="two jobs of a name"
        ),
        pytest.param(
            "jobs: [{name: a-1}, {name: a, count: 2}]",
            "jobs[0].name",
            "has that name among its 2",
            id="a name that a count makes",
        ),
        pytest.param(
            f"jobs: [{{name: {'a' * 250}, count: 2}}]", "jobs[0].name", "with a count", id="a long name with a count"
        ),
        pytest.param(
            "jobs: [{name: a, count: 3}, {name: b, after: [a-3]}]", "jobs[1].after[0]", "'a-3'", id="after one too many"
        ),
        pytest.param(
            "jobs: [{name: a, after: [b]}, {name: b, after: [a]}]",
            "jobs[0].after",
            "in a circle: a before b before a",
            id="a circle",
        ),
        pytest.param(
            "jobs: [{name: a, groups: [{name: g}, {name: g}]}]",
            "jobs[0].groups[1].name",
            "unique in a job",
            id="two groups",
        ),
        pytest.param("events: [{cordonNode: n-0}]", "events[0].at", "missing: a duration", id="an event without time"),
        pytest.param(
            "events: [{at: 1}]", "events[0]", "an action is missing: one of addNodes", id="an event without action"
        ),
        pytest.param(
            "events: [{at: 1, cordonNode: n-0, removeNode: n-0}]",
            "events[0]",
            "removeNode and cordonNode in one event",
            id="two actions",
        ),
        pytest.param(
            "jobs: [{name: a}]\nevents: [{at: 1, setJob: {name: a}}]",
            "events[0].setJob",
            "nothing to set",
            id="nothing about a job",
        ),
        pytest.param(
            "jobs: [{name: a, queue: q}]\nevents: [{at: 1, setQueue: {name: q}}]",
            "events[0].setQueue",
            "nothing to set",
            id="nothing about a queue",
        ),
        pytest.param(
            "jobs: [{name: a}]\nevents: [{at: 1, failTask: a}]",
            "events[0].failTask",
            "as job/group-index",
            id="no task",
        ),
        pytest.param(
            "jobs: [{name: a}]\nevents: [{at: 1, failTask: b/main-0}]",
            "events[0].failTask",
            "a task of a single job of this file: a",
            id="a task of nobody",
        ),
        pytest.param(
            "jobs: [{name: a, count: 2}]\nevents: [{at: 1, failTask: a/main-0}]",
            "events[0].failTask",
            "a task of a single job",
            id="a task of several jobs",
        ),
        pytest.param(
            "jobs: [{name: a}]\nevents: [{at: 1, failTask: a/main-1}]",
            "events[0].failTask",
            "a task of a: main-0 to main-0",
            id="a task that is not there",
        ),
    ],
)
def test_a_problem_names_line_key_and_what_is_allowed(text: str, path: str, says: str) -> None:
    (problem,) = problems_of(world(text))

    assert (problem.line, problem.path) == (2 + len(text.splitlines()), path)
    assert says in problem.message


@pytest.mark.parametrize(
    "setting, key, says",
    [
        pytest.param("trun: 1s", "trun", "did you mean turn?", id="a misspelt setting"),
        pytest.param("turn: 0", "turn", "at least 1 ms", id="turns without length"),
        pytest.param("overShare: 0", "overShare", "above 0", id="an over-share of nothing"),
        pytest.param("overShare: on", "overShare", "or off", id="over-share just on"),
        pytest.param("overShare: 1.00000001", "overShare", "six decimals", id="too exact an over-share"),
        pytest.param("reservations: 17", "reservations", "from 0 to 16", id="too many reservations"),
        pytest.param("reservations: 1.0", "reservations", "a whole number", id="a fraction"),
        pytest.param("reservations: on", "reservations", "a whole number", id="a boolean as a number"),
        pytest.param("preemption: maybe", "preemption", "one of on, off, dry-run", id="a wrong word"),
        pytest.param("backfill: 1", "backfill", "on or off", id="a number as a boolean"),
        pytest.param("startsPerTurn: 0", "startsPerTurn", "from 1 to", id="turns that start nothing"),
        pytest.param("elasticEvery: 0", "elasticEvery", "at least 1 ms", id="widths looked at all the time"),
        pytest.param("maxLoad: 1.1", "maxLoad", "up to 1", id="more than there is"),
        pytest.param("uneven: 0.5", "uneven", "from 1 to 100", id="less than even"),
        pytest.param("uneven: 1.005", "uneven", "two decimals", id="too exact an unevenness"),
        pytest.param("levels: {Urgent: 0}", "levels.Urgent", "from 1 to 1000000", id="a level of nothing"),
        pytest.param("coresPerGpu: many", "coresPerGpu", "or off", id="cores that are no number"),
        pytest.param("weights: {cpu: -1}", "weights.cpu", "from 0 to 1000000", id="a negative weight"),
        pytest.param("weights: {cups: 1}", "weights.cups", "cpu, memory", id="a weight of nothing known"),
        pytest.param(
            "weights: {gpu: 1, nvidia.com/gpu: 1}", "weights.nvidia.com/gpu", "short for", id="one weight twice"
        ),
    ],
)
def test_a_problem_of_the_config(setting: str, key: str, says: str) -> None:
    (problem,) = problems_of(world(f"config: {{{setting}}}"))

    assert (problem.line, problem.path) == (3, f"config.{key}")
    assert says in problem.message


@pytest.mark.parametrize(
    "text, path, says",
    [
        pytest.param("clusters: [{nodes: []}]", "clusters[0].name", "missing: a name of at most 253", id="no name"),
        pytest.param("clusters: [{name: -a}]", "clusters[0].name", "'-a' is not allowed: a name", id="a bad name"),
        pytest.param(f"clusters: [{{name: {'a' * 254}}}]", "clusters[0].name", "at most 253", id="a long name"),
        pytest.param("clusters: [{name: ä}]", "clusters[0].name", "letters, digits", id="a name beyond ASCII"),
        pytest.param(
            "clusters: [{name: a, kind: cloud}]", "clusters[0].kind", "transparent, opaque", id="a wrong kind"
        ),
        pytest.param(
            "clusters: [{name: a, priority: 101}]", "clusters[0].priority", "from 0 to 100", id="too much priority"
        ),
        pytest.param(
            "clusters: [{name: a}, {name: a}]", "clusters[1].name", "on line 1: names are unique", id="two clusters"
        ),
    ],
)
def test_a_problem_of_a_cluster(text: str, path: str, says: str) -> None:
    (problem,) = problems_of(text)

    assert (problem.line, problem.path) == (1, path)
    assert says in problem.message


@pytest.mark.parametrize(
    "fields, key, says",
    [
        pytest.param("weight: 0", "weight", "from 0.000001 to", id="no weight at all"),
        pytest.param("weight: 1000001", "weight", "to 1000000", id="too much weight"),
        pytest.param("excessBudget: -1", "excessBudget", "from 0", id="a negative budget"),
        pytest.param("quota: {cpu: -1}", "quota.cpu", "quantity >= 0", id="a negative quota"),
        pytest.param("quota: {cpus: 1}", "quota.cpus", "did you mean cpu?", id="an unknown quota"),
    ],
)
def test_a_problem_of_a_queue(fields: str, key: str, says: str) -> None:
    (problem,) = problems_of(world(f"queues: [{{name: a, {fields}}}]"))

    assert (problem.line, problem.path) == (3, f"queues[0].{key}")
    assert says in problem.message


@pytest.mark.parametrize(
    "fields, key, says",
    [
        pytest.param("memroy: 1", "memroy", "did you mean memory?", id="a misspelt key"),
        pytest.param("pods: 1", "pods", "any resource with a slash", id="pods of a task"),
        pytest.param(
            "cpu: -1", "cpu", "'-1' is not allowed: a Kubernetes quantity >= 0 such as 500m or 2", id="negative cpu"
        ),
        pytest.param("cpu: .nan", "cpu", "a Kubernetes quantity", id="no number of cores"),
        pytest.param("cpu: 10:30", "cpu", "'10:30' is not allowed", id="a time of cores"),
        pytest.param("memory: 1e19", "memory", "2^63", id="more memory than there can be"),
        pytest.param("gpu: 0.5", "gpu", "a whole number >= 0", id="half a device"),
        pytest.param("cpu: ", "cpu", "nothing is not allowed", id="no value"),
        pytest.param("gpu: 1, nvidia.com/gpu: 1", "nvidia.com/gpu", "given twice", id="gpu twice"),
        pytest.param("gpuMilli: 300", "gpuMilli", "needs gpu", id="a part of no device"),
        pytest.param("gpu: 1, gpuMilli: 0", "gpuMilli", "from 1 to 1000", id="no part of a device"),
        pytest.param("count: 0", "count", "from 1 to 1000000", id="no jobs at all"),
        pytest.param("count: 1000001", "count", "from 1 to 1000000", id="too many jobs at once"),
        pytest.param("retries: -1", "retries", "from 0", id="negative retries"),
        pytest.param("retries: often", "retries", "or a mapping such as {failed: 2", id="retries in words"),
        pytest.param("retries: {lost: -1}", "retries.lost", "from 0", id="negative retries of lost attempts"),
        pytest.param("retries: {moved: 1}", "retries.moved", "failed, lost, preempted", id="retries of anything else"),
        pytest.param(
            "priorityClass: x", "priorityClass", "a priority class of this file: default", id="an unknown class"
        ),
        pytest.param("cluster: west", "cluster", "a cluster of this file: east", id="an unknown cluster"),
        pytest.param("clusters: {west: 1}", "clusters.west", "of this file: east", id="an unknown candidate"),
        pytest.param("clusters: {east: 101}", "clusters.east", "from 0 to 100", id="too much preference"),
        pytest.param("cluster: east, clusters: {east: 1}", "cluster", "exclude each other", id="cluster and clusters"),
        pytest.param("after: [b]", "after[0]", "'b' is not allowed: a job of this file: a", id="after nobody"),
        pytest.param("after: [a]", "after[0]", "cannot wait for itself", id="after itself"),
        pytest.param("count: 3, after: [a-0]", "after[0]", "cannot wait for itself", id="after one of its own"),
        pytest.param("after: b", "after", "a list", id="after without a list"),
        pytest.param(
            "nodeSelector: {zone: 'a b'}", "nodeSelector.zone", "'a b' is not allowed", id="a bad label value"
        ),
        pytest.param("nodeSelector: {zone: []}", "nodeSelector.zone", "text", id="a list as a label value"),
        pytest.param(
            "tolerations: [{operator: Equals}]", "tolerations[0].operator", "Equal or Exists", id="a bad toleration"
        ),
        pytest.param(
            "affinity: {podAffinity: {x: 1}}",
            "affinity.podAffinity",
            "only required node affinity",
            id="a pod affinity",
        ),
        pytest.param("runtime: {work: 1h}", "runtime", "only tasks of elastic groups work", id="work of a rigid job"),
        pytest.param("runtime: {}", "runtime.work", "missing: task-hours", id="a mapping as runtime"),
        pytest.param("level: Urgent", "level", "one of Experiment, Offline, Normal, Production", id="an unknown level"),
        pytest.param("freezingWindow: soon", "freezingWindow", "a duration", id="a window that is no duration"),
        pytest.param("groups: []", "groups", "at least one group", id="no groups"),
        pytest.param("groups: [{cpu: 1}]", "groups[0].name", "missing: a name", id="a group without name"),
        pytest.param("cpu: 1, groups: [{name: g}]", "cpu", "beside groups", id="cpu beside groups"),
        pytest.param("maxHops: 1, groups: [{name: g}]", "maxHops", "beside groups", id="hops beside groups"),
        pytest.param("groups: [{name: g, min: 0, initial: 2}]", "groups", "at least one task", id="no task at min"),
        pytest.param("groups: [{name: g, decides: false}]", "groups", "must decide", id="nobody decides"),
        pytest.param("decides: true", "decides", "the keys here are", id="decides outside of a group"),
    ],
)
def test_a_problem_of_a_job(fields: str, key: str, says: str) -> None:
    (problem,) = problems_of(world(f"jobs: [{{name: a, {fields}}}]"))

    assert (problem.line, problem.path) == (3, f"jobs[0].{key}")
    assert says in problem.message


@pytest.mark.parametrize(
    "fields, key, says",
    [
        pytest.param("count: 2, min: 1", "min", "exclude each other", id="count and min"),
        pytest.param("min: 3, initial: 2", "initial", "min <= initial: 3 is above 2", id="less than min"),
        pytest.param("min: 3, max: 2", "max", "initial <= max: 3 is above 2", id="more than max"),
        pytest.param("count: 100001", "count", "to 100000", id="too many tasks"),
        pytest.param("maxHops: -1", "maxHops", "from 0", id="negative hops"),
    ],
)
def test_a_problem_of_a_group(fields: str, key: str, says: str) -> None:
    (problem,) = problems_of(world(f"jobs: [{{name: a, groups: [{{name: g, {fields}}}]}}]"))

    assert (problem.line, problem.path) == (3, f"jobs[0].groups[0].{key}")
    assert says in problem.message


@pytest.mark.parametrize(
    "action, key, says",
    [
        pytest.param("explode: n-0", "explode", "the keys here are addNodes", id="an unknown event"),
        pytest.param("cordonNode: n-4", "cordonNode", "a node of this file: n-0, n-1, n-2, n-3", id="an unknown node"),
        pytest.param("cordonNode: n", "cordonNode", "a node of this file: n-0", id="the name of several nodes"),
        pytest.param("cancel: a", "cancel", "a job of this file: it has none", id="an unknown job"),
        pytest.param("cordonQueue: q", "cordonQueue", "a queue of this file", id="an unknown queue"),
        pytest.param(
            "silentCluster: {name: w, for: 1}",
            "silentCluster.name",
            "a cluster of this file: east",
            id="an unknown cluster to be silent",
        ),
        pytest.param(
            "silentCluster: {name: east}", "silentCluster.for", "missing: a duration", id="silent without end"
        ),
        pytest.param("foreign: {node: n-0, for: 0}", "foreign.for", "at least 1 ms", id="pods for no time"),
        pytest.param(
            "foreign: {node: n-0, cpus: 1}", "foreign.cpus", "did you mean cpu?", id="pods with an unknown resource"
        ),
        pytest.param("labelNode: {node: n-0}", "labelNode.labels", "missing: the labels", id="no labels"),
        pytest.param(
            "labelNode: {node: n-0, labels: {a: '?'}}", "labelNode.labels.a", "'?' is not allowed", id="a bad label"
        ),
        pytest.param("addNodes: {cluster: east}", "addNodes.nodes", "missing: a list of nodes", id="no nodes to add"),
        pytest.param(
            "addNodes: {cluster: east, nodes: [{name: n-1, cpu: 1}]}",
            "addNodes.nodes[0].name",
            "the node n-1 of line 2 is still there",
            id="a node twice",
        ),
    ],
)
def test_a_problem_of_an_event(action: str, key: str, says: str) -> None:
    (problem,) = problems_of(world(f"events: [{{at: 1, {action}}}]"))

    assert (problem.line, problem.path) == (3, f"events[0].{key}")
    assert says in problem.message


@pytest.mark.parametrize(
    "node, path, says",
    [
        pytest.param("cpu: -1", "cpu", "a Kubernetes quantity >= 0 such as 500m or 2", id="negative cpu"),
        pytest.param("memory: 4GiB", "memory", "'4GiB' is not allowed: a Kubernetes quantity", id="a wrong suffix"),
        pytest.param("pods: 1.5", "pods", "a whole number >= 0", id="half a pod"),
        pytest.param("taints: [gpu]", "taints[0]", "effect one of NoSchedule", id="a taint without effect"),
        pytest.param("taints: [{key: a}]", "taints[0]", "key=value:effect", id="a taint as a mapping"),
        pytest.param("labels: {a: 'x{j}'}", "labels.a", "'x{j}' is not allowed", id="an unknown placeholder"),
        pytest.param("labels: {'?': x}", "labels", "'?' is not allowed", id="a bad label key"),
        pytest.param("labels: [a]", "labels", "a mapping", id="labels as a list"),
        pytest.param("topology: 's0//l0'", "topology", "a path of switches", id="a switch without name"),
        pytest.param("topology: 's{i//0}'", "topology", "{i//4}", id="divided by nothing"),
        pytest.param("topology: []", "topology", "a path of switches", id="topology as a list"),
        pytest.param("gpus: 1", "gpus", "did you mean gpu?", id="a misspelt resource"),
        pytest.param("count: 200001", "count", "more than 200000 nodes in the whole file", id="too many nodes"),
    ],
)
def test_a_problem_of_a_node(node: str, path: str, says: str) -> None:
    (problem,) = problems_of(f"clusters:\n- name: east\n  nodes:\n  - {{name: n, {node}}}\n")

    assert (problem.line, problem.path) == (4, f"clusters[0].nodes[0].{path}")
    assert says in problem.message


@pytest.mark.parametrize(
    "queue, says",
    [
        pytest.param("", "queue: missing: a queue of this file: A, B", id="no queue where queues are declared"),
        pytest.param("queue: C", "queue: 'C' is not allowed: a queue of this file: A, B", id="an undeclared queue"),
    ],
)
def test_declared_queues_must_be_used(queue: str, says: str) -> None:
    (problem,) = problems_of(f"queues: [{{name: A}}, {{name: B}}]\njobs:\n- {{name: a, {queue}}}")

    assert str(problem) == f"line 3: jobs[0].{says}"


def test_all_problems_are_reported_together_in_order_of_line() -> None:
    problems = problems_of(
        "jobs:\n"
        "- {name: a, cpu: -1, memory: x}\n"
        "- name: b\n"
        "  groups:\n"
        "  - {name: g, gpu: 1.5,\n"
        "     nodeSelector: {a: '?'}, tolerations: [{operator: X}]}\n"
        "  cpu: 1\n"
        "  cpu: 2\n"
        "config: {turn: 0, trun: 1}\n"
        "clusters: [{name: e, nodes: [{name: n, cpu: bad}, {cpu: 1}]}]\n"
        "until: never\n"
    )

    assert [(problem.line, problem.path) for problem in problems] == [
        (2, "jobs[0].cpu"),
        (2, "jobs[0].memory"),
        (5, "jobs[1].groups[0].gpu"),
        (6, "jobs[1].groups[0].nodeSelector.a"),
        (6, "jobs[1].groups[0].tolerations[0].operator"),
        (7, "jobs[1].cpu"),
        (8, "jobs[1].cpu"),
        (9, "config.trun"),
        (9, "config.turn"),
        (10, "clusters[0].nodes[0].cpu"),
        (10, "clusters[0].nodes[1].name"),
        (11, "until"),
    ]


def test_a_problem_inside_of_a_kubernetes_shape_has_its_own_line() -> None:
    (problem,) = problems_of(
        "jobs:\n- name: a\n  nodeSelector:\n    zone: z1\n    example.com/rack.a: 'a b'\n    example.com: x\n"
    )

    assert (problem.line, problem.path) == (5, "jobs[0].nodeSelector.example.com/rack.a")


def test_a_mapping_that_is_none_is_one_problem() -> None:
    (problem,) = problems_of("events: [{at: 1, labelNode: 5}]")

    assert str(problem) == "line 1: events[0].labelNode: '5' is not allowed: a mapping"


def test_odd_keys_of_kubernetes_shapes_stay_on_one_line() -> None:
    (problem,) = problems_of('jobs: [{name: a, affinity: {"new\\nline": 1}}]')

    assert "\n" not in str(problem)


def test_a_problem_reads_as_one_sentence() -> None:
    (problem,) = problems_of("jobs:\n- name: a\n  cpu: '-1'\n")

    assert str(problem) == ("line 3: jobs[0].cpu: '-1' is not allowed: a Kubernetes quantity >= 0 such as 500m or 2")


def test_circles_are_all_named() -> None:
    problems = problems_of(
        "jobs:\n- {name: a, after: [b]}\n- {name: b, after: [c]}\n- {name: c, after: [a]}\n"
        "- {name: x, count: 2, after: [y-0]}\n- {name: y, count: 2, after: [x]}\n- {name: z, after: [a, x]}\n"
    )

    assert [str(problem) for problem in problems] == [
        "line 2: jobs[0].after: these jobs wait for each other in a circle: a before c before b before a",
        "line 5: jobs[3].after: these jobs wait for each other in a circle: x before y before x",
    ]


def test_more_jobs_than_anyone_simulates_are_refused() -> None:
    count = MOST_JOBS // 2
    (problem,) = problems_of(f"jobs: [{{name: a, count: {count}}}, {{name: b, count: {count}}}, {{name: c, count: 1}}]")

    assert (problem.path, problem.message) == (
        "jobs[2].count",
        "more than 2000000 jobs in the whole file are not allowed",
    )


def test_more_dependencies_than_anyone_can_hold_are_refused() -> None:
    (problem,) = problems_of("jobs: [{name: a, count: 10000}, {name: b, count: 10000, after: [a]}]")

    assert problem.path == "jobs[1].after"
    assert "more than 10000000 pairs of jobs" in problem.message


def test_more_events_than_anyone_can_hold_are_refused() -> None:
    cancels = ", ".join(f"{{at: {at}, cancel: a}}" for at in range(3))
    (problem,) = problems_of(f"jobs: [{{name: a, count: 1000000}}]\nevents: [{cancels}]")

    assert (problem.path, problem.line) == ("events[2].cancel", 2)
    assert "more than 2000000 changes of jobs" in problem.message


# --- pools --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry, pool",
    [
        pytest.param("", Pool(name="p"), id="all switches on, no node"),
        pytest.param("nodeSelector: {zone: z1}", Pool(name="p", selector={"zone": "z1"}), id="labels in short"),
        pytest.param(
            "nodeSelector: {matchLabels: {zone: z1, tier: 'true'}}",
            Pool(name="p", selector={"tier": "true", "zone": "z1"}),
            id="Kubernetes' labels",
        ),
        pytest.param("nodeSelector: {matchLabels: {}}", Pool(name="p"), id="Kubernetes' labels, none given"),
        pytest.param(
            "nodeSelector: {matchLabels: 'yes'}",
            Pool(name="p", selector={"matchLabels": "yes"}),
            id="a label may be called so",
        ),
        pytest.param("nodeSelector:", Pool(name="p"), id="a selector without a value selects nothing"),
        pytest.param("disablePreemption: true", Pool(name="p", preempts=False), id="preemption off"),
        pytest.param("disableBorrowing: on", Pool(name="p", borrows=False), id="borrowing off"),
        pytest.param("disableSharing: 'true'", Pool(name="p", shares=False), id="sharing off"),
        pytest.param("disableSharing: off", Pool(name="p"), id="sharing not off"),
        pytest.param(
            "borrowingPools: [q-10, q-9, default, q-9]",
            Pool(name="p", borrows_from=("", "q-9", "q-10")),
            id="whom it borrows from, the default pool among them",
        ),
    ],
)
def test_a_pool(entry: str, pool: Pool) -> None:
    text = f"pools:\n- name: p\n  {entry}\n- {{name: q-9}}\n- {{name: q-10}}\n"

    assert parse(text).pools[0] == pool


@pytest.mark.parametrize(
    "pool, name",
    [
        pytest.param("p", "p", id="a pool of the file"),
        pytest.param("nowhere", "nowhere", id="a pool that nobody makes: its verdict will say so"),
        pytest.param("default", "", id="the default pool by its name"),
    ],
)
def test_the_pool_of_a_job(pool: str, name: str) -> None:
    (job,) = jobs_of(f"pools: [{{name: p}}]\njobs: [{{name: a, pool: {pool}}}]")

    assert job.profile.pool == name


def test_jobs_that_ask_for_the_same_in_different_pools_have_profiles_of_their_own() -> None:
    first, second = jobs_of("jobs: [{name: a, cpu: 1, pool: p}, {name: b, cpu: 1}]")

    assert (first.profile.pool, second.profile.pool) == ("p", "")


def test_pools_are_changed_made_and_deleted_by_events() -> None:
    text = (
        "pools: [{name: p}]\nevents:\n"
        "- {at: 3, deletePool: p}\n"
        "- {at: 2, setPool: {name: q, nodeSelector: {zone: z1}, borrowingPools: [p]}}\n"
        "- {at: 1, setPool: {name: p, disableSharing: true, disablePreemption: false, nodeSelector: {}}}\n"
        "- {at: 3, setPool: {name: p}}\n"
    )

    assert events_of(text) == [
        (1000, PoolChanged(pool="p", changes={"selector": {}, "shares": False, "preempts": True})),
        (2000, PoolChanged(pool="q", changes={"selector": {"zone": "z1"}, "borrows_from": ("p",)})),
        (3000, PoolDeleted(pool="p")),
        (3000, PoolChanged(pool="p", changes={})),
    ]


@pytest.mark.parametrize(
    "where, cluster, pool",
    [
        pytest.param("pool: p", "east", "p", id="a pool, of the only cluster"),
        pytest.param("pool: default", "east", "", id="the default pool"),
        pytest.param("pool: later, cluster: east", "east", "later", id="a pool that comes later, of a cluster"),
    ],
)
def test_a_window_of_a_pool(where: str, cluster: str, pool: str) -> None:
    text = f"pools: [{{name: p}}]\nevents: [{{at: 1, setPool: {{name: later}}}}]\ncalendar: [{{{where}, {DAYTIME}}}]"

    (window,) = parse(world(text)).policy.calendar

    assert (window.cluster, window.pool) == (cluster, pool)


def test_a_window_of_a_pool_alone_is_of_that_pool_in_every_cluster() -> None:
    text = f"clusters: [{{name: east}}, {{name: west}}]\npools: [{{name: p}}]\ncalendar: [{{pool: p, {DAYTIME}}}]"

    (window,) = parse(text).policy.calendar

    assert (window.cluster, window.pool) == ("", "p")


DAYTIME = "from: '08:00', to: '20:00', withhold: {cpu: 1}"
OURS = "a pool of this file: default, p, q"


@pytest.mark.parametrize(
    "text, path, message",
    [
        pytest.param("pools: [{}]", "pools[0].name", "missing: a name of", id="no name"),
        pytest.param("pools: [{name: ''}]", "pools[0].name", "'' is not allowed: a name of", id="an empty name"),
        pytest.param(
            "pools: [{name: default, nodeSelector: {a: b}}]",
            "pools[0].nodeSelector",
            "no selector",
            id="a selector of the default pool",
        ),
        pytest.param(
            "pools: [{name: p}, {name: p}]",
            "pools[1].name",
            "'p' is not allowed: a pool of that name is on line 1: names are unique",
            id="two pools of one name",
        ),
        pytest.param(
            "pools: [{name: p, cpu: 1}]", "pools[0].cpu", "the keys here are borrowingPools", id="a wrong key"
        ),
        pytest.param("pools: [{name: p, disableSharing: 2}]", "pools[0].disableSharing", "on or off", id="no switch"),
        pytest.param("pools: [{name: p, nodeSelector: 5}]", "pools[0].nodeSelector", "a mapping", id="no selector"),
        pytest.param(
            "pools: [{name: p, nodeSelector: {zone: [z1]}}]", "pools[0].nodeSelector.zone", "text", id="no label"
        ),
        pytest.param(
            "pools: [{name: p, nodeSelector: {zone: 'a b'}}]",
            "pools[0].nodeSelector.zone",
            "'a b' is not allowed",
            id="a label that no node can have",
        ),
        pytest.param(
            "pools: [{name: p, nodeSelector: {matchLabels: {zone: '{i}'}}}]",
            "pools[0].nodeSelector.matchLabels.zone",
            "'{i}' is not allowed",
            id="Kubernetes' label that no node can have",
        ),
        pytest.param(
            "pools: [{name: p, nodeSelector: {matchLabels: {}, matchExpressions: []}}]",
            "pools[0].nodeSelector.matchExpressions",
            "the keys here are matchLabels",
            id="more than labels",
        ),
        pytest.param(
            "pools: [{name: p, borrowingPools: [q, r]}, {name: q}]",
            "pools[0].borrowingPools[1]",
            f"'r' is not allowed: {OURS}",
            id="a lender that nobody makes",
        ),
        pytest.param(
            "pools: [{name: q}]\nevents: [{at: 1, setPool: {name: p, borrowingPools: [r]}}]",
            "events[0].setPool.borrowingPools[0]",
            OURS,
            id="a later lender that nobody makes",
        ),
        pytest.param(
            "pools: [{name: p, borrowingPools: q}]", "pools[0].borrowingPools", "a list", id="lenders that are no list"
        ),
        pytest.param(
            "pools: [{name: p}, {name: q}]\nevents: [{at: 1, deletePool: r}]",
            "events[0].deletePool",
            OURS,
            id="an end of a pool that nobody makes",
        ),
        pytest.param(
            "events: [{at: 1, setPool: {name: default, nodeSelector: {a: b}}}]",
            "events[0].setPool.nodeSelector",
            "no selector",
            id="a selector of the default pool, set later",
        ),
        pytest.param(
            world("pools: [{name: p}, {name: q}]\ncalendar: [{pool: r, from: '1', to: '20:00'}]"),
            "calendar[0].pool",
            OURS,
            id="a window of a pool that nobody makes",
        ),
        pytest.param("jobs: [{name: a, pool: '-'}]", "jobs[0].pool", "a name of", id="a pool of a job that is no name"),
    ],
)
def test_a_problem_of_pools(text: str, path: str, message: str) -> None:
    problem = next(problem for problem in problems_of(text) if problem.path == path)

    assert problem.line == len(text.splitlines())
    assert message in problem.message


def test_all_problems_of_pools_are_told_together() -> None:
    pools = "- {name: default, nodeSelector: 5}\n- {name: p, borrowingPools: [x]}"
    text = f"pools:\n{pools}\nevents: [{{at: 1, deletePool: y}}]"

    assert [(problem.line, problem.path) for problem in problems_of(text)] == [
        (2, "pools[0].nodeSelector"),
        (3, "pools[1].borrowingPools[0]"),
        (4, "events[0].deletePool"),
    ]


# --- width --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "days, numbers",
    [
        pytest.param("", range(7), id="every day if none is named"),
        pytest.param("days: all, ", range(7), id="all days"),
        pytest.param("days: mon-fri, ", range(5), id="working days"),
        pytest.param("days: sat, ", [5], id="one day"),
        pytest.param("days: 'mon,wed', ", [0, 2], id="two days"),
        pytest.param("days: sat-mon, ", [5, 6, 0], id="over the end of the week"),
    ],
)
def test_the_days_of_a_window(days: str, numbers: Iterable[int]) -> None:
    entry = f"{{{days}from: '08:00', to: '20:00', withhold: {{cpu: 64, gpu: 1}}, shrinkAhead: 10m}}"

    (window,) = parse(world(f"calendar: [{entry}]")).policy.calendar

    assert window == Window(
        cluster="east",
        days=frozenset(numbers),
        from_ms=8 * HOUR,
        to_ms=20 * HOUR,
        withhold=Resources.of({"cpu": 64_000, "nvidia.com/gpu": 1000}),
        ahead_ms=10 * MINUTE,
    )


@pytest.mark.parametrize(
    "entry, key, says",
    [
        pytest.param("from: '8', to: '20:00', withhold: {cpu: 1}", "from", "a time of day", id="no time of day"),
        pytest.param("to: '20:00', withhold: {cpu: 1}", "from", "missing", id="no beginning"),
        pytest.param("from: '08:00', to: '24:01', withhold: {cpu: 1}", "to", "up to", id="after midnight"),
        pytest.param("from: '08:00', to: '20:00'", "withhold", "missing", id="nothing withheld"),
        pytest.param(
            "days: weekdays, from: '08:00', to: '20:00', withhold: {cpu: 1}", "days", "such as mon-fri", id="odd days"
        ),
        pytest.param(
            "cluster: west, from: '08:00', to: '20:00', withhold: {cpu: 1}", "cluster", "east", id="an unknown cluster"
        ),
    ],
)
def test_a_problem_of_the_calendar(entry: str, key: str, says: str) -> None:
    (problem,) = problems_of(world(f"calendar: [{{{entry}}}]"))

    assert (problem.line, problem.path) == (3, f"calendar[0].{key}")
    assert says in problem.message


def test_levels_may_be_added_and_changed() -> None:
    text = (
        "config: {levels: {Urgent: 50000, Offline: 200}}\njobs: [{name: a, level: Urgent}, {name: b, level: Offline}]"
    )

    assert [job.level for job in jobs_of(world(text))] == [50_000, 200]


def test_a_level_may_be_changed_while_a_job_runs() -> None:
    text = "jobs: [{name: a}]\nevents: [{at: 1, setJob: {name: a, level: Production}}]"

    assert events_of(world(text)) == [(1000, JobChanged(job="a", changes={"level": 10_000}))]


def test_work_is_told_in_task_hours() -> None:
    (one,) = parse(world("jobs: [{name: a, runtime: {work: 8h}, groups: [{name: g, min: 1, max: 4}]}]")).jobs

    assert (one.runtime_ms, one.work) == (None, Work(8 * HOUR))


def test_jobs_with_gpus_get_the_cores_they_need_beside_them() -> None:
    (job,) = jobs_of(world("config: {coresPerGpu: 2}\njobs: [{name: a, gpu: 2}]"))

    assert job.profile.least["cpu"] == 4000


def test_jobs_that_ask_for_too_few_cores_beside_their_gpus_are_refused() -> None:
    (problem,) = problems_of(world("config: {coresPerGpu: 2}\njobs: [{name: a, gpu: 2, cpu: 1}]"))

    assert (problem.path, problem.message) == (
        "jobs[0].cpu",
        "'1' is not allowed: at least 4000m: a GPU needs 2000m of CPU beside it (config: coresPerGpu)",
    )


# --- the public example -------------------------------------------------------------------------

EXAMPLE = """\
config:
  turn: 1s
  halfTime: 20m
  overShare: 1.2
  weights: {cpu: 1, memory: 0.25, gpu: 16}
  reservations: 1
  agingAfter: 24h
  preemption: on
clusters:
  - name: east
    nodes:
      - {name: n, count: 4, cpu: 32, memory: 256Gi, gpu: 8, labels: {pool: a}, topology: "s0/l{i}"}
      - {name: t, cpu: 8, memory: 64Gi, taints: ["gpu=yes:NoSchedule"]}
  - {name: west, priority: 80}
pools:
  - {name: a, nodeSelector: {pool: a}, disablePreemption: false, disableBorrowing: false, disableSharing: false,
     borrowingPools: []}
  - {name: c, nodeSelector: {matchLabels: {pool: c}}, disablePreemption: true, borrowingPools: [b, a, default]}
queues:
  - {name: A, weight: 1, quota: {cpu: 100}, excessBudget: 600}
users: {u1: {quota: {gpu: 8}}}
priorityClasses: {high: 1000, low: 10}
calendar: [{pool: a, days: mon-fri, from: "08:00", to: "20:00", withhold: {cpu: 64}, shrinkAhead: 10m}]
jobs:
  - {name: prep, queue: A, cpu: 1}
  - name: small
    count: 32
    at: 0
    queue: A
    priority: 0
    lifetime: 30m
    runtime: 10m
    expectedRuntime: 12m
    pool: a
    user: u1
    retries: 2
    after: [prep]
    clusters: {east: 80, west: 20}
    cpu: 1
    memory: 4Gi
  - name: train
    queue: A
    runtime: 8h
    groups:
      - {name: ps, count: 2, cpu: 4}
      - {name: worker, min: 2, initial: 4, cpu: 4, gpu: 1, maxHops: 2, nodeSelector: {zone: z1},
         tolerations: [], affinity: {}}
      - {name: eval, count: 1, wholeNode: true, cpu: 1, decides: false}
      - {name: part, count: 1, gpu: 1, gpuMilli: 300}
events:
  - {at: 60, addNodes: {cluster: east, nodes: [{name: x, cpu: 32}]}}
  - {at: 90, removeNode: n-1}
  - {at: 95, cordonNode: n-2}
  - {at: 100, failTask: train/worker-0}
  - {at: 120, cancel: small-3}
  - {at: 130, setPool: {name: a, nodeSelector: {pool: b}}}
  - {at: 135, setPool: {name: b, disableBorrowing: true}}
  - {at: 140, deletePool: a}
  - {at: 150, setQueue: {name: A, weight: 3}}
  - {at: 160, foreign: {node: n-0, cpu: 4, for: 1h}}
  - {at: 170, labelNode: {node: n-0, labels: {pool: b}}}
  - {at: 180, setJob: {name: small-4, priority: 9}}
  - {at: 190, silentCluster: {name: east, for: 20m}}
  - {at: 200, cordonQueue: A}
until: 2h
"""


def test_the_public_example_without_what_comes_later_is_read(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(EXAMPLE)

    scenario = load(str(path))

    assert scenario == parse(EXAMPLE)
    assert (len(scenario.nodes), len(scenario.jobs), len(scenario.events)) == (5, 34, 16)
    assert scenario.until_ms == 2 * HOUR


# --- properties ---------------------------------------------------------------------------------


def _shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, list):
        return chance.sample([_shuffled(item, chance) for item in value], len(value))
    if isinstance(value, dict):
        return {key: _shuffled(value[key], chance) for key in chance.sample(list(value), len(value))}
    return value


@given(st.randoms(use_true_random=False))
def test_property_the_order_in_the_file_means_nothing(chance: random.Random) -> None:
    # JSON is YAML, and quicker to write.
    shuffled = json.dumps(_shuffled(yaml.load(EXAMPLE, Loader=yaml.CSafeLoader), chance))

    assert parse(shuffled) == parse(EXAMPLE)


KEYS = sorted(
    {word for word in EXAMPLE.replace("{", " ").replace(":", " ").split() if word.isalnum()} | {"runtime", "race"}
)
values = st.recursive(
    st.sampled_from(["a", "A", "n-0", "east", "small", "train/worker-0", "1s", "-1", "4Gi", "{i}", "", "on", "default"])
    | st.sampled_from([None, True, False, 0, 1, 3, -1, 10**30, 1.5, float("nan"), float("inf"), 1_000_000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


def _scenario_or_error(text: str) -> None:
    try:
        parse(text)
    except ScenarioError as err:
        _check_problems(err.problems)


def _check_problems(problems: tuple[Problem, ...]) -> None:
    lines = [problem.line or 10**9 for problem in problems]
    assert lines
    assert lines == sorted(lines)
    assert all(len(str(problem)) < 5000 and str(problem).isprintable() for problem in problems)


@given(st.text())
def test_property_any_text_is_a_scenario_or_a_scenario_error(text: str) -> None:
    _scenario_or_error(text)


TOP = ["config", "clusters", "pools", "queues", "users", "calendar", "jobs", "events", "until"]


@given(st.dictionaries(st.sampled_from(TOP), values))
def test_property_any_values_under_the_known_keys_are_a_scenario_or_a_scenario_error(value: dict[str, Any]) -> None:
    _scenario_or_error(yaml.dump(value, Dumper=yaml.CSafeDumper))


@given(st.data())
def test_property_an_example_with_one_thing_changed_is_a_scenario_or_a_scenario_error(data: st.DataObject) -> None:
    """Walks into the example and puts another value, or nothing, in one place."""
    document = yaml.load(EXAMPLE, Loader=yaml.CSafeLoader)
    parent: Any = document
    while True:
        key = data.draw(st.sampled_from(list(parent) if isinstance(parent, dict) else range(len(parent))))
        if not parent[key] or not isinstance(parent[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            break
        parent = parent[key]
    if data.draw(st.booleans()):
        del parent[key]
    else:
        parent[key] = data.draw(values)

    _scenario_or_error(yaml.dump(document, Dumper=yaml.CSafeDumper))


@given(st.lists(st.tuples(st.integers(0, len(EXAMPLE)), st.integers(0, 3), st.text(max_size=3)), max_size=4))
def test_property_a_garbled_example_is_a_scenario_or_a_scenario_error(edits: list[tuple[int, int, str]]) -> None:
    text = EXAMPLE
    for start, length, inserted in edits:
        text = text[:start] + inserted + text[start + length :]

    _scenario_or_error(text)


# --- size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, jobs",
    [
        pytest.param(
            "jobs:\n"
            + "".join(
                f"  - {{name: j{i}, queue: A, at: {i}, cpu: 1, memory: 4Gi, runtime: 10m, lifetime: 5m}}\n"
                for i in range(10_000)
            ),
            10_000,
            id="ten thousand entries",
        ),
        pytest.param("jobs: [{name: j, count: 100000, cpu: 1}]", 100_000, id="a hundred thousand counted jobs"),
    ],
)
def test_big_files_are_read(text: str, jobs: int) -> None:
    assert len(parse(text).jobs) == jobs


# --- disruption budgets -----------------------------------------------------------------------------------

TRAIN = "jobs: [{name: train, groups: [{name: worker, count: 4}, {name: ps, count: 1}]}, {name: many, count: 3}]\n"


def test_budgets_are_read() -> None:
    text = world(TRAIN + "budgets: [{job: train, group: worker, minAvailable: 3}, {job: many-1, minAvailable: 1}]")

    assert [(it.job, it.min_available) for it in parse(text).budgets] == [("many-1", 1), ("train", 3)]


@pytest.mark.parametrize(
    "budget, problem",
    [
        pytest.param(
            "{job: nobody, minAvailable: 1}",
            "budgets[0].job: 'nobody' is not allowed: a job of this file: many, train; where it has a count one of its "
            "jobs, such as nobody-0",
            id="a job that is not there",
        ),
        pytest.param(
            "{job: train, minAvailable: 1}",
            "budgets[0].group: missing: a group of that job: ps, worker",
            id="which of two groups",
        ),
        pytest.param(
            "{job: train, group: master, minAvailable: 1}",
            "budgets[0].group: 'master' is not allowed: a group of that job: ps, worker",
            id="a group that is not there",
        ),
        pytest.param(
            "{job: train, group: ps}",
            "budgets[0].minAvailable: missing: a whole number from 0 to 2147483647",
            id="no number",
        ),
        pytest.param(
            "{job: train, group: ps, minAvailable: 1}, {job: train, group: ps, minAvailable: 2}",
            "budgets[1].job: 'train' is not allowed: a budget for ps of that job is on line 4: one is enough",
            id="two for one group",
        ),
    ],
)
def test_a_budget_that_is_wrong(budget: str, problem: str) -> None:
    (found,) = problems_of(world(TRAIN + f"budgets: [{budget}]"))

    assert str(found) == f"line 4: {problem}"
