"""cases.md 3: tasks that start together or not at all."""

from __future__ import annotations

import pytest
from story import gang, job, single, story, world

FIVE = [{"name": "n", "cpu": 5}]
EIGHT = [{"name": "n", "cpu": 8}]
NO_LIMIT = {"overShare": "off"}
BY_FLOW = {"fairBy": "flow"}
GREEDY = {"overShare": "off", "reservations": 0}


def elastic(name, queue, least, most, **fields):
    """A job that starts as wide as it can between two widths."""
    group = {"name": "w", "min": least, "initial": most, "max": most, "cpu": 1}
    return {"name": name, "queue": queue, "groups": [group], **fields}


# --- kube-arbitrator ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config, c2, tasks, reason",
    [
        pytest.param(
            NO_LIMIT,
            job("c2", "c2", count=5),
            {"c1": 4, "c2": 1},
            None,
            id="GA-1 after one single job it is the turn of the gang of four",
        ),
        pytest.param(
            NO_LIMIT | BY_FLOW,
            job("c2", "c2", count=5),
            {"c1": 0, "c2": 3},
            "RESERVED",
            id="GA-1 by flow three single jobs weigh less than the gang, which then has a reservation",
        ),
        pytest.param(
            GREEDY | BY_FLOW,
            job("c2", "c2", count=5),
            {"c1": 0, "c2": 5},
            "GANG_DOES_NOT_FIT",
            id="GA-1 by flow and greedy: single jobs take what the gang cannot use",
        ),
        pytest.param(
            NO_LIMIT,
            elastic("c2", "c2", 2, 5),
            {"c1": 0, "c2": 5},
            "RESERVED",
            id="GA-2 the gang with the smaller min goes first, as wide as it can",
        ),
    ],
)
def test_a_gang_of_four_beside_others(config, c2, tasks, reason):
    told = story(world(nodes=FIVE, config=config, jobs=[elastic("c1", "c1", 4, 5), c2], until=10))

    assert told.tasks_by_queue() == tasks
    assert reason is None or told.reason("c1") == reason


@pytest.mark.parametrize(
    "c1, c2, running",
    [
        pytest.param("c1", "c2", {"c1": 1, "c2": 1}, id="GA-5 two queues share two slots"),
        pytest.param("q1", "q2", {"q1": 1, "q2": 1}, id="KP-4 one each"),
    ],
)
def test_two_queues_on_two_slots(c1, c2, running):
    told = story(world(nodes=[{"name": "n", "cpu": 2}], jobs=[job(c1, c1, count=2), job(c2, c2, count=2)], until=10))

    assert told.running_by_queue() == running


# --- intentions of kube-arbitrator's end-to-end tests, on eight slots ---------------------------


@pytest.mark.parametrize(
    "foreign_leaves_at",
    [pytest.param(600, id="GE-1 the gang waits, and starts when the foreign pods are gone")],
)
def test_a_gang_beside_foreign_pods(foreign_leaves_at):
    told = story(
        world(
            nodes=EIGHT,
            jobs=[gang("gang", 5)],
            events=[{"at": 0, "foreign": {"node": "n", "cpu": 5, "for": foreign_leaves_at}}],
        )
    )

    assert told.reasons("gang") == ["GANG_DOES_NOT_FIT"]
    assert {"placed": 3, "needed": 5, "dimension": "cpu"}.items() <= told.facts("gang").items()
    assert told.starts() == {"gang": foreign_leaves_at}


@pytest.mark.parametrize(
    "lifetime",
    [
        pytest.param({}, id="GE-2 the second gang of all slots waits, the first is untouched"),
        pytest.param({"lifetime": 0}, id="GE-2 even if the first may be preempted"),
    ],
)
def test_equal_gangs_wait_for_each_other(lifetime):
    told = story(
        world(nodes=EIGHT, jobs=[gang("first", 8, **lifetime), gang("second", 8, at=100, **lifetime)], until=1000)
    )

    assert told.running() == ["first"]
    assert told.evictions() == []
    assert told.reason("second") == "RESERVED"


