"""What people operate with: owners and ends of queues, many jobs at once, jobs changed while they run, budgets, policy.

Over HTTP against real servers, on SQLite and on PostgreSQL; each test has a queue of its own.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from serving import Site

SLEEPS = {"cpu": 1, "command": ["sleep", "600"]}
NEVER = {"cpu": 1000}  # more than any node has: it waits


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp(request.param)
    db = ""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        db = server.url(server.database())
    with Site(folder, db) as running:
        running.agent(nodes="4xcpu=8,memory=32Gi", seconds=600)
        yield running


def token(site: Site, name: str, **rights: Any) -> dict[str, str]:
    made = site.ask("POST", "/tokens", {"name": name, **rights}, status=201)
    return {"Authorization": f"Bearer {made['token']}"}


def jobs(site: Site, queue: str, *names: str, **asks: Any) -> list[str]:
    return site.submit(*({"name": name, "queue": queue, **asks} for name in names))


def states(site: Site, ids: list[str]) -> list[str]:
    return [site.job(job_id)["state"] for job_id in ids]


def told(site: Site, queue: str) -> list[str]:
    """What is told of a queue, in order."""
    assert site._client is not None
    sent = site._client.get("/events", params={"after": 0, "follow": False, "queue": queue}).text
    return [json.loads(line.removeprefix("data: "))["event"] for line in sent.splitlines() if line.startswith("data: ")]


def restart(site: Site) -> None:
    site.server.end(signal.SIGKILL)
    site.start()


# --- owners -------------------------------------------------------------------------------------


def test_owners_of_a_queue_operate_its_jobs_and_no_others(site: Site) -> None:
    site.queue("owned", owners=["ana"], labels={"team": "vision", "cost/centre": "7"})
    site.queue("not-owned")
    ana, bo = token(site, "ana"), token(site, "bo", queues={"owned": ["view"]})
    running, other = *jobs(site, "owned", "run", **SLEEPS), *jobs(site, "not-owned", "run", **SLEEPS)
    site.wait([running, other], "running")
    body = {"jobs": [{"name": "own", "queue": "owned", **NEVER}]}

    (mine,) = (it["id"] for it in site.ask("POST", "/jobs", body, status=201, headers=ana)["jobs"])
    site.ask("POST", f"/jobs/{mine}/hold", headers=ana)
    site.ask("POST", f"/jobs/{running}/preempt", headers=ana)
    assert site.wait([running], "running")[0]["preemptions"] == 1
    assert [it["name"] for it in site.ask("GET", "/queues", headers=ana)] == ["owned"]
    site.ask("POST", f"/jobs/{other}/preempt", status=403, headers=ana)
    site.ask("GET", f"/jobs/{other}", status=403, headers=ana)
    site.ask("PUT", "/queues/owned", {"weight": 9}, status=403, headers=ana)  # its settings are an admin's
    site.ask("DELETE", "/queues/owned", status=403, headers=ana)
    site.ask("POST", f"/jobs/{running}/preempt", status=403, headers=bo)
    site.queue("owned", owners=["bo"])
    site.ask("GET", "/queues/owned", status=403, headers=ana)
    site.ask("POST", "/jobs/preempt", {"jobs": [running]}, headers=bo)


@pytest.mark.parametrize(
    "settings, field",
    [
        pytest.param({"owners": "ana"}, "owners", id="owners that are one name"),
        pytest.param({"owners": ["no body"]}, "owners.0", id="an owner with a space"),
        pytest.param({"labels": {"a b": "c"}}, "labels.a b.[key]", id="a label with a space"),
        pytest.param({"labels": {"a": "b c"}}, "labels.a", id="a label of two words"),
    ],
)
def test_owners_and_labels_that_make_no_sense_are_refused(site: Site, settings: dict[str, Any], field: str) -> None:
    error = site.ask("PUT", "/queues/odd", settings, status=422)["error"]

    assert error["problems"][0]["field"] == field
    site.ask("GET", "/queues/odd", status=404)


# --- the end of a queue -------------------------------------------------------------------------


def test_a_queue_with_jobs_stays_until_they_are_over_or_cancelled(site: Site) -> None:
    site.queue("leaving")
    waits = jobs(site, "leaving", "waits", **NEVER)
    runs = jobs(site, "leaving", "runs", **SLEEPS)
    site.wait(runs, "running")

    refused = site.ask("DELETE", "/queues/leaving", status=409)["error"]
    assert "queue 'leaving' has 2 jobs that are not over" in refused["message"]
    assert "cancel=true" in refused["problems"][0]["allowed"]
    site.ask("DELETE", "/queues/leaving?cancel=true", status=204)

    assert states(site, waits + runs) == ["cancelled", "cancelled"]
    site.ask("GET", "/queues/leaving", status=404)
    site.ask("DELETE", "/queues/leaving", status=404)
    error = site.ask("POST", "/jobs", {"jobs": [{"name": "late", "queue": "leaving", **NEVER}]}, status=422)["error"]
    assert error["problems"][0]["field"] == "jobs[0].queue"
    assert told(site, "leaving")[-1] == "queue_deleted"
    restart(site)
    site.ask("GET", "/queues/leaving", status=404)
    assert "leaving" not in [it["name"] for it in site.ask("GET", "/queues")]


def test_a_queue_that_is_made_again_begins_anew(site: Site) -> None:
    site.queue("again", weight=3)
    site.wait(jobs(site, "again", "runs", **SLEEPS), "running")
    site.ask("DELETE", "/queues/again?cancel=true", status=204)

    site.queue("again")
    assert site.ask("GET", "/queues/again")["weight"] == 1
    site.wait(jobs(site, "again", "next", **SLEEPS), "running")
    site.ask("POST", "/jobs/cancel", {"queue": "again", "all": True})


# --- many jobs at once --------------------------------------------------------------------------


def test_what_is_done_to_a_job_set_is_done_to_those_of_the_queue_and_the_states_that_are_said(site: Site) -> None:
    site.queue("set-a")
    site.queue("set-b")
    waits = jobs(site, "set-a", "w0", "w1", jobSet="s", **NEVER)
    runs = jobs(site, "set-a", "r0", "r1", jobSet="s", **SLEEPS)
    elsewhere = jobs(site, "set-b", "w", jobSet="s", **NEVER)
    another = jobs(site, "set-a", "other", jobSet="t", **NEVER)
    site.wait(runs, "running")
    which = {"jobSet": "s", "queue": "set-a"}

    assert set(site.ask("POST", "/jobs/hold", which)["jobs"]) == set(waits)
    assert site.ask("POST", "/jobs/hold", which)["jobs"] == []  # they are held already
    assert site.ask("GET", f"/jobs/{waits[0]}/why")["reason"] == "HELD"
    changed = site.ask("POST", "/jobs/change", {**which, "states": ["queued"], "priority": 7})["jobs"]
    assert set(changed) == set(waits)
    assert [site.job(it)["priority"] for it in [*waits, *runs, *elsewhere, *another]] == [7, 7, 0, 0, 0, 0]
    assert set(site.ask("POST", "/jobs/release", which)["jobs"]) == set(waits)
    assert set(site.ask("POST", "/jobs/preempt", which)["jobs"]) == set(runs)
    assert [it["preemptions"] for it in site.wait(runs, "running")] == [1, 1]
    assert set(site.ask("POST", "/jobs/cancel", {**which, "states": ["queued", "pending"]})["jobs"]) == set(waits)
    assert states(site, [*runs, *elsewhere, *another]) == ["running", "running", "queued", "queued"]
    assert set(site.ask("POST", "/jobs/cancel", {"queue": "set-a", "all": True})["jobs"]) == {*runs, *another}
    site.ask("POST", "/jobs/cancel", {"jobSet": "s"})
    assert states(site, elsewhere) == ["cancelled"]


@pytest.mark.parametrize(
    "path, body, status, field, says",
    [
        pytest.param("hold", {}, 422, "jobs", "at least one", id="nobody"),
        pytest.param("cancel", {"queue": "q"}, 422, "jobs", "a queue with all", id="a queue by mistake"),
        pytest.param("cancel", {"all": True}, 422, "all", "with a queue", id="all of no queue"),
        pytest.param("cancel", {"all": True, "queue": "q", "jobSet": "s"}, 422, "all", "without", id="all of a set"),
        pytest.param("cancel", {"jobs": ["x"], "jobSet": "s"}, 422, "jobs", "either", id="jobs beside a job set"),
        pytest.param(
            "hold", {"jobSet": "s", "states": ["failed"]}, 422, "states.0", "'queued'", id="jobs that are over"
        ),
        pytest.param("change", {"jobSet": "s"}, 422, "body", "priority", id="a change of nothing"),
        pytest.param("change", {"jobSet": "s", "level": "Best"}, 422, "level", "Production", id="no such level"),
        pytest.param(
            "change", {"jobSet": "s", "freezingWindow": -1}, 422, "freezingWindow", "0", id="less than no time"
        ),
        pytest.param("change", {"jobSet": "s", "priorityClass": "x"}, 422, "priorityClass", "high", id="no such class"),
    ],
)
def test_what_is_wrong_with_a_choice_is_named(
    site: Site, path: str, body: dict[str, Any], status: int, field: str, says: str
) -> None:
    site.queue("q")
    error = site.ask("POST", f"/jobs/{path}", body, status=status)["error"]

    assert error["problems"][0]["field"] == field
    assert says in error["problems"][0]["allowed"]


def test_a_queue_or_a_job_that_is_not_there_is_not_found(site: Site) -> None:
    site.ask("POST", "/jobs/cancel", {"queue": "nosuch", "all": True}, status=404)
    site.ask("POST", "/jobs/hold", {"jobs": ["nosuch"]}, status=404)


def test_whoever_may_not_cancel_in_a_queue_does_nothing_to_its_jobs(site: Site) -> None:
    site.queue("closed")
    waits = jobs(site, "closed", "w", jobSet="mine", **NEVER)
    viewer, submitter = (token(site, right, queues={"closed": [right]}) for right in ("view", "submit"))

    for path in ("cancel", "hold", "release", "preempt"):
        status = 200 if path == "preempt" else 403  # none of them runs: there is nothing to refuse
        site.ask("POST", f"/jobs/{path}", {"jobSet": "mine"}, status=status, headers=viewer)
    site.ask("POST", "/jobs/change", {"jobSet": "mine", "priority": 1}, status=403, headers=viewer)
    site.ask("POST", "/jobs/change", {"jobSet": "mine", "priority": 1}, headers=submitter)
    assert (site.job(waits[0])["state"], site.job(waits[0])["priority"]) == ("queued", 1)


# --- jobs that run, budgets, and restarts --------------------------------------------------------


def test_what_was_said_of_jobs_holds_while_they_run_and_after_a_restart(site: Site) -> None:
    site.queue("told", owners=["ana"], labels={"team": "x"})
    group = {"name": "w", "min": 1, "max": 2, **SLEEPS}
    (elastic,) = site.submit({"name": "elastic", "queue": "told", "groups": [group]})
    held, untouched = jobs(site, "told", "held", "untouched", **NEVER)
    site.wait([elastic], "running")
    patch = {"level": "Production", "freezingWindow": 90}

    site.ask("PATCH", f"/jobs/{elastic}", patch)
    site.ask("PATCH", f"/jobs/{held}", {"level": "Offline"})
    site.ask("POST", f"/jobs/{held}/hold")
    budget = site.ask("PUT", f"/jobs/{elastic}/budget", {"minAvailable": 2})
    site.ask("PUT", f"/jobs/{untouched}/budget", {"group": "main", "minAvailable": 1})
    site.ask("DELETE", f"/jobs/{untouched}/budget", status=204)
    site.ask("DELETE", f"/jobs/{untouched}/budget", status=404)

    def looks() -> list[Any]:
        found = [site.job(it) for it in (elastic, held, untouched)]
        queue = site.ask("GET", "/queues/told")
        return [
            [(it["state"], it["level"], it["freezingWindow"]) for it in found],
            site.ask("GET", "/budgets"),
            (queue["owners"], queue["labels"]),
        ]

    before = looks()
    assert before[0] == [("running", "Production", 90), ("queued", "Offline", 300), ("queued", "Normal", 300)]
    assert budget == {"job": elastic, "queue": "told", "group": "w", "minAvailable": 2}
    assert [it for it in before[1] if it["queue"] == "told"] == [budget]
    assert before[2] == (["ana"], {"team": "x"})
    restart(site)
    site.wait([elastic], "running")
    site.wait_until(lambda: site.ask("GET", f"/jobs/{held}/why")["reason"] == "HELD")
    assert looks() == before

    site.ask("POST", "/jobs/cancel", {"queue": "told", "all": True})
    assert [it for it in site.ask("GET", "/budgets") if it["queue"] == "told"] == []
    site.ask("PUT", f"/jobs/{elastic}/budget", {"minAvailable": 1}, status=409)
    site.ask("PATCH", f"/jobs/{elastic}", patch, status=409)


@pytest.mark.parametrize(
    "body, field, says",
    [
        pytest.param({"minAvailable": -1}, "minAvailable", "greater than or equal to 0", id="less than nobody"),
        pytest.param({"minAvailable": 3}, "minAvailable", "from 0 to 1", id="more than there are"),
        pytest.param({"group": "ps", "minAvailable": 1}, "group", "main", id="no such group"),
        pytest.param({}, "minAvailable", "required", id="a budget of nothing"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(site: Site, body: dict[str, Any], field: str, says: str) -> None:
    site.queue("odd-budgets")
    (job,) = jobs(site, "odd-budgets", "j", **NEVER)
    problem = site.ask("PUT", f"/jobs/{job}/budget", body, status=422)["error"]["problems"][0]

    assert problem["field"] == field
    assert says in problem["allowed"]


# --- the policy ---------------------------------------------------------------------------------

WINDOW = {"cluster": "lab", "days": "mon-fri", "from": "08:00", "to": "20:00", "withhold": {"cpu": 4}}
WHOLE = {
    **WINDOW,
    "days": "mon,tue,wed,thu,fri",
    "withhold": {"cpu": "4"},
    "shrinkAhead": 600.0,
    "utcOffset": "+08:00",
    "pool": None,
}


def test_the_policy_is_set_shown_kept_and_taken_back(site: Site) -> None:
    default = site.ask("GET", "/policy")
    assert default == {"agingAfter": 86400, "overShare": 1.2, "coresPerGpu": 0, "calendar": [], "set": []}
    window = {**WINDOW, "shrinkAhead": "10m", "utcOffset": "+08:00"}
    said = {"agingAfter": "12h", "overShare": "off", "coresPerGpu": "500m", "calendar": [window]}

    changed = site.ask("PATCH", "/policy", said)

    assert changed == {
        "agingAfter": 43200,
        "overShare": "off",
        "coresPerGpu": 0.5,
        "calendar": [WHOLE],
        "set": ["agingAfter", "calendar", "coresPerGpu", "overShare"],
    }
    restart(site)
    assert site.ask("GET", "/policy") == changed
    partly = site.ask("PATCH", "/policy", {"overShare": None, "calendar": None})
    assert (partly["overShare"], partly["calendar"], partly["set"]) == (1.2, [], ["agingAfter", "coresPerGpu"])
    assert site.ask("PATCH", "/policy", {"agingAfter": None, "coresPerGpu": None}) == default
    assert "policy" in [it["what"] for it in site.ask("GET", "/audit")]


@pytest.mark.parametrize(
    "body, field, says",
    [
        pytest.param({"agingAfter": "soon"}, "agingAfter", "'soon' is not allowed", id="a time that is none"),
        pytest.param({"overShare": 0}, "overShare", "above 0", id="no share at all"),
        pytest.param({"coresPerGpu": "many"}, "coresPerGpu", "or off", id="cores that are no number"),
        pytest.param({"ageing": 1}, "ageing", "not permitted", id="a misspelt key"),
        pytest.param({"calendar": [{**WINDOW, "cluster": "x"}]}, "calendar[0].cluster", "lab", id="no such cluster"),
        pytest.param({"calendar": [{**WINDOW, "pool": "x"}]}, "calendar[0].pool", "default", id="no such pool"),
        pytest.param({"calendar": [{**WINDOW, "from": "8"}]}, "calendar[0].from", "time of day", id="no time of day"),
        pytest.param({"calendar": [{**WINDOW, "days": "never"}]}, "calendar[0].days", "mon-fri", id="no days"),
        pytest.param(
            {"calendar": [{**WINDOW, "utcOffset": "CET"}]}, "calendar[0].utcOffset", "+08:00", id="the name of a zone"
        ),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(site: Site, body: dict[str, Any], field: str, says: str) -> None:
    problem = site.ask("PATCH", "/policy", body, status=422)["error"]["problems"][0]

    assert problem["field"] == field
    assert says in problem["allowed"]
    assert site.ask("GET", "/policy")["set"] == []


def test_only_an_admin_sets_the_policy(site: Site) -> None:
    site.ask("PATCH", "/policy", {"overShare": 2}, status=403, headers=token(site, "ana"))


def test_cores_beside_gpus_are_given_to_jobs_to_come_and_stay_theirs(site: Site) -> None:
    site.queue("gpus")
    site.ask("PATCH", "/policy", {"coresPerGpu": 2})
    (job,) = site.submit({"name": "g", "queue": "gpus", "gpu": 2})
    problem = site.ask("POST", "/jobs", {"jobs": [{"name": "few", "queue": "gpus", "gpu": 2, "cpu": 1}]}, status=422)[
        "error"
    ]["problems"][0]
    assert (problem["field"], "at least 4000m" in problem["allowed"]) == ("jobs[0].cpu", True)
    assert site.job(job)["spec"]["cpu"] == "4000m"

    site.ask("PATCH", "/policy", {"coresPerGpu": 9})
    restart(site)  # which reads the job again, by what it was given
    assert site.job(job)["state"] == "queued"
    site.ask("PATCH", "/policy", {"coresPerGpu": None})
    site.ask("POST", "/jobs/cancel", {"jobs": [job]})


# --- what not every cluster honours --------------------------------------------------------------

OBJECTS = [{"kind": "service", "name": "web", "ports": [8080]}, {"kind": "ingress", "name": "out", "ports": [80]}]
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}


@pytest.mark.parametrize(
    "asks, field, value",
    [
        pytest.param({"cpu": 1, "objects": OBJECTS}, "objects", "service web, ingress out", id="objects"),
        pytest.param({"cpu": 1, "podTemplate": TEMPLATE}, "podTemplate", "a template", id="a template"),
        pytest.param(
            {"groups": [{"name": "a", "cpu": 1}, {"name": "b", "cpu": 1, "podTemplate": TEMPLATE}]},
            "groups[1].podTemplate",
            "a template",
            id="a template of one group",
        ),
    ],
)
def test_what_no_cluster_honours_is_refused(site: Site, asks: dict[str, Any], field: str, value: str) -> None:
    site.queue("needs")
    body = {"jobs": [{"name": "plain", "queue": "needs", "cpu": 1}, {"name": "j", "queue": "needs", **asks}]}
    before = site.ask("GET", "/queues/needs")["jobs"]

    problem = site.ask("POST", "/jobs", body, status=422)["error"]["problems"][0]

    assert problem["field"] == f"jobs[1].{field}"
    assert problem["allowed"] == (
        f"{value} is not allowed: only what a cluster that the job may go to can honour, and none does (lab); "
        "clusters that do: none of this server"
    )
    assert site.ask("GET", "/queues/needs")["jobs"] == before
    site.ask("POST", "/whatif", {"jobs": [{"queue": "needs", **asks}]}, status=422)
