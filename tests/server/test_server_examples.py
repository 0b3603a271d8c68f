"""Every job of the documented scenarios can be submitted to a server that has the same queues and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from serving import Site

from muster.documents.jobs import without_simulation_fields

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        yield running


def prepare(site: Site, scenario: dict[str, Any]) -> None:
    """Queues of the scenario, and an agent that called in once for each of its clusters."""
    named = [queue["name"] for queue in scenario.get("queues", [])]
    for name in {"default", *named, *(job.get("queue", "default") for job in scenario["jobs"])}:
        site.queue(name)
    for name, value in scenario.get("priorityClasses", {}).items():
        site.ask("PUT", f"/priority-classes/{name}", {"value": value})
    raced = {name for job in scenario["jobs"] for name in job.get("race", {}).get("clusters", ())}
    for name in raced | {cluster["name"] for cluster in scenario.get("clusters", [])}:
        site.ask("POST", f"/agents/{name}/call", {"session": "s", "hello": True, "nodes": []})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_jobs_of_an_example_can_be_submitted(site: Site, path: Path) -> None:
    scenario = yaml.safe_load(path.read_text(encoding="utf-8"))
    prepare(site, scenario)
    jobs = without_simulation_fields(scenario)["jobs"]
    queue = {} if scenario.get("queues") else {"queue": "default"}
    fitting = [{**queue, **job} for job in jobs if "race" not in job]

    if fitting:
        ids = site.submit(*fitting)
        assert len(ids) == sum(job.get("count", 1) for job in fitting)
    for job in jobs:
        if "race" in job:
            _race(site, {**queue, **job})


def _race(site: Site, job: dict[str, Any]) -> None:
    """Over clusters with agents all copies ask for the same; then a race is a job like any other."""
    race = {**job, "queue": "default"}
    differing = [name for name, one in job["race"]["clusters"].items() if set(one or {}) - {"priority"}]
    if differing:
        error = site.ask("POST", "/jobs", {"jobs": [race]}, status=422)["error"]
        assert {f"jobs[0].race.clusters.{name}" for name in differing} >= {it["field"] for it in error["problems"]}
    clusters = {name: {"priority": (one or {}).get("priority", 50)} for name, one in job["race"]["clusters"].items()}
    site.submit({**race, "race": {**job["race"], "clusters": clusters}})
