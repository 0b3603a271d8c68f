"""Races in scenario files: what is read, and what is refused."""

from __future__ import annotations

import pytest

from muster.model.race import Grace, Rival, Shown, Terms
from muster.model.resources import GPU, PODS, Resources
from muster.sim.scenario.loader import parse
from muster.sim.scenario.problems import ScenarioError

MINUTE = 60_000


def raced(text: str, clusters: str = "[{name: west, kind: opaque, priority: 80}]"):
    """The race of a job with these keys."""
    return parse(f"clusters: {clusters}\njobs:\n  - name: a\n    gpu: 2\n    race: {text}\n").jobs[0].race


def test_a_race_says_its_terms_and_what_each_cluster_shows():
    race = raced(
        "{guard: 5m, timeScale: 30s, grace: running, clusters: {west: {sightings: [[4m, FAILED], [2m, RUNNING]]}, "
        "east: {priority: 20, gpu: 4, submit: 409}}}"
    )

    assert race.spec.terms == Terms(guard_ms=5 * MINUTE, time_scale_ms=30_000, grace=Grace.RUNNING)
    assert race.spec.rivals == (
        Rival(cluster="east", priority=20, asks=Resources.of({GPU: 4000, PODS: 1})),
        Rival(cluster="west", priority=80, asks=Resources.of({GPU: 2000, PODS: 1})),
    )
    assert race.rivals["west"].steps == ((2 * MINUTE, Shown.RUNNING), (4 * MINUTE, Shown.FAILED))
    assert race.rivals["east"].refusal == "409"


def test_the_defaults_are_those_of_the_document():
    assert raced("{clusters: {west: {}}}").spec.terms == Terms(
        guard_ms=10 * MINUTE, time_scale_ms=MINUTE, grace=Grace.STRICT
    )


def test_the_largest_specialisation_counts_each_resource_by_itself():
    race = raced("{clusters: {west: {gpu: 1, cpu: 8}, east: {gpu: 4}}}")

    assert race.spec.largest == Resources.of({GPU: 4000, "cpu": 8000, PODS: 1})


def test_a_copy_that_runs_long_enough_succeeds():
    text = "clusters: []\njobs: [{name: a, runtime: 10m, race: {clusters: {w: {sightings: [[1m, RUNNING]]}}}}]"

    assert parse(text).jobs[0].race.rivals["w"].steps == ((MINUTE, Shown.RUNNING), (11 * MINUTE, Shown.SUCCEEDED))


def test_a_cluster_that_only_a_race_names_may_be_silenced():
    text = "jobs: [{name: a, race: {clusters: {w: {}}}}]\nevents: [{at: 1, silentCluster: {name: w, for: 1m}}]"

    assert [cluster.name for cluster in parse(text).clusters if cluster.opaque] == ["w"]


@pytest.mark.parametrize(
    "race, path, allowed",
    [
        pytest.param("{}", "race", "clusters is missing", id="no clusters"),
        pytest.param("{guard: x, clusters: {west: {}}}", "race.guard", "a duration", id="a guard that is no time"),
        pytest.param("{grace: soft, clusters: {west: {}}}", "race.grace", "strict, running", id="an unknown grace"),
        pytest.param("{clusters: {west: {priority: 101}}}", "race.clusters.west.priority", "100", id="priority 101"),
        pytest.param("{clusters: {west: {submit: 200}}}", "race.clusters.west.submit", "400", id="a refusal of 200"),
        pytest.param(
            "{clusters: {west: {sightings: [[1m, WON]]}}}", "race.clusters.west.sightings[0]", "WAITING", id="a state"
        ),
        pytest.param(
            "{clusters: {west: {sightings: [RUNNING]}}}", "race.clusters.west.sightings[0]", "[50m", id="no pair"
        ),
        pytest.param(
            "{clusters: {west: {sightings: [[1m, RUNNING], [1m, FAILED]]}}}",
            "race.clusters.west.sightings[1]",
            "same time",
            id="two things at one time",
        ),
        pytest.param(
            "{clusters: {west: {sightings: [[1m, FAILED], [2m, RUNNING]]}}}",
            "race.clusters.west.sightings",
            "follows",
            id="life after the end",
        ),
        pytest.param("{clusters: {east: {}}}", "race.clusters.east", "opaque", id="a cluster with nodes"),
        pytest.param("{clusters: {west: {}}, gaurd: 1m}", "race.gaurd", "guard", id="a misspelt key"),
    ],
)
def test_a_wrong_race_is_refused(race, path, allowed):
    clusters = "[{name: west, kind: opaque}, {name: east, nodes: [{name: n}]}]"

    with pytest.raises(ScenarioError) as refused:
        raced(race, clusters)

    (problem,) = refused.value.problems
    assert problem.path == f"jobs[0].{path}"
    assert allowed in problem.message


@pytest.mark.parametrize(
    "text, path",
    [
        pytest.param(
            "clusters: [{name: w, kind: opaque, nodes: [{name: n}]}]", "clusters[0].nodes", id="its own nodes"
        ),
        pytest.param(
            "clusters: [{name: w, kind: opaque}]\nevents: [{at: 1, addNodes: {cluster: w, nodes: [{name: n}]}}]",
            "events[0].addNodes.cluster",
            id="nodes that join",
        ),
        pytest.param(
            "clusters: [{name: w, kind: opaque}]\njobs: [{name: a, cluster: w}]", "jobs[0].cluster", id="a placed job"
        ),
        pytest.param(
            "clusters: [{name: w, kind: opaque}, {name: e}]\njobs: [{name: a, cluster: e, race: {clusters: {w: {}}}}]",
            "jobs[0].cluster",
            id="candidates in two places",
        ),
    ],
)
def test_an_opaque_cluster_has_no_nodes(text, path):
    with pytest.raises(ScenarioError) as refused:
        parse(text)

    assert [problem.path for problem in refused.value.problems] == [path]
