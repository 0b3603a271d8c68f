"""`whatif` foretells what a simulation of the changed scenario does, as far as anyone could know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml
from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from story import job, world
from worlds import EXACT, scenario_of, scenarios

from muster.model import events as ev
from muster.model.nodes import Node
from muster.model.policy import Preemption
from muster.model.resources import CPU, Resources
from muster.sim.scenario.changes import load_changed
from muster.sim.scenario.loader import load
from muster.sim.scenario.problems import ScenarioError
from muster.sim.scenario.scenario import Scenario, Scripted, ScriptJob
from muster.sim.scenario.timeline import place
from muster.sim.simulate import Simulation
from muster.sim.whatif import ask
from muster.state.future import Future, look_ahead

ROOT = Path(__file__).parents[2]


def starts_of(scenario: Scenario, since_ms: int = 0) -> dict[str, list[int]]:
    """When each job really starts, again and again when it does."""
    starts: dict[str, list[int]] = {}
    for tick in Simulation(scenario, estimates=False):
        for event in tick.moment.events:
            if isinstance(event, ev.JobStarted) and tick.moment.now_ms >= since_ms:
                starts.setdefault(event.job, []).append(tick.moment.now_ms)
    return starts


def foretold(future: Future) -> dict[str, list[int]]:
    """When each job is said to start."""
    return {name: [start.at_ms for start in starts] for name, starts in future.starts.items()}


def with_more(scenario: Scenario, other: Scenario, at_ms: int, seed: int) -> Scenario:
    """The scenario with jobs of another one, and with something that happens, from `at_ms` on."""
    chance = Random(seed)
    queues, clusters = [queue.name for queue in scenario.queues], {cluster.name for cluster in scenario.clusters}
    jobs = [
        ScriptJob(
            job=replace(
                entry.job,
                id=f"new-{entry.job.id}",
                queue=chance.choice(queues),
                submit_ms=max(entry.job.submit_ms, at_ms),
                after=(),
            ),
            runtime_ms=entry.runtime_ms,
        )
        for entry in other.jobs
        if {name for name, _ in entry.job.profile.clusters} <= clusters
    ]
    node = Node(name="new", cluster=chance.choice(sorted(clusters)), allocatable=Resources.of({CPU: 4000}))
    choices: list[ev.Event] = [
        ev.NodeAdded(node=node),
        ev.NodeCordoned(node=chance.choice(scenario.nodes).name),
        ev.QueueChanged(queue=chance.choice(queues), changes={"weight": 5_000_000}),
        ev.JobCancelled(job=chance.choice(scenario.jobs).job.id),
    ]
    happens = Scripted(at_ms=at_ms, event=chance.choice(choices))
    return replace(
        scenario,
        jobs=tuple(sorted([*scenario.jobs, *jobs], key=lambda entry: (entry.job.submit_ms, entry.job.key))),
        events=tuple(sorted([*scenario.events, happens], key=place)),
    )


_PREEMPTING = replace(EXACT, preemption=(Preemption.ON, Preemption.OFF))


@a_part(2)
@given(scenarios(_PREEMPTING), scenarios(replace(_PREEMPTING, entries=4)), st.integers(0, 40), st.integers(0, 1000))
def test_property_with_exact_run_times_the_answer_is_what_happens(
    before: Scenario, other: Scenario, at_s: int, seed: int
) -> None:
    after = with_more(before, other, at_s * 1000, seed)

    answer = ask(before, after, at_s * 1000)

    assert foretold(answer.without) == starts_of(before, at_s * 1000)
    assert foretold(answer.with_it) == starts_of(after, at_s * 1000)
    assert not any(start.is_assumed for starts in answer.with_it.starts.values() for start in starts)


def test_property_with_real_run_times_the_answer_is_what_happens_whatever_was_stated() -> None:
    for seed in range(10):
        scenario = scenario_of(
            replace(EXACT, exact=False, until_ms=100_000),
            seed,
            clusters=1,
            nodes=[seed, seed + 1],
            queues=[1, 2],
            jobs=[seed + each for each in range(6)],
            events=[],
        )

        assert foretold(ask(scenario, scenario, 0, knows_runtimes=True).with_it) == starts_of(scenario)


@given(scenarios(_PREEMPTING), st.integers(0, 40))
def test_property_a_world_that_runs_foretells_what_happens_if_nothing_new_comes(whole: Scenario, at_s: int) -> None:
    scenario = replace(
        whole,
        jobs=tuple(entry for entry in whole.jobs if entry.job.submit_ms <= at_s * 1000),
        events=tuple(it for it in whole.events if it.at_ms <= at_s * 1000),
        until_ms=None,
    )
    simulation = Simulation(scenario, estimates=False)
    future, starts = None, {}
    for tick in simulation:
        now_ms = tick.moment.now_ms
        for event in tick.moment.events:
            if future is not None and isinstance(event, ev.JobStarted):
                starts.setdefault(event.job, []).append(now_ms)
        if future is None and now_ms >= at_s * 1000 and not simulation.run.is_due(now_ms):
            future = look_ahead(simulation.run, now_ms)

    assert future is None or (future.is_whole and foretold(future) == starts)


# --- files --------------------------------------------------------------------------------------

_BUSY = job("busy", cpu=32, runtime="1h", expectedRuntime="1h")
_NEXT = job("next", cpu=8, at="1m", runtime="10m", expectedRuntime="10m")


def _file(tmp_path: Path, **rest: object) -> str:
    file = tmp_path / "world.yaml"
    file.write_text(yaml.safe_dump(world(jobs=[_BUSY, _NEXT], queues=[{"name": "A"}, {"name": "B"}], **rest)))
    return str(file)


@pytest.mark.parametrize(
    "events, submits",
    [
        pytest.param(["{addNodes: {cluster: east, nodes: [{name: x, cpu: 8}]}}"], [], id="a node is added"),
        pytest.param(["{cancel: busy}", "{at: 20m, cordonQueue: A}"], [], id="two things happen"),
        pytest.param([], ["{name: new, queue: B, cpu: 4, runtime: 5m, expectedRuntime: 5m}"], id="a job is submitted"),
        pytest.param(
            ["{removeNode: n-0}", "{at: 30m, addNodes: {cluster: east, nodes: [{name: y, cpu: 32}]}}"],
            [],
            id="a node is replaced",
        ),
    ],
)
def test_a_change_by_flags_is_the_change_of_the_file(tmp_path: Path, events: list[str], submits: list[str]) -> None:
    file = _file(tmp_path)
    written = yaml.safe_load(Path(file).read_text())
    written["events"] = [{"at": "5m", **yaml.safe_load(event)} for event in events]
    written["jobs"] += [{"at": "5m", **yaml.safe_load(entry)} for entry in submits]
    changed_file = tmp_path / "changed.yaml"
    changed_file.write_text(yaml.safe_dump(written))

    changed = load_changed(file, at="5m", events=events, submits=submits)

    assert changed.before == load(file)
    assert changed.after == load(str(changed_file))
    assert foretold(ask(changed.before, changed.after, changed.at_ms).with_it) == starts_of(changed.after, 300_000)


@pytest.mark.parametrize(
    "text, names",
    [
        pytest.param("name: a\nqueue: A\ncpu: 1\n", {"a"}, id="one entry"),
        pytest.param(
            "- {name: a, queue: A, cpu: 1, count: 2}\n- {name: b, queue: A}\n", {"a-0", "a-1", "b"}, id="a list"
        ),
        pytest.param("jobs: [{name: a, queue: A, cpu: 1}]\n", {"a"}, id="a part of a scenario"),
    ],
)
def test_jobs_to_submit_may_be_written_as_an_entry_a_list_or_a_scenario(
    tmp_path: Path, text: str, names: set[str]
) -> None:
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(text)

    assert load_changed(_file(tmp_path), at="0", events=[], submits=[str(jobs)]).added == names


@pytest.mark.parametrize(
    "given_, said",
    [
        pytest.param({"at": "soon"}, ["--at: 'soon' is not allowed: a duration"], id="no time"),
        pytest.param({"at": "-5"}, ["--at: '-5' is not allowed"], id="a time before the beginning"),
        pytest.param(
            {"events": ["{cordonNod: n-0}"]}, ["--event: cordonNod", "did you mean cordonNode?"], id="a misspelt event"
        ),
        pytest.param(
            {"events": ["{cordonNode: n-0}", "{cordonNode: m}"]},
            ["--event 2: cordonNode: 'm'", "a node"],
            id="no such node",
        ),
        pytest.param({"events": ["{a: [}"]}, ["--event: not YAML"], id="no YAML"),
        pytest.param(
            {"events": ["cordonNode"]}, ["--event: 'cordonNode' is not allowed: an event such as"], id="a word"
        ),
        pytest.param({"events": ["{}"]}, ["--event: an action is missing"], id="an event of nothing"),
        pytest.param(
            {"at": "10m", "events": ["{at: 5m, cancel: busy}"]},
            ["--event: at: '5m'", "--at, which is 10m"],
            id="an event that is over",
        ),
        pytest.param({"submits": ["{name: busy, queue: A}"]}, ["--submit: name: 'busy'"], id="a name that is taken"),
        pytest.param(
            {"submits": ["{name: x, queue: Z}", "{name: y, queue: A, cpu: x}"]},
            ["--submit 1: queue: 'Z'", "--submit 2: cpu: 'x'"],
            id="two wrong jobs",
        ),
        pytest.param({"submits": ["/no/such"]}, ["--submit /no/such: '/no/such' cannot be read"], id="no such file"),
        pytest.param({"submits": ["{name: x, name: y}"]}, ["--submit:", "'name'", "once"], id="a key twice"),
    ],
)
def test_what_is_wrong_names_the_flag_the_key_and_what_is_allowed(
    tmp_path: Path, given_: dict[str, object], said: list[str]
) -> None:
    asked: dict[str, object] = {"at": "0", "events": [], "submits": [], **given_}

    with pytest.raises(ScenarioError) as caught:
        load_changed(_file(tmp_path), **asked)  # type: ignore[arg-type]

    for part in said:
        assert part in str(caught.value)


def test_a_wrong_job_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("- {name: a, queue: A}\n- name: b\n  queue: Z\n")

    with pytest.raises(
        ScenarioError, match=r"jobs\.yaml: line 3: queue: 'Z' is not allowed: a queue of this file: A, B"
    ):
        load_changed(_file(tmp_path), at="0", events=[], submits=[str(jobs)])


def test_what_was_wrong_before_any_change_is_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"line .*: colour"):
        load_changed(_file(tmp_path, colour="red"), at="0", events=["{cancel: busy}"], submits=[])


# --- what nobody can know -----------------------------------------------------------------------


def test_a_run_time_that_nobody_stated_is_guessed_and_the_answer_says_so(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    jobs = [job("busy", cpu=32, runtime="1h"), job("next", cpu=8, at="1m", runtime="1m")]
    file.write_text(yaml.safe_dump(world(jobs=jobs)))
    changed = load_changed(str(file), at="20m", events=["{at: 21m, cordonQueue: A}"], submits=[])

    (start,) = ask(changed.before, changed.after, changed.at_ms).without.starts["next"]

    assert (start.at_ms, start.is_assumed) == (40 * 60_000, True)  # as long again as the 20 minutes so far


def test_what_happened_before_the_question_is_known(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    jobs = [job("short", cpu=32, runtime="5m", expectedRuntime="1h"), job("next", cpu=8, at="1m", runtime="1m")]
    file.write_text(yaml.safe_dump(world(jobs=jobs)))
    changed = load_changed(str(file), at="10m", events=["{cordonQueue: A}"], submits=[])

    answer = ask(changed.before, changed.after, changed.at_ms)

    assert answer.without.starts == {}  # `next` started at 5 minutes, when `short` really ended
    assert [one.job for one in answer.jobs() if one.is_changed] == []
