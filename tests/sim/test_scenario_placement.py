"""Placement in scenario files: what is read, what is refused, and what the rules do with it."""

from __future__ import annotations

from collections import Counter

import pytest

from muster.model.labels import ANYWHERE, Constraint
from muster.model.nodes import Request
from muster.model.placement import Placement, PlacementRule, Typical
from muster.model.resources import CPU, GPU
from muster.sim.scenario.loader import parse
from muster.sim.scenario.problems import ScenarioError
from muster.sim.simulate import Simulation


def placement(text: str) -> Placement:
    return parse(f"config:\n  placement: {text}\n").policy.placement


@pytest.mark.parametrize("rule", PlacementRule, ids=lambda rule: rule.value)
def test_a_rule_is_told_by_a_word_or_in_a_mapping(rule: PlacementRule) -> None:
    assert placement(rule.value) == placement(f"{{rule: {rule.value}}}") == Placement(rule=rule)


def test_the_tightest_fit_holds_if_nothing_is_said() -> None:
    assert parse("{}").policy.placement == Placement(rule=PlacementRule.TIGHTEST)


def test_typical_tasks_are_told_as_jobs_are() -> None:
    read = placement(
        "{rule: fgd, typical: [{cpu: 2, gpu: 1, gpuMilli: 300, count: 9, nodeSelector: {m: t}}, {cpu: 1}]}"
    )

    assert read.typical == (
        Typical(
            request=Request.of({CPU: 2000, GPU: 1000}, gpu_milli=300),
            constraint=Constraint.parse(selector={"m": "t"}),
            count=9,
        ),
        Typical(request=Request.of({CPU: 1000}), constraint=ANYWHERE, count=1),
    )


@pytest.mark.parametrize(
    "text, path, allowed",
    [
        pytest.param("tight", "config.placement", "one of tightest, fragmentation", id="a word that is no rule"),
        pytest.param("{seed: 1}", "config.placement.rule", "missing", id="a mapping without a rule"),
        pytest.param("{rule: random, seed: -1}", "config.placement.seed", "from 0", id="a seed below zero"),
        pytest.param("{rule: packing, seed: 1}", "config.placement.seed", "only random", id="a seed without chance"),
        pytest.param(
            "{rule: packing, typical: [{cpu: 1}]}",
            "config.placement.typical",
            "only fragmentation and fgd",
            id="typical tasks nobody asks for",
        ),
        pytest.param(
            "{rule: fgd, typical: [{cpu: 1, count: 0}]}",
            "config.placement.typical[0].count",
            "from 1",
            id="none of a kind",
        ),
        pytest.param("{rule: fgd, weight: 1}", "config.placement.weight", "rule, seed", id="a key that is not known"),
    ],
)
def test_what_is_not_allowed_is_named(text: str, path: str, allowed: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        placement(text)
    (problem,) = refused.value.problems
    assert problem.path == path
    assert allowed in problem.message


FLEET = """
config: {placement: RULE, overShare: off, reservations: 0}
clusters:
  - name: east
    nodes:
      - {name: a, cpu: 32, gpu: 4, labels: {model: old}}
      - {name: b, cpu: 32, gpu: 4, labels: {model: new}}
      - {name: c, cpu: 4, gpu: 2, labels: {model: old}}
      - {name: d, cpu: 16}
jobs:
"""


def nodes_of(rule: str, jobs: str) -> dict[str, str]:
    """Where each job runs at last."""
    simulation = Simulation(parse(FLEET.replace("RULE", rule) + jobs + "\nuntil: 1m\n"), estimates=False)
    for _ in simulation:
        pass
    return {run.job.id: run.tasks[0].node for run in simulation.state.running.values()}


WISH = "  - {name: picky, count: 2, cpu: 5, gpu: 1, nodeSelector: {model: old}}\n"


@pytest.mark.parametrize(
    "rule, jobs, expected",
    [
        pytest.param(
            "fragmentation", "  - {name: it, cpu: 1}\n", "d", id="who asks for no GPU goes where nothing is lost"
        ),
        pytest.param(
            "fragmentation",
            WISH + "  - {name: it, at: 1, cpu: 5, gpu: 1}\n",
            "b",
            id="devices that others cannot do without are left to them",
        ),
        pytest.param(
            "fragmentation",
            "  - {name: big, count: 2, cpu: 8, gpu: 1}\n  - {name: it, at: 1, cpu: 1, gpu: 1}\n",
            "c",
            id="devices without cores beside them go to those who need few",
        ),
        pytest.param(
            "packing",
            "  - {name: x, cpu: 1, gpu: 1, gpuMilli: 500, nodeSelector: {model: new}}\n"
            "  - {name: it, at: 1, cpu: 1, gpu: 1, gpuMilli: 500}\n",
            "b",
            id="packed onto a device in use",
        ),
        pytest.param(
            "packing",
            "  - {name: x, cpu: 1, gpu: 1, nodeSelector: {model: new}}\n  - {name: it, at: 1, cpu: 1, gpu: 1}\n",
            "b",
            id="packed onto a node in use",
        ),
        pytest.param("packing", "  - {name: it, cpu: 1, gpu: 1}\n", "c", id="packed onto the smallest of idle nodes"),
        pytest.param("bestFit", "  - {name: it, cpu: 1, gpu: 1}\n", "c", id="best fit leaves the least"),
        pytest.param(
            "dotProduct", "  - {name: it, cpu: 1, gpu: 1}\n", "c", id="the dot product is least on the smallest"
        ),
    ],
)
def test_a_job_goes_where_its_rule_says(rule: str, jobs: str, expected: str) -> None:
    assert nodes_of(rule, jobs)["it"] == expected


def test_chance_is_the_same_for_a_seed_and_another_for_another() -> None:
    jobs = "  - {name: it, count: 8, cpu: 1, gpu: 1}\n"
    drawn = [nodes_of(f"{{rule: random, seed: {seed}}}", jobs) for seed in (1, 1, 2, 3)]

    assert drawn[0] == drawn[1]
    assert len({tuple(sorted(each.items())) for each in drawn}) == 3
    assert all(len(Counter(each.values())) > 1 for each in drawn)
