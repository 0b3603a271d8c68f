"""More jobs than a server takes in one request: they go in several, in order, and can be gone on with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from serving import MUSTER, PATIENCE_S, Site

from muster.cli.remote.parting import called, parts, size, with_ids
from muster.model.errors import InvalidValue

NAMES = st.sampled_from([f"n{letter}" for letter in "abcdef"])
ARRAYS = st.lists(st.integers(0, 60), min_size=1, max_size=30, unique=True).map(lambda them: ",".join(map(str, them)))
ENTRIES = st.one_of(
    st.fixed_dictionaries({"name": NAMES}),
    st.fixed_dictionaries({"name": NAMES, "count": st.integers(1, 40)}),
    st.fixed_dictionaries({"name": NAMES, "array": ARRAYS}),
    st.just({"cpu": 1}),
)


def names_of(jobs: list[dict[str, Any]]) -> list[str]:
    """What each job is called, in order."""
    return [name for job in jobs for name in (list(called(job)) or [""])[-size(job) :]]


@given(st.lists(ENTRIES, min_size=1, max_size=12), st.integers(1, 20))
def test_property_parts_are_the_same_jobs_in_the_same_order_and_none_is_too_long(
    jobs: list[dict[str, Any]], most: int
) -> None:
    found = parts(jobs, most)

    assert [name for part in found for name in names_of(part)] == names_of(jobs)
    assert all(0 < sum(map(size, part)) <= most for part in found)
    assert len(found) == -(-sum(map(size, jobs)) // most)  # and no more of them than need be


def test_a_part_names_jobs_of_earlier_parts_by_their_ids() -> None:
    part = [{"name": "c"}, {"after": ["a", "c", {"job": "b", "when": "any"}, "elsewhere-1"]}]

    assert with_ids(part, {"a": ["a-1", "a-2"], "b": ["b-1"]})[1]["after"] == [
        *("a-1", "a-2", "c", {"job": "b-1", "when": "any"}, "elsewhere-1"),
    ]


@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param([{"after": ["b"]}, {"name": "a"}, {"name": "b"}], id="a job of a later part"),
        pytest.param([{"after": ["b"]}, {"name": "b", "count": 3}], id="an array that ends in a later part"),
        pytest.param([{"after": [{"job": "b"}]}, {"name": "b", "count": 3}], id="however it is to end"),
    ],
)
def test_who_comes_after_a_later_part_is_refused_before_anything_is_sent(jobs: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidValue, match="too many for one request"):
        parts(jobs, 2)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "server.yaml").write_text("limits: {mostJobs: 10}\n", encoding="utf-8")
    with Site(folder, "", "--config", str(folder / "server.yaml")) as running:
        running.queue("a")
        yield running


def submitted(site: Site, path: Path, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    where = ["--server", site.url, "--token-file", str(site.token_file)]
    ran = subprocess.run(
        [*MUSTER, "submit", str(path), *where, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return ran


def test_too_many_jobs_for_one_request_go_in_several_and_keep_what_they_come_after(site: Site, tmp_path: Path) -> None:
    jobs = [
        {"name": "one", "queue": "a", "cpu": 1},
        {"name": "sweep", "queue": "a", "cpu": 1, "array": "0-40:2"},
        {"name": "last", "queue": "a", "cpu": 1, "after": ["one", "sweep"]},
    ]
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump(jobs), encoding="utf-8")
    ids = submitted(site, path, "--key", "k").stdout.split()

    assert [job_id.rpartition("-")[0] for job_id in ids] == ["one", *(f"sweep-{n}" for n in range(0, 41, 2)), "last"]
    assert sorted(site.job(ids[-1])["spec"]["after"]) == sorted(ids[:-1])
    assert submitted(site, path, "--key", "k").stdout.split() == ids  # nothing is submitted twice


def test_a_part_that_is_refused_says_how_to_go_on(site: Site, tmp_path: Path) -> None:
    good, bad = {"name": "x", "queue": "a", "cpu": 1}, {"name": "x", "queue": "nowhere", "cpu": 1}
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump([good] * 12 + [bad]), encoding="utf-8")

    said = submitted(site, path, "--key", "k2", code=2).stderr
    assert "10 jobs were submitted before this; the same command with --key k2 goes on" in said
    assert "'nowhere'" in said
