"""Job files: what they may say, what is said about wrong ones, and that every job of the examples is one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.documents import document
from muster.documents.jobs import (
    JobFileError,
    JobSpec,
    Known,
    OnLost,
    as_document,
    from_command,
    parse_array,
    read_job_file,
    read_jobs,
    without_simulation_fields,
)
from muster.documents.problems import Problems
from muster.documents.values import plain
from muster.model.after import After, When
from muster.model.errors import InvalidValue
from muster.model.fleet import Cluster
from muster.model.jobs import Job
from muster.model.race import Grace
from muster.model.retries import Retries
from muster.sim.scenario.loader import load

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "scenarios").glob("*.yaml"))

ANY = Known()
SERVER = Known(
    queues=["a", "b"],
    clusters={
        "east": Cluster(name="east", preference=70),
        "west": Cluster(name="west"),
        "pai": Cluster(name="pai", preference=30, opaque=True),
    },
    classes={"default": 0, "high": 1000},
    where="this server",
)


def read(text: str, known: Known = ANY, **how: bool) -> list[JobSpec]:
    return read_job_file(text, "job.yaml", known, **how)


def one(text: str, known: Known = ANY) -> JobSpec:
    (spec,) = read(text, known)
    return spec


def problems(text: str, known: Known = SERVER) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        read(text, known)
    return str(caught.value).splitlines()


# --- what a file may say ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, names",
    [
        pytest.param("{name: a, cpu: 1}", ["a"], id="one job"),
        pytest.param("[{name: a}, {name: b}]", ["a", "b"], id="a list"),
        pytest.param("jobs: [{name: a}, {name: b}]", ["a", "b"], id="a mapping with jobs"),
        pytest.param("jobs: {name: a}", ["a"], id="jobs may be one"),
        pytest.param("jobs: []", [], id="no jobs at all"),
        pytest.param(
            "name: a\n---\n- name: b\n- name: c\n---\njobs: [{name: d}]\n", ["a", "b", "c", "d"], id="documents"
        ),
        pytest.param("---\nname: a\n---\n# nothing\n---\n", ["a"], id="empty documents do not count"),
        pytest.param("x-y/z: 1\n", [None], id="a job needs no name"),
        pytest.param("name: on", ["on"], id="YAML's words for switches are names too"),
    ],
)
def test_what_is_in_a_file(text, names):
    assert [spec.name for spec in read(text)] == names


@pytest.mark.parametrize(
    "key, value, attribute, meant",
    [
        pytest.param("queue", "a", "queue", "a", id="its queue"),
        pytest.param("user", "ada", "user", "ada", id="its user"),
        pytest.param("jobSet", "7", "job_set", "7", id="its job set, as it was written"),
        pytest.param("priority", "-3", "priority", -3, id="its priority"),
        pytest.param("priorityClass", "high", "priority_class", 1000, id="the number of its class"),
        pytest.param("lifetime", "30m", "lifetime_ms", 1_800_000, id="its lifetime"),
        pytest.param("expectedRuntime", "90", "expected_ms", 90_000, id="seconds are durations"),
        pytest.param("timeLimit", "1.5h", "time_limit_ms", 5_400_000, id="its time limit"),
        pytest.param("retries", "2", "retries", Retries(failed=2), id="its retries"),
        pytest.param(
            "retries", "{lost: 3, preempted: 0}", "retries", Retries(lost=3, preempted=0), id="its retries, one by one"
        ),
        pytest.param("after", "[x, y, x]", "after", (After("x"), After("y")), id="whom it waits for, each once"),
        pytest.param(
            "after",
            "[x, {job: y, when: any}, {job: z, when: failed}, {job: 7}]",
            "after",
            (After("x"), After("y", When.ANY), After("z", When.FAILED), After("7")),
            id="and how they must end",
        ),
        pytest.param("level", "Production", "level", 10_000, id="the number of its level"),
        pytest.param("freezingWindow", "1m", "freezing_ms", 60_000, id="its freezing window"),
        pytest.param("onLost", "rerun", "on_lost", OnLost.RERUN, id="what becomes of it when its cluster is silent"),
        pytest.param("array", "'0-6:3,20'", "indices", (0, 3, 6, 20), id="its indices"),
        pytest.param("count", "3", "indices", (0, 1, 2), id="a count is an array from 0"),
    ],
)
def test_a_key_becomes_a_field(key, value, attribute, meant):
    queue = "" if key == "queue" else "queue: b, "
    spec = one(f"{{name: j, {queue}{key}: {value}}}", SERVER)

    assert getattr(spec, attribute) == meant


@pytest.mark.parametrize(
    "text, clusters",
    [
        pytest.param("cluster: east", (("east", 70),), id="one cluster, at its own preference"),
        pytest.param("clusters: {east: 1, west: 99}", (("east", 1), ("west", 99)), id="several, with preferences"),
        pytest.param("cpu: 1", (), id="any cluster"),
    ],
)
def test_candidate_clusters(text, clusters):
    assert one(f"queue: a\n{text}", SERVER).profile.clusters == clusters


def test_a_client_that_knows_no_server_takes_any_name():
    spec = one("{queue: far, cluster: away}")

    assert (spec.queue, spec.profile.clusters) == ("far", (("away", 50),))


@pytest.mark.parametrize(
    "text, group",
    [
        pytest.param("command: [python, train.py]", {"command": ["python", "train.py"]}, id="a program with arguments"),
        pytest.param("command: a | b", {"command": ["/bin/sh", "-c", "a | b"]}, id="a line for the shell"),
        pytest.param(
            "command: [run]\nargs: [--lr, 0.10, on, '']",
            {"command": ["run"], "args": ["--lr", "0.10", "on", ""]},
            id="arguments are text as it was written",
        ),
        pytest.param(
            "command: [run]\nenv: {DEBUG: 1, MODE: off, EMPTY: ''}\nworkdir: /data",
            {"command": ["run"], "env": {"DEBUG": "1", "MODE": "off", "EMPTY": ""}, "workdir": "/data"},
            id="variables are text as it was written",
        ),
        pytest.param(
            "podTemplate: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, tty: true}]}}",
            {
                "podTemplate": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i", "tty": True}]},
                }
            },
            id="a pod template is kept as it is",
        ),
        pytest.param("cpu: 1", {}, id="a job that can only be simulated"),
    ],
)
def test_how_a_job_is_run(text, group):
    assert one(text).launch.plain() == {"groups": {"main": group}, "objects": []}


def test_each_group_is_run_in_its_own_way():
    spec = one(
        """
        groups:
          - {name: ps, count: 2, cpu: 1, command: serve}
          - {name: worker, min: 1, max: 8, gpu: 1, command: [train], args: [--fast]}
        objects:
          - {kind: service, name: ps, group: ps, ports: [2222, 80]}
          - {kind: ingress, name: ui, group: worker, ports: [8080], annotations: {a/b: on}, labels: {x: 1}}
        """
    )

    assert spec.launch.plain() == {
        "groups": {
            "ps": {"command": ["/bin/sh", "-c", "serve"]},
            "worker": {"command": ["train"], "args": ["--fast"]},
        },
        "objects": [
            {"kind": "service", "name": "ps", "group": "ps", "ports": [2222, 80]},
            {
                "kind": "ingress",
                "name": "ui",
                "group": "worker",
                "ports": [8080],
                "labels": {"x": "1"},
                "annotations": {"a/b": "on"},
            },
        ],
    }
    assert [(group.name, group.min, group.max) for group in spec.profile.groups] == [("worker", 1, 8), ("ps", 2, 2)]


def test_a_race_has_terms_and_candidates():
    spec = one("{gpu: 2, race: {guard: 5m, grace: running, clusters: {pai: {gpu: 4}}}}", SERVER)

    assert (spec.race.terms.guard_ms, spec.race.terms.grace) == (300_000, Grace.RUNNING)
    assert [(rival.cluster, rival.priority, rival.asks["nvidia.com/gpu"]) for rival in spec.race.rivals] == [
        ("pai", 30, 4000)
    ]


def test_the_engine_sees_the_same_job():
    spec = one("{queue: a, user: ada, priority: 3, lifetime: 0, after: [x], retries: 1, cpu: 2}", SERVER)

    assert spec.job("id-1", 5, (After("id-0"),)) == Job(
        id="id-1",
        queue="a",
        profile=spec.profile,
        submit_ms=5,
        user="ada",
        priority=3,
        lifetime_ms=0,
        retries=Retries(failed=1),
        after=(After("id-0"),),
    )


# --- arrays -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, indices",
    [
        pytest.param("0-3", (0, 1, 2, 3), id="from one to another"),
        pytest.param("7", (7,), id="a single one"),
        pytest.param("0-2,9,4-5", (0, 1, 2, 4, 5, 9), id="several parts, in order"),
        pytest.param("0-9:4", (0, 4, 8), id="every fourth"),
        pytest.param("1-3,2-4", (1, 2, 3, 4), id="each index once"),
    ],
)
def test_an_array_names_indices(text, indices):
    assert parse_array(text) == indices


@pytest.mark.parametrize(
    "text",
    ["", "a", "-1", "3-1", "0-9:0", "1,,2", "0 - 3", "01", "1000000", "0-100000", "0-9\n", "٣", "1-", "0-" * 9999],
)
def test_other_texts_are_no_arrays(text):
    with pytest.raises(InvalidValue, match="0-99"):
        parse_array(text)


def test_jobs_of_an_array_are_named_and_told_their_index():
    spec = one("{name: sweep, array: '3,5', command: [run], env: {A: b}}")

    assert (spec.names(), len(spec)) == (["sweep-3", "sweep-5"], 2)
    assert [(job.name, job.indices, job.launch.groups["main"]["env"]) for job in spec.each()] == [
        ("sweep-3", None, {"A": "b", "MUSTER_ARRAY_INDEX": "3"}),
        ("sweep-5", None, {"A": "b", "MUSTER_ARRAY_INDEX": "5"}),
    ]


def test_every_container_of_a_pod_is_told_the_index():
    spec = one(
        """
        name: sweep
        count: 2
        podTemplate:
          spec:
            initContainers: [{name: i}]
            containers: [{name: a, env: [{name: X, value: "1"}]}, {name: b}]
        """
    )
    index = {"name": "MUSTER_ARRAY_INDEX", "value": "1"}

    pod = [*spec.each()][1].launch.groups["main"]["podTemplate"]["spec"]

    assert pod["initContainers"] == [{"name": "i", "env": [index]}]
    assert pod["containers"] == [
        {"name": "a", "env": [{"name": "X", "value": "1"}, index]},
        {"name": "b", "env": [index]},
    ]
    assert "env" not in spec.launch.groups["main"]["podTemplate"]["spec"]["containers"][1]


def test_one_job_of_an_array_is_an_array_of_one():
    (job,) = [*one("{name: sweep, count: 1, command: [run]}").each()]

    (again,) = read_jobs(as_document(job), ANY)

    assert [*again.each()] == [job]


@pytest.mark.parametrize(
    "text, queues, queue",
    [
        pytest.param("{cpu: 1}", ["a", "default"], "default", id="no queue: the one called default, if there is one"),
        pytest.param("{queue: a}", ["a", "default"], "a", id="one that is named"),
        pytest.param("{cpu: 1}", None, "default", id="where any queue will do"),
    ],
)
def test_the_queue_of_a_job(text, queues, queue):
    assert one(text, replace(SERVER, queues=queues)).queue == queue


# --- what is said about wrong files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, said",
    [
        pytest.param("{}", "line 1: queue: missing: a queue of this server: a, b", id="no queue"),
        pytest.param("queue: c", "line 1: queue: 'c' is not allowed: a queue of this server: a, b", id="another queue"),
        pytest.param(
            "{queue: a, cluster: pai}",
            "line 1: cluster: 'pai' is not allowed: a cluster of this server: east, west"
            " (opaque ones show no nodes: race over them)",
            id="a cluster without nodes",
        ),
        pytest.param(
            "{race: {clusters: {far: {}}}}",
            "line 1: race.clusters.far: the key 'far' is not allowed: an opaque cluster of this server: pai",
            id="a race over a cluster that nobody knows",
        ),
        pytest.param(
            "{race: {}}", "line 1: race: clusters is missing: from 1 to 100 clusters", id="a race without clusters"
        ),
        pytest.param(
            "queue: a\ncommand: []",
            "line 2: command: a list is not allowed: a list such as [python, train.py], or a line for the shell",
            id="a command without a program",
        ),
        pytest.param(
            "queue: a\ncommand: run it\nargs: [x]",
            "line 3: args: not allowed where command is a line for the shell: write them into it, or make it a list",
            id="arguments of a line",
        ),
        pytest.param("queue: a\nenv: {A: b}", "line 2: env: needs a command beside it", id="variables of nothing"),
        pytest.param(
            "queue: a\ncommand: [x]\nenv: {1A: b}",
            "line 3: env.1A: the key '1A' is not allowed: a variable of letters, digits, '_', '-' and '.',"
            " not beginning with a digit",
            id="a wrong variable",
        ),
        pytest.param(
            "queue: a\ncommand: [x]\nenv: {MUSTER_ARRAY_INDEX: 3}",
            "line 3: env.MUSTER_ARRAY_INDEX: the key 'MUSTER_ARRAY_INDEX' is not allowed: any other variable:"
            " jobs of an array are given this one",
            id="the variable of arrays",
        ),
        pytest.param(
            'queue: a\ncommand: [x, "a\\0b"]',
            "line 2: command[1]: 'a\\x00b' is not allowed: text without null characters",
            id="a null character",
        ),
        pytest.param(
            "{queue: a, command: [x], workdir: here}",
            "line 1: workdir: 'here' is not allowed: an absolute path such as /data",
            id="a path that depends on where we are",
        ),
        pytest.param(
            "{queue: a, command: [x], podTemplate: {spec: {containers: [{}]}}}",
            "line 1: command: not allowed beside podTemplate, which says it",
            id="a command and a pod",
        ),
        pytest.param(
            "{queue: a, podTemplate: {spec: {containers: []}}}",
            "line 1: podTemplate: a mapping is not allowed: a Kubernetes pod template: {spec: {containers: [...]}}",
            id="a pod without containers",
        ),
        pytest.param(
            "queue: a\npodTemplate:\n  spec: {containers: [{}]}\n  x: .nan",
            "line 4: podTemplate: '.nan' is not allowed: text without null characters and halves of characters,"
            " finite numbers of 64 bits",
            id="a pod that JSON cannot say",
        ),
        pytest.param(
            "queue: a\ngroups: [{name: w}]\ncommand: [x]",
            "line 3: command: not allowed beside groups: it belongs into each group",
            id="a command beside groups",
        ),
        pytest.param(
            "{queue: a, array: 0-3}", "line 1: name: missing: a name that each index is appended to", id="no name"
        ),
        pytest.param(
            "{queue: a, name: x, array: 0-3, count: 2}",
            "line 1: count: count and array exclude each other: give one of them",
            id="a count and an array",
        ),
        pytest.param("{queue: a, name: x, after: [x]}", "line 1: after[0]: a job cannot wait for itself", id="itself"),
        pytest.param(
            "{queue: a, name: x, after: [{job: x, when: any}]}",
            "line 1: after[0]: a job cannot wait for itself",
            id="nor for any end of itself",
        ),
        pytest.param(
            "{queue: a, name: x, count: 3, after: [x-2]}",
            "line 1: after: a job cannot wait for itself, nor for others of its own array",
            id="another of its array",
        ),
        pytest.param(
            "{queue: a, after: [{job: x, when: late}]}",
            "line 1: after[0].when: 'late' is not allowed: one of ok, any, failed",
            id="an end that is none",
        ),
        pytest.param(
            "{queue: a, after: [{when: any}]}",
            "line 1: after[0].job: missing: a name of at most 253 letters, digits, '.', '_' and '-'"
            " that begins and ends with a letter or digit",
            id="the end of nobody",
        ),
        pytest.param(
            "{queue: a, after: [{job: x, how: any}]}",
            "line 1: after[0].how: the key 'how' is not allowed: the keys here are job, when",
            id="an unknown key of whom it waits for",
        ),
        pytest.param(
            "{queue: a, after: [x, {job: x, when: failed}]}",
            "line 1: after[1]: x is named before, with ok: one end of it is allowed",
            id="two ends of one job",
        ),
        pytest.param(
            "- {queue: a, name: x, after: [{job: z, when: any}]}\n- {queue: a, name: y, after: [x]}\n"
            "- {queue: a, name: z, count: 2, after: [y, w]}",
            "line 1: [0].after: these jobs wait for each other in a circle: x before y before z before x",
            id="a circle",
        ),
        pytest.param(
            "{queue: a, objects: [{kind: service, name: x, ports: [1]}, {kind: service, name: x, ports: [2]}]}",
            "line 1: objects[1].name: 'x' is not allowed: another service of this job has that name: names are unique",
            id="two services of one name",
        ),
        pytest.param(
            "{queue: a, objects: [{kind: service, name: x}]}",
            "line 1: objects[0].ports: missing: from 1 to 100 ports such as [8080]",
            id="a service without ports",
        ),
        pytest.param(
            "{queue: a, objects: [{kind: service, name: x, ports: [70000]}]}",
            "line 1: objects[0].ports[0]: '70000' is not allowed: a port from 1 to 65535",
            id="a port that is none",
        ),
        pytest.param(
            "{queue: a, groups: [{name: v}, {name: w}], objects: [{kind: ingress, name: x, ports: [1]}]}",
            "line 1: objects[0].group: missing: a group of this job: v, w",
            id="an ingress to which group",
        ),
        pytest.param("queue: a\n---\n3", "line 3: '3' is not allowed: a mapping", id="a document that is no job"),
        pytest.param(
            "&x {queue: a}\n---\n*x",
            "line 3: the alias '*x' has no anchor before it",
            id="an alias of another document",
        ),
    ],
)
def test_a_wrong_file_is_told_what_is_wrong(text, said):
    assert problems(text) == [said]


@pytest.mark.parametrize("key, value", [("at", "0"), ("runtime", "10m"), ("runtime", "{work: 8h}")])
def test_only_simulations_know_the_future(key, value):
    text = f"{{queue: a, groups: [{{name: w, min: 1, max: 2}}], {key}: {value}}}"
    (said,) = problems(text)

    assert said.startswith(f"line 1: {key}: the key '{key}' is not allowed: ")
    assert said.endswith("(scenarios have it)")
    assert read(text, SERVER, simulation=True)[0].simulated is not None


def test_a_simulation_is_told_the_future():
    fixed, working = read(
        "[{at: 5, runtime: 10m}, {groups: [{name: w, min: 1, max: 2}], runtime: {work: 8h}}]", simulation=True
    )

    assert (fixed.simulated.at_ms, fixed.simulated.runtime_ms) == (5000, 600_000)
    assert working.simulated.work.task_ms == 8 * 3_600_000


def test_all_problems_of_all_documents_come_together():
    text = "queue: c\ncpu: x\n---\njobs:\n- {queue: a, cpus: 1}\n- {queue: a, priority: high}\n"

    assert [said[: said.index(" is not")] for said in problems(text)] == [
        "line 1: queue: 'c'",
        "line 2: cpu: 'x'",
        "line 5: jobs[0].cpus: the key 'cpus'",
        "line 6: jobs[1].priority: 'high'",
    ]


# --- the jobs of scenarios, and commands ------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_job_of_an_example_can_be_submitted(path):
    scenario = load(str(path))
    whole = plain(document.read(path.read_bytes(), Problems("")))
    server = Known(
        queues=[queue.name for queue in scenario.queues],
        clusters={cluster.name: cluster for cluster in scenario.clusters},
        classes={"default": 0, **whole.get("priorityClasses", {})},
        cores_per_gpu=scenario.policy.cores_per_gpu,
    )
    body = json.loads(json.dumps(without_simulation_fields(whole)))
    for entry in body["jobs"]:
        if "queues" not in whole:
            entry.setdefault("queue", "default")

    specs = read_jobs(body, server)

    submitted = {job.name: job for spec in specs for job in spec.each()}
    assert submitted.keys() == {entry.job.id for entry in scenario.jobs}
    for entry in scenario.jobs:
        job = submitted[entry.job.id]
        assert job.job(entry.job.id, entry.job.submit_ms, entry.job.after) == entry.job
        assert job.race == (None if entry.race is None else entry.race.spec)
    assert read_job_file(json.dumps(body), path.name, server) == specs


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_simulation_reads_the_jobs_of_an_example_as_they_are(path):
    scenario = load(str(path))
    whole = plain(document.read(path.read_bytes(), Problems("")))
    known = Known(classes={"default": 0, **whole.get("priorityClasses", {})})

    specs = read_job_file(json.dumps({"jobs": whole["jobs"]}), path.name, known, simulation=True)

    told = {job.name: job.simulated for spec in specs for job in spec.each()}
    assert {name: (one.at_ms, one.runtime_ms) for name, one in told.items()} == {
        entry.job.id: (entry.job.submit_ms, entry.runtime_ms) for entry in scenario.jobs
    }


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "jobs").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_of_a_job_file_is_one(path):
    is_for_whatif = path.stem == "hotfix"

    assert read_job_file(path.read_bytes(), path.name, ANY, simulation=is_for_whatif)


def test_a_command_line_is_a_job_file():
    made = from_command(
        ["python", "train.py", "--lr", "0.1"], queue="a", cpu=2, memory="4Gi", env={"A": "b"}, priority=3
    )

    assert made == {
        "queue": "a",
        "priority": 3,
        "cpu": 2,
        "memory": "4Gi",
        "command": ["python", "train.py", "--lr", "0.1"],
        "env": {"A": "b"},
    }
    assert one(json.dumps(made), SERVER).launch.groups["main"]["command"] == made["command"]


def test_a_command_line_may_ask_for_several_tasks():
    assert from_command(["mpirun"], queue="a", gpu=1, tasks=4) == {
        "queue": "a",
        "groups": [{"name": "main", "count": 4, "gpu": 1, "command": ["mpirun"]}],
    }


@pytest.mark.parametrize(
    "program, name",
    [("/usr/bin/python3", "python3"), ("./run it.sh", "run-it.sh"), ("...", "job"), ("x" * 300, "x" * 246)],
)
def test_an_array_from_a_command_line_is_called_as_its_program(program, name):
    made = from_command([program], array="0-1")

    assert made["name"] == name
    assert one(json.dumps(made)).indices == (0, 1)


@given(st.text())
def test_any_text_makes_a_name_for_an_array(program):
    assert one(json.dumps(from_command(["x"], array="0") | {"name": from_command([program], array="0")["name"]}))
