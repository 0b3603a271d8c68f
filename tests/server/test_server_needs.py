"""Jobs with objects or pod templates go only where an agent says that it honours them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Site

OBJECTS = [{"kind": "service", "name": "web", "ports": [8080]}]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as running:
        running.queue("a")
        yield running


def hello(site: Site, cluster: str, session: str = "s", **more: Any) -> Any:
    nodes = [{"name": f"{cluster}-0", "amounts": {"cpu": "4"}}]
    return site.ask("POST", f"/agents/{cluster}/call", {"session": session, "hello": True, "nodes": nodes, **more})


def able(site: Site) -> dict[str, list[str]]:
    return {it["name"]: it["honours"] for it in site.ask("GET", "/clusters")}


def test_without_any_cluster_such_a_job_waits_for_one_that_honours_it(site: Site) -> None:
    (job,) = site.submit({"name": "web", "queue": "a", "cpu": 1, "objects": OBJECTS})

    hello(site, "desk")
    site.wait_until(lambda: "honours its objects" in site.ask("GET", f"/jobs/{job}/why")["text"])
    assert site.job(job)["state"] == "queued"
    site.server.end(signal.SIGKILL)
    site.start()
    hello(site, "desk", "again")
    site.wait_until(lambda: "honours its objects" in site.ask("GET", f"/jobs/{job}/why")["text"])
    hello(site, "kube", honours=["objects", "podTemplate", "something newer"])
    (found,) = site.wait([job], "running")

    assert found["cluster"] == "kube"
    assert able(site) == {"desk": [], "kube": ["objects", "podTemplate"]}


def test_a_job_goes_to_the_cluster_that_honours_it_or_is_refused_where_it_may_not_go_there(site: Site) -> None:
    hello(site, "desk")
    hello(site, "kube", honours=["objects"])
    asks = {"queue": "a", "cpu": 1, "objects": OBJECTS}

    jobs = site.submit(*({**asks, "name": f"web-{number}"} for number in range(4)))
    assert {it["cluster"] for it in site.wait(jobs, "running")} == {"kube"}
    refused = site.ask("POST", "/jobs", {"jobs": [{**asks, "name": "no", "cluster": "desk"}]}, status=422)["error"]
    assert refused["problems"][0]["field"] == "jobs[0].objects"
    assert "clusters that do: kube" in refused["problems"][0]["allowed"]
    (plain,) = site.submit({"name": "plain", "queue": "a", "cpu": 1})
    assert site.wait([plain], "running")[0]["cluster"] == "desk"


def test_an_agent_that_honours_less_than_before_says_so_with_its_hello(site: Site) -> None:
    hello(site, "kube", honours=["objects"])
    site.ask("POST", "/agents/kube/call", {"session": "s", "number": 2})
    assert able(site) == {"kube": ["objects"]}
    site.server.end(signal.SIGKILL)
    site.start()
    assert able(site) == {"kube": ["objects"]}
    hello(site, "kube", "again")

    assert able(site) == {"kube": []}
    site.ask("POST", "/jobs", {"jobs": [{"name": "web", "queue": "a", "cpu": 1, "objects": OBJECTS}]}, status=422)
