"""The report as a file: complete, safe, small, and the same every time."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.reasons import Reason
from muster.model.resources import MICRO, Resources
from muster.sim.measures import Gauge
from muster.sim.report import page, words
from muster.sim.report import world as told_world
from muster.sim.report.axes import amount_axis, count_axis, log_axis, log_time_axis, part_axis, time_axis
from muster.sim.report.plots import coarse
from muster.sim.report.texts import REASONS
from muster.sim.scenario.loader import load
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))


def report_of(scenario: Scenario, name: str = "test") -> str:
    """The report of a simulation to its end."""
    simulation = Simulation(scenario, estimates=False)
    gauge = Gauge(simulation)
    for tick in simulation:
        gauge.add(tick)
    return page(scenario, gauge.result(), name)


def a_job(name: str, queue: str, *, cpu: int = 1, submit_ms: int = 0, tasks: int = 1) -> ScriptJob:
    group = TaskGroup(name="main", min=tasks, initial=tasks, max=tasks, request=Request.of({"cpu": 1000 * cpu}))
    return ScriptJob(
        job=Job(id=name, queue=queue, profile=Profile(groups=(group,)), submit_ms=submit_ms), runtime_ms=60_000
    )


HARM = "<script>window.harmed=1</script>\"'&</script><img src=x onerror=window.harmed=1>"
EVIL = Scenario(
    policy=Policy(),
    clusters=(Cluster(name=HARM),),
    nodes=(Node(name=HARM, cluster=HARM, allocatable=Resources.of({"cpu": 4000, f"{HARM}/thing": 1})),),
    queues=(Queue(name=HARM),),
    jobs=(a_job(HARM, HARM, cpu=4), a_job(f"{HARM}-2", HARM, cpu=4), a_job(f"{HARM}-3", HARM, cpu=2, tasks=2)),
)


class _Tags(HTMLParser):
    """Every tag that is opened, with its attributes; complains about what is not closed."""

    VOID = frozenset({"meta", "path", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser.seen


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_a_report_that_needs_nothing_else(example: Path):
    text = report_of(load(str(example)), example.name)

    for tag, attributes in tags(text):
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "a"}
        assert not {"src", "href", "style"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert "http://" not in text
    assert "https://" not in text
    assert len(text) < 400_000


def test_names_are_input():
    text = report_of(EVIL, HARM)

    assert [tag for tag, _ in tags(text)].count("img") == 0
    scripts = [attributes for tag, attributes in tags(text) if tag == "script"]
    assert [it for it in scripts if it.get("type") != "application/json"] == [{}]  # ours, and no other


def test_the_same_simulation_gives_the_same_report():
    scenario = load(str(next(path for path in EXAMPLES if path.stem == "demo")))

    assert report_of(scenario) == report_of(scenario)


def test_nothing_at_all_has_a_report_too():
    text = report_of(Scenario(policy=Policy()))

    assert "0 of 0 jobs succeeded" in text
    tags(text)


def test_many_queues_do_not_make_it_large():
    queues = [f"queue-{number:03}" for number in range(220)]
    jobs = tuple(a_job(f"{name}-job", name, cpu=2) for name in queues)
    node = Node(name="n", cluster="c", allocatable=Resources.of({"cpu": 64_000}))
    text = report_of(
        Scenario(
            policy=Policy(over_share=None, turn_ms=10_000),
            clusters=(Cluster(name="c"),),
            nodes=(node,),
            queues=tuple(Queue(name=name, weight=MICRO * (1 + number % 3)) for number, name in enumerate(queues)),
            jobs=jobs,
        )
    )

    assert len(text) < 500_000
    assert "Shown are the 12 of 220 queues that were entitled to most." in text
    assert "the first 200 of 220" in text


def test_every_reason_is_told_in_a_few_words():
    assert set(REASONS) == set(Reason)


# --- what was simulated, in words -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, told",
    [
        pytest.param(Policy(), {"backfill": "yes", "preemption": "on"}, id="some rules are always told"),
        pytest.param(Policy(over_share=None), {"most a queue may hold without lifetimes": "no limit"}, id="no limit"),
        pytest.param(Policy(turn_ms=5000), {"time between turns": "5 s"}, id="what is not the default is told"),
        pytest.param(Policy(max_load=MICRO // 2), {"max load": "500000"}, id="whatever it is"),
    ],
)
def test_rules_in_words(policy, told):
    rules = dict(told_world.rules(policy))

    assert {name: rules.get(name) for name in told} == told


def test_defaults_that_nobody_asks_about_are_not_told():
    assert len(told_world.rules(Policy())) == 5


# --- numbers and axes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds, told",
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (9.999, "10 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599.6, "1 h"),
        (3725, "1 h 2 min"),
        (90_061, "1 d 1 h"),
        (86_400 * 1234, "1,234 d"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_durations(seconds, told):
    assert words.duration(seconds) == told


@pytest.mark.parametrize(
    "value, told",
    [(0, "0"), (8.0, "8"), (0.1234, "0.123"), (1.2345, "1.23"), (12.345, "12.3"), (1234.5, "1,234"), (None, "–")],
)
def test_numbers(value, told):
    assert words.number(value) == told


@pytest.mark.parametrize(
    "axis, marks",
    [
        pytest.param(time_axis(6600, 5), ["0", "30 min", "60 min", "90 min"], id="minutes"),
        pytest.param(time_axis(61 * 86_400, 5), ["0", "20 d", "40 d", "60 d"], id="two months"),
        pytest.param(time_axis(0, 5), ["0"], id="no time"),
        pytest.param(part_axis(1.0), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"], id="everything"),
        pytest.param(part_axis(0.0), ["0 %", "0.2 %", "0.4 %", "0.6 %", "0.8 %", "1 %"], id="nothing"),
        pytest.param(count_axis(23_000), ["0", "5,000", "10,000", "15,000", "20,000", "25,000"], id="many"),
        pytest.param(count_axis(0), ["0", "1"], id="none"),
        pytest.param(log_axis(19), ["1", "2", "5", "10", "20"], id="a small slowdown"),
        pytest.param(
            log_axis(123_456), ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"], id="a large one"
        ),
        pytest.param(log_time_axis(3000), ["1 s", "10 s", "1 min", "10 min", "1 h"], id="waits"),
    ],
)
def test_marks_of_axes(axis, marks):
    assert [text for _, text in axis.marks] == marks


@pytest.mark.parametrize("most", [0.3, 1, 7, 99, 1e6])
def test_everything_has_its_place_on_an_axis(most):
    for axis in (amount_axis(most), count_axis(most), log_axis(most), log_time_axis(most)):
        assert axis.high >= most
        assert 0 <= axis.place(most) <= 1
        assert axis.place(axis.low) == 0
        assert axis.place(axis.high) == 1


def test_fewer_points_keep_the_mean():
    values = np.arange(10.0)

    assert coarse(values, 4).tolist() == [1.5, 5.5, 8.5]
    assert coarse(np.stack([values, values], axis=1), 10).tolist() == [[4.5, 4.5]]