@pytest.mark.parametrize(
    "free, tasks",
    [
        pytest.param(4, {"master": 1, "worker": 3}, id="GE-4 one master and as many workers as fit beside it"),
        pytest.param(8, {"master": 1, "worker": 7}, id="GE-4 more room, more workers"),
        pytest.param(3, {}, id="GE-4 below the workers' min nobody starts"),
    ],
)
def test_every_group_has_its_min(free, tasks):
    groups = [
        {"name": "master", "count": 1, "cpu": 1},
        {"name": "worker", "min": 3, "initial": 8, "max": 8, "cpu": 1},
    ]
    told = story(
        world(
            nodes=EIGHT,
            jobs=[{"name": "job", "queue": "A", "groups": groups}],
            events=[{"at": 0, "foreign": {"node": "n", "cpu": 8 - free}}],
            until=10,
        )
    )
    started = [name.rpartition("-")[0] for name in told.tasks().get("job", {})]

    assert {name: started.count(name) for name in set(started)} == tasks
    assert told.reason("job") == (None if tasks else "GANG_DOES_NOT_FIT")


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([{"name": "w", "count": 2}], id="GE-6 a job that asks for nothing starts on a full node"),
        pytest.param(
            [{"name": "w", "count": 2, "cpu": 1}, {"name": "extra", "count": 3}],
            id="GE-6 tasks that ask for nothing start with their gang",
        ),
    ],
)
def test_tasks_that_ask_for_nothing(groups):
    full = gang("full", 8 - sum(group["count"] for group in groups if "cpu" in group), priority=1)

    told = story(world(nodes=EIGHT, jobs=[full, {"name": "light", "queue": "A", "groups": groups}], until=10))

    assert told.running() == ["full", "light"]
    assert told.width("light") == sum(group["count"] for group in groups)


# --- Armada's gangs, nodes of 32 CPUs -----------------------------------------------------------


@pytest.mark.parametrize(
    "nodes, jobs, running, reasons",
    [
        pytest.param(1, [gang("g", 32)], ["g"], [], id="GG-1 a gang of 32 fills the node"),
        pytest.param(1, [gang("g", 33)], [], ["NEVER_FITS"], id="GG-1 of a gang of 33 nothing starts"),
        pytest.param(
            1,
            [gang("f", 32, priority=1), gang("g", 1)],
            ["f"],
            ["RESERVED"],
            id="GG-2 a full node takes no gang of one",
        ),
        pytest.param(2, [gang("g", 2, cpu=32)], ["g"], [], id="GG-3 two whole nodes for a gang of two"),
        pytest.param(2, [gang("g", 3, cpu=32)], [], ["NEVER_FITS"], id="GG-3 none for a gang of three"),
    ],
)
def test_all_or_nothing(nodes, jobs, running, reasons):
    told = story(world(nodes=nodes, config=NO_LIMIT, jobs=jobs, until=10))

    assert told.running() == running
    assert told.reasons("g") == reasons


def switches(**nodes):
    """So many nodes below each switch."""
    return [{"name": name, "count": count, "cpu": 32, "topology": name} for name, count in nodes.items()]


def close_gang(size, cpu):
    groups = [{"name": "w", "count": size, "cpu": cpu, "maxHops": 2}]
    return {"name": "g", "queue": "A", "groups": groups}


@pytest.mark.parametrize(
    "nodes, job, where, facts",
    [
        pytest.param(
            switches(v1=1, v2=1),
            close_gang(3, 16),
            [],
            {"dimension": "topology", "needed": 3},
            id="GG-6 three halves do not fit below one switch",
        ),
        pytest.param(
            switches(a=2, b=3), close_gang(3, 32), ["b-0", "b-1", "b-2"], {}, id="GG-8 the switch with three nodes"
        ),
    ],
)
def test_a_gang_stays_below_one_switch(nodes, job, where, facts):
    told = story(world(nodes=nodes, jobs=[job], until=10))

    assert told.nodes_of("g") == where
    assert told.reasons("g") == ([] if where else ["NEVER_FITS"])
    assert facts.items() <= (told.facts("g") if facts else {}).items()


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="GG-9 a label that no node has"),
        pytest.param({"zone": "other"}, id="GG-9 a label that no node has with that value"),
    ],
)
def test_a_label_must_be_there(labels):
    groups = [{"name": "w", "count": 2, "cpu": 1, "nodeSelector": {"zone": "z1"}}]
    nodes = [{"name": "n", "cpu": 32, "labels": labels}]

    told = story(world(nodes=nodes, jobs=[{"name": "g", "queue": "A", "groups": groups}], until=10))

    assert told.running() == []
    assert told.reasons("g") == ["NEVER_FITS"]
    assert told.facts("g")["dimension"] == "nodeSelector"


# --- issues turned into cases -------------------------------------------------------------------


@pytest.mark.parametrize(
    "older", [pytest.param(gang("older", 3, cpu=4), id="GI-1 the gang that cannot fit waits, the small job runs")]
)
def test_who_can_never_fit_blocks_nobody(older):
    told = story(world(nodes=[{"name": "n", "cpu": 10}], jobs=[older, job("newer", at=10, cpu=3)], until=20))

    assert told.running() == ["newer"]
    assert told.reasons("older") == ["NEVER_FITS"]
    assert {"placed": 2, "needed": 3}.items() <= told.facts("older").items()


@pytest.mark.parametrize(
    "rival",
    [pytest.param({"priority": 0}, id="GI-3 a task is not evicted because its min is one, nor for an equal")],
)
def test_equals_do_not_preempt(rival):
    nodes = [{"name": "n", "cpu": 1}]

    told = story(world(nodes=nodes, jobs=[single("A", 1), single("A", 1, "rival", at=100, **rival)], until=200))

    assert told.running() == ["a-0"]
    assert told.evictions() == []
    assert told.reason("rival-0") == "RESERVED"


