"""Commands that ask a server, as people and scripts meet them: a real server and a simulated agent behind them."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from serving import MUSTER, Site
from typer.testing import CliRunner

from muster.cli.main import app

Muster = Callable[..., Any]

HOURS = ("core_hours", "gib_hours", "gpu_hours")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        running.queue("a")
        running.agent()
        yield running


@pytest.fixture
def muster(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Muster:
    """The command line of somebody whose environment names the server."""
    for variable in [name for name in os.environ if name.startswith("MUSTER_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("MUSTER_SERVER", site.url)
    monkeypatch.setenv("MUSTER_TOKEN_FILE", str(site.token_file))

    def run(*args: object, stdin: str = "", exit_code: int = 0) -> Any:
        line = list(map(str, args))
        monkeypatch.setattr(sys, "argv", ["muster", *line])
        done = CliRunner().invoke(app, line, input=stdin)
        assert done.exit_code == exit_code, (done.stdout, done.stderr, done.exception)
        assert "Traceback" not in done.stderr
        return done

    return run


def submitted(muster: Muster, *args: object) -> list[str]:
    return list(muster("submit", *args).stdout.split())


def told(muster: Muster, *args: object) -> Any:
    return json.loads(muster(*args, "-o", "json").stdout)


# --- submitting ----------------------------------------------------------------------------------


def test_a_command_becomes_a_job(muster: Muster) -> None:
    (job,) = submitted(
        muster,
        *("--queue", "a", "--cpu", "2", "--memory", "1Gi", "--name", "train", "--user", "ana", "--priority", "3"),
        *("--time-limit", "2h", "--job-set", "s", "--env", "A=b=c", "--", "python", "train.py", "--epochs", "3"),
    )

    made = told(muster, "job", job)
    assert (made["user"], made["priority"], made["jobSet"]) == ("ana", 3, "s")
    assert made["spec"]["command"] == ["python", "train.py", "--epochs", "3"]
    assert made["spec"]["env"] == {"A": "b=c"}
    assert job.startswith("train-")
    muster("cancel", job)


def test_an_array_becomes_as_many_jobs(muster: Muster) -> None:
    jobs = submitted(muster, "--queue", "a", "--cpu", "1", "--name", "x", "--array", "0-4:2", "--", "true")

    assert [job.rpartition("-")[0] for job in jobs] == ["x-0", "x-2", "x-4"]
    muster("cancel", *jobs)


def test_files_become_jobs_all_together(muster: Muster, tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("{name: one, queue: a, cpu: 1, command: [sleep, 0], priorityClass: high}", encoding="utf-8")
    two.write_text("- {name: two, queue: a, cpu: 1, command: [sleep, 0]}\n", encoding="utf-8")

    done = muster("submit", one, two, "--wait")

    ids, table = done.stdout.splitlines()[:2], done.stdout.splitlines()[2:]
    assert [job.rpartition("-")[0] for job in ids] == ["one", "two"]
    assert table[0].split() == ["JOB", "QUEUE", "STATE", "AGE", "RAN", "CLUSTER", "REASON"]
    assert [line.split()[:3] for line in table[1:]] == [[job, "a", "succeeded"] for job in ids]


def test_standard_input_is_a_file_too(site: Site) -> None:
    done = subprocess.run(
        [*MUSTER, "submit", "-", "--server", site.url, "--token-file", str(site.token_file), "--key", "twice"],
        input="{name: in, queue: a, cpu: 1, command: [sleep, 0]}",
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("in-")


def test_the_same_key_submits_nothing_twice(muster: Muster) -> None:
    line = ("--queue", "a", "--cpu", "1", "--key", "only-once", "--", "sleep", "0")

    assert submitted(muster, *line) == submitted(muster, *line)


def test_who_waits_for_a_job_that_fails_hears_of_it(muster: Muster) -> None:
    done = muster("submit", "--queue", "a", "--cpu", "1", "--wait", "--", "exit", "3", exit_code=1)

    assert "failed" in done.stdout
    assert "exit code 3" in done.stdout


@pytest.mark.parametrize(
    "args, named",
    [
        pytest.param(["submit"], ["job files", "`--`"], id="nothing to submit"),
        pytest.param(
            ["submit", "--queue", "a", "f.yaml"], ["queue", "'a'", "--"], id="a file with options of a command"
        ),
        pytest.param(["submit", "f.yaml", "--", "date"], ["f.yaml", "either"], id="a file and a command"),
        pytest.param(["submit", "/no/such.yaml"], ["/no/such.yaml", "No such file"], id="a file that is not there"),
        pytest.param(["submit", "--env", "A", "--", "date"], ["env", "'A'", "NAME=VALUE"], id="half a variable"),
        pytest.param(
            ["submit", "--queue", "no", "--cpu", "-1", "--", "date"],
            ["jobs[0].queue", "'no'", "jobs[0].cpu", "'-1'"],
            id="a job that the server refuses",
        ),
        pytest.param(["cancel"], ["jobs", "job set"], id="cancelling nothing"),
        pytest.param(["cancel", "x", "--job-set", "s"], ["either"], id="cancelling jobs and a job set"),
        pytest.param(["reprioritise", "x"], ["priority"], id="no new priority"),
        pytest.param(["queue", "set", "a", "--quota", "cpu"], ["quota", "'cpu'", "cpu=100"], id="half a quota"),
        pytest.param(["queue", "set", "a", "--quota", "cpu=x"], ["quota.cpu", "x"], id="a quota that is no amount"),
        pytest.param(["queue", "set", "a", "--weight", "0"], ["weight", "0"], id="a weight of nothing"),
        pytest.param(
            ["queue", "set", "a", "--default-time-limit", "soon"], ["soon", "12h", "off"], id="a limit that is no time"
        ),
        pytest.param(["queue", "set", "a", "--excess-budget", "-1"], ["-1", "0", "off"], id="a budget below nothing"),
        pytest.param(["token", "make", "x", "--may", "a=rule"], ["may", "a=rule", "submit"], id="a right there is not"),
        pytest.param(["pool", "set", "p", "--node-selector", "x"], ["node-selector", "'x'"], id="half a label"),
        pytest.param(["pool", "set", "p"], ["node-selector", "team=vision", "default"], id="a pool of no nodes"),
        pytest.param(
            ["pool", "set", "default", "--node-selector", "a=b"],
            ["nodeSelector", "default", "no selector"],
            id="a selector of the default pool",
        ),
        pytest.param(["jobs", "--server", "nowhere"], ["server", "nowhere", "http://"], id="no address"),
        pytest.param(["jobs", "--context", "lab"], ["'lab'", "muster context set"], id="no such context"),
        pytest.param(["jobs", "--token-file", "/no/token"], ["/no/token", "No such file"], id="no token file"),
    ],
)
def test_bad_input_is_named_and_gets_exit_code_2(muster: Muster, args: list[str], named: list[str]) -> None:
    done = muster(*args, exit_code=2)

    assert done.stdout == ""
    assert all(part in done.stderr for part in named), done.stderr


def test_a_wrong_file_is_told_with_its_lines_and_nothing_is_submitted(muster: Muster, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "- {queue: a, cpu: 1, command: [date]}\n- queue: a\n  cpu: -1\n  comand: [date]\n", encoding="utf-8"
    )
    before = told(muster, "jobs", "--limit", 1)

    done = muster("submit", file, exit_code=2)

    first, second = done.stderr.splitlines()
    assert first.startswith(f"{file}: line 3: [1].cpu: '-1' is not allowed")
    assert second.startswith(f"{file}: line 4: [1].comand: the key 'comand' is not allowed: did you mean command?")
    assert told(muster, "jobs", "--limit", 1) == before


# --- looking -------------------------------------------------------------------------------------


def test_json_and_yaml_are_what_the_server_answered(muster: Muster, site: Site) -> None:
    asked: dict[tuple[str, ...], str] = {
        ("queues",): "/queues",
        ("nodes",): "/nodes",
        ("pools",): "/pools",
        ("users",): "/users",
        ("turn", "1"): "/turns/1",
        ("jobs", "--queue", "a", "--limit", "2"): "/jobs?queue=a&limit=2",
        ("token", "list"): "/tokens",
        ("audit", "--limit", "5"): "/audit?limit=5",
    }
    site.wait([job["id"] for job in site.ask("GET", "/jobs?limit=1000")["jobs"]])  # now nothing changes by itself
    for command, path in asked.items():
        answer = site.ask("GET", path)
        assert told(muster, *command) == answer
        assert yaml.safe_load(muster(*command, "-o", "yaml").stdout) == answer


def test_usage_is_a_table_or_csv_with_every_column(muster: Muster, site: Site) -> None:
    site.queue("counted")
    (job,) = site.wait(site.submit({"queue": "counted", "cpu": 8, "memory": "2Gi"}))

    table = muster("usage", "--since", "1d").stdout.splitlines()
    (line,) = (
        it for it in csv.DictReader(muster("usage", "-o", "csv").stdout.splitlines()) if it["queue"] == "counted"
    )

    heads = "QUEUE ATTEMPTS CORE-H GIB-H GPU-H GOOD CORE-H GPU-H PREEMPTED CORE-H GPU-H LOST CORE-H FAILED CORE-H"
    assert table[0].split() == heads.split()
    assert any(it.split()[:2] == ["counted", "1"] for it in table)
    sums = ("attempts", *HOURS)
    good = [f"good_{what}" for what in sums]
    wasted = [f"{why}_{what}" for why in ("preempted", "lost", "failed", "moved", "cancelled") for what in sums]
    assert list(line) == ["queue", "from", "until", *sums, *good, *wasted]
    assert [line[name] for name in good] == [line[name] for name in sums]
    assert float(line["core_hours"]) == pytest.approx(8 * (job["ended"] - job["started"]) / 3600, abs=2e-6)
    assert {line[name] for name in wasted} == {"0", "0.000000"}
    assert muster("usage", "--by", "user", "-o", "csv").stdout.startswith("user,from,until,attempts,core_hours,")


def test_a_report_of_more_than_is_kept_says_since_when_it_counts(muster: Muster) -> None:
    told_late, in_time = muster("usage", "--since", "30d").stderr, muster("usage", "--since", "1h").stderr

    assert told_late.startswith("counted since ")
    assert told_late.endswith(": the server keeps nothing older (--keep)\n")
    assert in_time == ""


def test_a_report_of_what_nobody_counts_is_refused(muster: Muster) -> None:
    assert "'queue', 'user'" in muster("usage", "--by", "cluster", exit_code=2).stderr
    assert "since: 'soon' is not allowed: a duration" in muster("usage", "--since", "soon", exit_code=2).stderr


def test_watching_says_what_becomes_of_each_job_and_ends_with_the_last(muster: Muster, site: Site) -> None:
    muster("pause")  # or who is quick is over before anyone looks
    good, bad = site.submit(
        {"name": "good", "queue": "a", "cpu": 1, "jobSet": "watched", "command": ["sleep", "1"]},
        {"name": "huge", "queue": "a", "cpu": 1000, "jobSet": "watched", "command": ["true"]},
    )
    watching = subprocess.Popen(
        [*MUSTER, "watch", "--job-set", "watched", "--every", "0.1"], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    seen = iter(watching.stdout.readline, "")
    lines = [next(seen), next(seen)]
    muster("resume")
    while not (good in lines[-1] and "succeeded" in lines[-1]):
        lines.append(next(seen))
    assert watching.poll() is None  # one is not over yet
    muster("cancel", bad)

    lines += seen
    watching.stdout.close()
    assert watching.wait() == 1  # not all succeeded
    states = [(line.split()[2], line.split()[4]) for line in lines]
    assert states[-1] == (bad, "cancelled")
    assert len(states) == len(set(states))  # nothing is said twice
    assert {(good, "queued"), (good, "succeeded"), (bad, "queued")} <= set(states)


def test_watching_what_is_over_ends_at_once(muster: Muster) -> None:
    assert muster("watch", "--job-set", "none-such").stdout == "no such jobs that are not over\n"


def test_top_prints_queues_and_nodes_once_where_nobody_looks(muster: Muster, site: Site) -> None:
    (job,) = site.submit({"queue": "a", "cpu": 3, "memory": "2Gi", "command": ["sleep", "600"]})
    site.wait([job], "running")

    head, _, queues, *rest = muster("top").stdout.splitlines()
    muster("cancel", job)

    assert site.url in head
    assert queues.split()[-4:] == ["SHARE", "ENTITLED", "HOLDS", "QUOTA"]
    place = rest.index("")
    assert any(line.split()[0] == "a" and "cpu=3" in line for line in rest[:place])
    nodes = rest[place + 1 :]
    assert nodes[0].split() == ["NODE", "CLUSTER", "CORDONED", "JOBS", "USED", "FREE"]
    assert len(nodes) == 5
    assert any("cpu=3 memory=2Gi" in line and "cpu=5 memory=30Gi" in line for line in nodes)


def test_more_jobs_than_one_page_look_like_one(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = submitted(
        muster, "--queue", "a", "--cpu", "1000", "--name", "many", "--array", "0-4", "--job-set", "m", "--", "x"
    )
    monkeypatch.setattr("muster.sdk.asking.MOST_IN_A_PAGE", 2)

    page = told(muster, "jobs", "--job-set", "m", "--limit", 4)

    assert [job["id"] for job in page["jobs"]] == jobs[:0:-1]
    assert page["next"] is not None
    assert len(muster("jobs", "--job-set", "m", "--limit", 100).stdout.splitlines()) == 6
    assert sorted(muster("cancel", "--job-set", "m").stdout.split()) == sorted(jobs)


def test_a_waiting_job_is_shown_and_explained(muster: Muster) -> None:
    (job,) = submitted(muster, "--queue", "a", "--cpu", "1000", "--name", "huge", "--", "date")
    muster("reprioritise", job, "--priority", "1")  # answered after a turn

    shown, why = muster("job", job).stdout, muster("why", job).stdout
    assert f"muster why {job}" in shown
    assert re.search(r"^state +queued$", shown, re.MULTILINE)
    assert "NEVER_FITS" in why
    assert max(map(len, why.splitlines())) <= 100
    assert told(muster, "why", job)["reason"] == "NEVER_FITS"
    assert "reason" in muster("why", job, "-o", "wide").stdout
    assert [line.split()[:3] for line in muster("hold", job).stdout.splitlines()[1:]] == [[job, "a", "queued"]]
    assert "held" in muster("why", job).stdout.lower()
    muster("release", job)
    assert muster("cancel", job).stdout == f"{job}\n"
    done = muster("cancel", job)
    assert (done.stdout, "over already" in done.stderr) == ("", True)


def test_a_job_set_and_a_queue_are_operated_at_once(muster: Muster) -> None:
    muster("queue", "set", "crowd", "--owner", "ana", "--owner", "bo", "--label", "team=x")
    jobs = submitted(
        muster, "--queue", "crowd", "--cpu", "1000", "--name", "c", "--array", "0-2", "--job-set", "c", "--", "x"
    )
    queue = next(queue for queue in told(muster, "queues") if queue["name"] == "crowd")
    assert (queue["owners"], queue["labels"]) == (["ana", "bo"], {"team": "x"})

    assert sorted(muster("hold", "--queue", "crowd", "--all").stdout.split()) == sorted(jobs)
    done = muster("hold", "--queue", "crowd", "--all")
    assert (done.stdout, "nothing to hold" in done.stderr) == ("", True)
    assert sorted(muster("release", "--job-set", "c").stdout.split()) == sorted(jobs)
    changed = muster("reprioritise", "--job-set", "c", "--queue", "crowd", "--state", "queued", "--priority", "4")
    assert sorted(changed.stdout.split()) == sorted(jobs)
    muster("reprioritise", jobs[0], "--level", "Production", "--freezing-window", "10m")
    job = told(muster, "job", jobs[0])
    assert (job["priority"], job["level"], job["freezingWindow"]) == (4, "Production", 600)
    assert muster("preempt", "--queue", "crowd", "--all").stdout == ""
    refused = muster("queue", "remove", "crowd", exit_code=1).stderr
    assert "3 jobs that are not over" in refused
    muster("queue", "remove", "crowd", "--cancel")
    assert "crowd" not in [queue["name"] for queue in told(muster, "queues")]
    assert told(muster, "job", jobs[0])["state"] == "cancelled"


def test_owners_and_labels_are_kept_until_they_are_said_anew(muster: Muster) -> None:
    muster("queue", "set", "owned", "--owner", "ana", "--label", "team=x", "--label", "site=y")
    muster("queue", "set", "owned", "--weight", "2", "--label", "team=z")
    wide = muster("queues", "-o", "wide").stdout
    assert "ana" in wide
    assert "team=z" in wide
    muster("queue", "set", "owned", "--owner", "off", "--no-labels")
    queue = next(queue for queue in told(muster, "queues") if queue["name"] == "owned")
    assert (queue["weight"], queue["owners"], queue["labels"]) == (2.0, [], {})


def test_budgets_are_set_listed_and_removed(muster: Muster) -> None:
    (job,) = submitted(muster, "--queue", "a", "--cpu", "1000", "--name", "guarded", "--", "x")
    assert muster("budget", "set", job, "--min-available", "1").stdout.split()[-4:] == [job, "a", "main", "1"]
    assert told(muster, "budgets") == [{"job": job, "queue": "a", "group": "main", "minAvailable": 1}]
    assert "from 0 to 1" in muster("budget", "set", job, "--min-available", "2", exit_code=2).stderr
    muster("budget", "remove", job)
    assert "no budgets" in muster("budgets").stderr + muster("budgets").stdout
    muster("cancel", job)


def test_the_policy_is_set_from_the_command_line_and_a_file(muster: Muster, tmp_path: Path) -> None:
    windows = tmp_path / "calendar.yaml"
    windows.write_text(
        'calendar: [{pool: default, from: "08:00", to: "20:00", withhold: {cpu: 1}}]\n', encoding="utf-8"
    )

    shown = muster("policy", "set", "--aging-after", "12h", "--over-share", "off", "--calendar", windows).stdout
    assert "12h (set)" in shown
    assert "off (set)" in shown
    assert "cpu=1" in shown
    policy = told(muster, "policy", "show")
    assert (policy["agingAfter"], policy["overShare"], len(policy["calendar"])) == (43200, "off", 1)
    muster("policy", "set", "--aging-after", "default", "--over-share", "default", "--calendar", "default")
    assert told(muster, "policy", "show")["set"] == []
    assert "overShare" in muster("policy", "set", "--over-share", "0", exit_code=2).stderr
    assert "at least one" in muster("policy", "set", exit_code=2).stderr
    windows.write_text("days: all\n", encoding="utf-8")
    assert "a list of windows" in muster("policy", "set", "--calendar", windows, exit_code=2).stderr
    assert "--calendar" in muster("policy", "set", "--calendar", tmp_path / "nosuch", exit_code=2).stderr


def test_tables_are_narrow_or_wide(muster: Muster) -> None:
    narrow, wide = (muster("queues", "-o", how).stdout.splitlines()[0].split() for how in ("table", "wide"))

    assert set(narrow) < set(wide)
    assert not any(line.endswith(" ") for line in muster("nodes").stdout.splitlines())
    assert "\x1b" not in muster("jobs").stdout


def test_a_queue_keeps_what_is_not_said(muster: Muster) -> None:
    muster("queue", "set", "b", "--weight", "2", "--quota", "cpu=10", "--cordon")
    muster("queue", "set", "b", "--quota", "memory=4Gi")
    queue = next(queue for queue in told(muster, "queues") if queue["name"] == "b")
    assert (queue["weight"], queue["quota"], queue["cordoned"]) == (2.0, {"cpu": "10", "memory": "4Gi"}, True)

    muster("queue", "set", "b", "--no-quota", "--uncordon")
    queue = next(queue for queue in told(muster, "queues") if queue["name"] == "b")
    assert (queue["weight"], queue["quota"], queue["cordoned"]) == (2.0, {}, False)


def test_a_queue_says_how_long_its_jobs_run(muster: Muster) -> None:
    muster("queue", "set", "timed", "--default-time-limit", "2h", "--excess-budget", "90.5")
    wide = muster("queue", "set", "timed", "--default-expected-runtime", "10m", "-o", "wide").stdout.splitlines()
    queue = next(queue for queue in told(muster, "queues") if queue["name"] == "timed")
    assert (queue["defaultTimeLimit"], queue["defaultExpectedRuntime"], queue["excessBudget"]) == (7200, 600, 90.5)
    assert wide[1].split()[-3:] == ["90.5", "2h", "10m"]

    muster("queue", "set", "timed", "--default-time-limit", "off", "--excess-budget", "off")
    queue = next(queue for queue in told(muster, "queues") if queue["name"] == "timed")
    assert (queue["defaultTimeLimit"], queue["defaultExpectedRuntime"], queue["excessBudget"]) == (None, 600, None)


def test_machines_pools_and_users(muster: Muster) -> None:
    assert muster("clusters").stdout.splitlines()[1].split()[:4] == ["lab", "4", "50", "here"]
    node = muster("nodes", "--cluster", "lab").stdout.splitlines()[1].split()[0]
    assert muster("cordon", node).stdout.splitlines()[1].split()[:3] == [node, "lab", "yes"]
    assert told(muster, "uncordon", node)["cordoned"] is False
    assert "no nodes" in muster("nodes", "--cluster", "none").stdout

    assert "team=p" in muster("pool", "set", "p", "--node-selector", "team=p", "--no-sharing").stdout
    assert muster("pools").stdout.splitlines()[1].split() == ["p", "0", "team=p", "no", "yes", "yes"]
    muster("pool", "remove", "p")
    assert "no pools" in muster("pools").stdout
    assert "cpu=3" in muster("pool", "set", "p", "--node-selector", "team=p", "--keep", "cpu=3").stdout
    muster("pool", "remove", "p")
    muster("pool", "set", "default", "--no-borrowing")
    assert muster("pools").stdout.splitlines()[1].split() == ["default", "4", "yes", "no", "yes"]
    muster("pool", "remove", "default")
    assert "no pools" in muster("pools").stdout
    assert muster("user", "set", "ana", "--quota", "cpu=64").stdout.splitlines()[1].split() == ["ana", "cpu=64"]


def test_who_drains_a_node_and_waits_sees_who_leaves_it(muster: Muster, site: Site) -> None:
    (job,) = submitted(muster, "--queue", "a", "--cpu", "8", "--name", "away", "--", "sleep", "600")
    site.wait([job], "running")
    (home,) = told(muster, "job", job)["leases"][0]["nodes"]

    done = muster("drain", home, "--wait", "--every", "0.1")

    assert done.stderr.splitlines()[0] == f"{home}: 1 jobs to leave: {job}"
    assert done.stderr.splitlines()[-1] == f"{home}: 0 jobs left; gone: {job}"
    assert "drained" in done.stdout
    assert site.job(job)["attempt"] == 2
    assert json.loads(muster("drain", home, "--wait", "-o", "json").stdout)["drain"]["leaving"] == []
    muster("uncordon", home)
    muster("cancel", job)
    assert "--grace: 'soon': a duration" in muster("drain", home, "--grace", "soon", exit_code=2).stderr


def test_a_question_to_the_server_is_answered_in_words_and_changes_nothing(muster: Muster, site: Site) -> None:
    done = muster("whatif", "--queue", "a", "--cpu", "2", "--expected-runtime", "10m")
    assert re.match(r"new \(a\) would start now on lab: lab-\d\n", done.stdout)
    assert "0 earlier, 0 later" in done.stdout

    never = muster("whatif", "--queue", "a", "--cpu", "900").stdout
    assert "new (a) would not start as far as can be seen\n  at first it would wait: NEVER_FITS: fits no" in never
    tried = told(muster, "whatif", "--submit", "{name: mine, queue: a, cpu: 1}", "--event", "{cordonNode: lab-0}")
    assert [it["job"] for it in tried["jobs"] if it["asked"]] == ["mine"]
    assert not any(node["cordoned"] for node in told(muster, "nodes"))


def test_a_question_about_a_job_compares_its_starts(muster: Muster, site: Site) -> None:
    full = ["--cpu", "8", "--lifetime", "10h", "--expected-runtime", "1h", "--", "sleep", "600"]
    running = submitted(muster, "--queue", "a", "--tasks", "4", "--name", "full", *full)
    site.wait(running, "running")
    first, second, third = (submitted(muster, "--queue", "a", "--tasks", "4", *full)[0] for _ in range(3))

    said = muster("whatif", "--job", third, "--priority", "9").stdout
    site.wait_until(lambda: told(muster, "job", first)["state"] == "pending")

    assert re.match(rf"{third} \(a\) would start .* on lab: lab-0 .*; without the change .*, so 1h earlier\n", said)
    assert re.search(rf"{second} +a .* 1h later", said)
    muster("cancel", *running, first, second, third)


@pytest.mark.parametrize(
    "args, said",
    [
        pytest.param([], "what if what", id="nothing"),
        pytest.param(["--job", "x"], "--priority, --class or both", id="a job without a change"),
        pytest.param(["--job", "x", "--cpu", "2", "--priority", "1"], "'cpu'", id="a change that there is not"),
        pytest.param(["--event", "[1]"], "a mapping such as {drainNode: n-1}", id="no event"),
        pytest.param(["--event", "{drainNode: zz}"], "events[0].drainNode: 'zz' is not allowed", id="no such node"),
        pytest.param(["--event", "{a: b"], "not YAML", id="half an event"),
        pytest.param(["--submit", "/no/such.yaml"], "/no/such.yaml", id="no such file"),
        pytest.param(["--queue", "a", "--cpu", "1", "--at", "5m"], "as if they came now", id="a job that comes later"),
        pytest.param(["--real-runtimes", "--event", "{cordonNode: lab-0}"], "scenario file", id="what nobody knows"),
        pytest.param(
            ["examples/scenarios/backfill.yaml", "--queue", "a"], "not about a file", id="what only a server knows"
        ),
    ],
)
def test_a_question_that_makes_no_sense_gets_exit_code_2(muster: Muster, args: list[str], said: str) -> None:
    assert said in muster("whatif", *args, exit_code=2).stderr


def test_operators_pause_and_look(muster: Muster) -> None:
    assert "paused" in muster("pause").stdout
    assert "paused" not in muster("resume").stdout
    assert told(muster, "preemption", "dry-run")["preemption"] == "dry-run"
    muster("preemption", "on")
    assert re.search(r"^store +fine$", muster("status").stdout, re.MULTILINE)
    assert muster("audit", "--limit", "1").stdout.splitlines()[0].split() == ["AT", "WHO", "WHAT", "ABOUT"]
    assert muster("turns").stdout.lstrip().startswith("TURN")


def test_a_turn_is_shown_with_why_those_waited_who_did(muster: Muster, site: Site) -> None:
    (job,) = submitted(muster, "--queue", "a", "--cpu", "1000", "--name", "hopeless", "--", "date")

    def is_written() -> bool:
        return bool(told(muster, "turns", "--limit", 1)[0]["waiting"].get("NEVER_FITS"))

    site.wait_until(is_written)
    number = told(muster, "turns", "--limit", 1)[0]["number"]
    shown = muster("turn", number).stdout
    assert re.search(rf"^a +1 task of 1k cpu +NEVER_FITS +1 +{job} +fits no cluster", shown, re.MULTILINE)
    assert "there is no turn '99999999'" in muster("turn", "99999999", exit_code=1).stderr
    muster("cancel", job)


def test_tokens_are_made_for_a_file_and_taken_back(muster: Muster, tmp_path: Path, site: Site) -> None:
    made = muster("token", "make", "ana", "--may", "a=submit,cancel", "--may", "*=view").stdout
    file = tmp_path / "ana.token"
    file.write_text(made, encoding="utf-8")

    assert re.fullmatch(r"muster_\S+\n", made)
    assert "a" in muster("queues", "--token-file", file).stdout
    refused = muster("token", "list", "--token-file", file, exit_code=1)
    assert "only an admin may do that" in refused.stderr
    listed = muster("token", "list").stdout
    assert made.strip() not in listed
    line = next(line for line in listed.splitlines() if "ana" in line)
    assert "submit, cancel in a; view in all queues" in line
    muster("token", "remove", line.split()[0])
    gone = muster("queues", "--token-file", file, exit_code=1)
    assert "MUSTER_TOKEN" in gone.stderr


def test_events_are_lines(muster: Muster) -> None:
    (job,) = submitted(muster, "--queue", "a", "--cpu", "1", "--", "sleep", "0")
    muster("wait", job)

    lines = [json.loads(line) for line in muster("events", "--job", job, "-o", "json").stdout.splitlines()]
    assert [line["event"] for line in lines] == ["submitted", "started", "succeeded"]
    later = muster("events", "--job", job, "--after", lines[0]["id"]).stdout.splitlines()
    assert [line.split()[2] for line in later] == ["started", "succeeded"]
    assert yaml.safe_load(muster("events", "--job", job, "-o", "yaml").stdout) == lines


def test_who_follows_events_sees_them_as_they_happen_and_ends_with_ctrl_c(muster: Muster, site: Site) -> None:
    process = subprocess.Popen(
        [*MUSTER, "events", "--follow", "--after", "0", "--job-set", "f", "-o", "json", "--server", site.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MUSTER_TOKEN_FILE": str(site.token_file)},
    )
    (job,) = submitted(muster, "--queue", "a", "--cpu", "1", "--job-set", "f", "--", "sleep", "0")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["job"] == job
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors.strip()) == (130, "interrupted")


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_server_that_is_not_there_gets_exit_code_3_and_advice(muster: Muster) -> None:
    done = muster("jobs", "--server", "http://127.0.0.1:1", exit_code=3)

    assert done.stdout == ""
    assert "http://127.0.0.1:1 cannot be reached: Connection refused" in done.stderr
    assert "muster server" in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["job", "none"], id="a job"),
        pytest.param(["why", "none"], id="why"),
        pytest.param(["cancel", "none"], id="cancel"),
        pytest.param(["wait", "none"], id="wait"),
        pytest.param(["cordon", "none"], id="a node"),
        pytest.param(["token", "remove", "none"], id="a token"),
    ],
)
def test_what_is_not_there_gets_exit_code_1_and_where_to_look(muster: Muster, args: list[str]) -> None:
    done = muster(*args, exit_code=1)

    assert "there is no" in done.stderr
    assert "muster jobs" in done.stderr


def test_who_waits_for_a_job_to_run_hears_when_it_does_and_when_it_will_not(muster: Muster) -> None:
    (job,) = submitted(muster, "--queue", "a", "--cpu", "1", "--", "sleep", "1000")

    runs = muster("wait", job, "--for", "running")
    muster("cancel", job)
    over = muster("wait", job, "--for", "running", exit_code=1)

    assert ("running" in runs.stdout, "cancelled" in over.stdout) == (True, True)
    assert "'over'" in muster("wait", job, "--for", "ended", exit_code=2).stderr


def test_waiting_too_long_gets_exit_code_1(muster: Muster) -> None:
    (job,) = submitted(muster, "--queue", "a", "--cpu", "1000", "--", "date")

    done = muster("wait", job, "--timeout", "0.1", exit_code=1)

    assert f"{job} is still queued after 0.1 s" in done.stderr
    muster("cancel", job)


# --- contexts ------------------------------------------------------------------------------------


def test_contexts_are_noted_down_used_and_forgotten(
    muster: Muster, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_SERVER")
    monkeypatch.delenv("MUSTER_TOKEN_FILE")
    muster("context", "set", "lab", "--server", site.url, "--token-file", site.token_file)
    muster("context", "set", "far", "--server", "https://far.example", "--token-stdin", stdin="muster_secret\n")

    assert muster("queues").stdout.startswith("QUEUE")
    kept = tmp_path / "config" / "muster" / "contexts.yaml"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "muster_secret" in kept.read_text(encoding="utf-8")
    listed = muster("context", "list").stdout
    assert "muster_secret" not in listed + muster("context", "list", "-o", "yaml").stdout
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [["far", "https://far.example"], ["*", "lab"]]

    muster("context", "use", "far")
    assert [row["name"] for row in told(muster, "context", "list") if row["current"]] == ["far"]
    assert muster("queues", "--context", "lab").stdout.startswith("QUEUE")
    muster("context", "remove", "far")
    assert "there is no context 'far'" in muster("context", "use", "far", exit_code=2).stderr
    muster("context", "set", "new", exit_code=2)


# --- help and completion -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, expected",
    [
        pytest.param("muster que", ["queue", "queues"], id="commands"),
        pytest.param("muster jobs --queue ", ["a"], id="queues"),
        pytest.param("muster job known", ["known-"], id="jobs"),
        pytest.param("muster drain lab-", ["lab-0", "lab-3"], id="nodes"),
        pytest.param("muster nodes --cluster ", ["lab"], id="clusters"),
        pytest.param("muster context use ", ["here"], id="contexts"),
        pytest.param("muster jobs --server http://127.0.0.1:1 --queue ", [], id="no server, no names, no noise"),
    ],
)
def test_the_shell_completes_names(muster: Muster, site: Site, line: str, expected: list[str]) -> None:
    if "known" in line:
        submitted(muster, "--queue", "a", "--cpu", "1", "--name", "known", "--", "sleep", "0")
    if "context" in line:
        muster("context", "set", "here", "--server", site.url)
    words = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'muster'; from muster.cli.main import main; main()"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=False,
    )

    found = done.stdout.split()
    assert done.stderr == ""
    assert bool(found) == bool(expected), found
    assert all(any(name.startswith(each) for name in found) for each in expected), found