@pytest.mark.parametrize(
    "newcomer, victims",
    [
        pytest.param(gang("k", 4, "B", at=100), ["h"], id="GI-4 one whole gang is reclaimed, the last one started"),
        pytest.param(gang("k", 5, "B", at=100), [], id="GI-4 none, if its queue would fall below its share"),
    ],
)
def test_whole_gangs_are_reclaimed(newcomer, victims):
    jobs = [gang("g", 4, lifetime=0), gang("h", 4, lifetime=0), newcomer]

    told = story(world(nodes=EIGHT, config=NO_LIMIT, jobs=jobs, until=300))

    assert [(eviction.job, eviction.by, eviction.rule) for eviction in told.evictions()] == [
        (victim, "k", "fair-share") for victim in victims
    ]
    assert told.running() == (["g", "k"] if victims else ["g", "h"])


@pytest.mark.parametrize(
    "config, widths, reason",
    [
        pytest.param(
            GREEDY,
            {"job1": 59, "job3": 1},
            "GANG_DOES_NOT_FIT",
            id="GI-5 greedy: nobody shrinks for the gang, which would still not fit, but for the elastic newcomer",
        ),
        pytest.param(
            NO_LIMIT,
            {"job1": 60},
            "RESERVED",
            id="GI-5 with a reservation nothing is freed that the newcomer could use",
        ),
    ],
)
def test_a_gang_that_cannot_start_evicts_nobody(config, widths, reason):
    jobs = [elastic("job1", "q1", 1, 60), gang("job2", 60, "q2", at=100), elastic("job3", "q3", 1, 60, at=200)]

    told = story(world(nodes=[{"name": "n", "cpu": 60}], config=config, jobs=jobs, until=300))

    assert {name: told.width(name) for name in told.running()} == widths
    assert told.preempted() == []
    assert told.reason("job2") == reason


@pytest.mark.parametrize(
    "fields, starts, reasons",
    [
        pytest.param(
            {"expectedRuntime": "8m", "runtime": "8m"}, 60, [], id="GI-6 who ends before the reservation passes"
        ),
        pytest.param(
            {"expectedRuntime": "10m", "runtime": "10m"},
            1800,
            ["WOULD_DELAY", "RESERVED"],
            id="GI-6 who ends after it does not",
        ),
        pytest.param({}, 1800, ["WOULD_DELAY", "RESERVED"], id="GI-6 nor does anyone who might stay"),
    ],
)
def test_freed_nodes_are_kept_for_the_waiting_gang(fields, starts, reasons):
    """a leaves at 5 minutes, b at 10; the gang of both nodes starts then, for 20 minutes, whoever comes between."""
    exact = {"expectedRuntime": "10m", "runtime": "10m"}
    told = story(
        world(
            nodes=2,
            config=NO_LIMIT,
            jobs=[
                job("a", cpu=32, **exact | {"expectedRuntime": "5m", "runtime": "5m"}),
                job("b", cpu=31, **exact),
                gang("gang", 2, cpu=32, at=30, expectedRuntime="20m", runtime="20m"),
                job("next", at=60, **fields),
            ],
        )
    )

    assert told.starts() == {"a": 0, "b": 0, "gang": 600, "next": starts}
    assert told.reasons("gang") == ["RESERVED"]
    assert told.reasons("next") == reasons


@pytest.mark.parametrize(
    "least, retries, events, width",
    [
        pytest.param(
            4,
            1,
            ["requeued job", "started job"],
            4,
            id="GI-7 below min after a failure the whole gang starts again, with a retry",
        ),
        pytest.param(4, 0, ["failed job"], 0, id="GI-7 without a retry it has failed"),
        pytest.param(3, 0, ["resized job"], 3, id="GI-7 at its min it goes on without the failed task"),
    ],
)
def test_when_a_task_fails(least, retries, events, width):
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 4}],
            jobs=[elastic("job", "A", least, 4, retries=retries)],
            events=[{"at": 100, "failTask": "job/w-1"}],
            until=200,
        )
    )

    assert told.events("requeued", "started", "resized", "failed")[1:] == events
    assert told.width("job") == width


@pytest.mark.parametrize(
    "name, tasks, reason",
    [
        pytest.param("urgent", 4, None, id="GI-8 the higher priority is not hit by the quota"),
        pytest.param(
            "later", 0, "QUOTA", id="GI-8 of the lower one nothing starts, not even what the quota would allow"
        ),
    ],
)
def test_a_quota_hits_the_lowest_priority(name, tasks, reason):
    told = story(
        world(
            nodes=EIGHT,
            queues=[{"name": "A", "quota": {"cpu": 6}}],
            jobs=[gang("later", 4), gang("urgent", 4, priority=1)],
            until=10,
        )
    )

    assert told.width(name) == tasks
    assert told.reason(name) == reason
