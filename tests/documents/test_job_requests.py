"""Jobs in decoded JSON: put together of what was read before, they are what reading in full makes of them."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from job_documents import SERVER, damaged, jobs

from muster.documents.jobs import JobFileError, JobReader, JobSpec, Known, as_document, read_job_file, read_jobs


def verdict(reader: JobReader, body: object) -> tuple[list[JobSpec], set[tuple[str, str]]]:
    """The jobs, and what is wrong with them."""
    try:
        return reader.read(body), set()
    except JobFileError as err:
        return [], {(problem.path, problem.message) for problem in err.problems}


@given(jobs)
def test_a_job_survives_being_written_and_read_again(job):
    (spec,) = read_jobs(job, SERVER)

    document = as_document(spec)

    assert read_jobs(json.loads(json.dumps(document)), SERVER) == [spec]
    assert read_job_file(yaml.safe_dump(document), "job.yaml", SERVER) == [spec]
    assert document == job


@given(st.lists(jobs | damaged(), min_size=1, max_size=6))
def test_what_was_read_before_does_not_change_what_a_job_means(some):
    specs, wrong = [], set()
    for index, job in enumerate(some):  # one entry by itself is always read in full
        found, problems = verdict(JobReader(SERVER), {"jobs": job})
        specs += found
        wrong |= {(path.replace("jobs", f"jobs[{index}]", 1), message) for path, message in problems}

    reader = JobReader(SERVER)

    for _ in range(2):
        assert verdict(reader, {"jobs": deepcopy(some)}) == ([] if wrong else specs, wrong)


@given(jobs.filter(lambda job: not {"array", "count"} & job.keys()))
def test_jobs_that_ask_for_the_same_share_one_profile(job):
    first, second = read_jobs([deepcopy(job), {**deepcopy(job), "priority": 5}], SERVER)

    assert first.profile is second.profile


@pytest.mark.parametrize(
    "body, said",
    [
        pytest.param(3, ": 3 is not allowed: a mapping", id="no job at all"),
        pytest.param(
            [{"queue": "c"}], "[0].queue: 'c' is not allowed: a queue of this server: Train.x_7, a, b, n-1", id="a list"
        ),
        pytest.param(
            {"jobs": [{"queue": "a"}] * 3 + [{"queue": "a", "groups": [{"name": "w", "cpu": -1}]}]},
            "jobs[3].groups[0].cpu: -1 is not allowed: a Kubernetes quantity >= 0 such as 500m or 2",
            id="the path leads to the value",
        ),
        pytest.param(
            {"jobs": [{"queue": 7}]},
            "jobs[0].queue: 7 is not allowed: in quotes, a name of at most 253 letters, digits, '.', '_' and '-' that"
            " begins and ends with a letter or digit",
            id="a number is no name in JSON",
        ),
        pytest.param(
            {"jobs": [{"queue": "a", "command": ["x"], "env": {"A": True}}]},
            "jobs[0].env.A: true is not allowed: text without null characters",
            id="nor is a switch text",
        ),
        pytest.param(
            {"jobs": [{"queue": "a", "command": ["\ud800"]}]},
            "jobs[0].command[0]: '\\ud800' is not allowed: text without null characters",
            id="half a character",
        ),
        pytest.param(
            {"jobs": [{"queue": "a", "retries": True}]},
            "jobs[0].retries: true is not allowed: a whole number from 0 to 2147483647, "
            "or a mapping such as {failed: 2, lost: 3, preempted: 10}",
            id="a switch is no number",
        ),
        pytest.param(
            {"jobs": [{"queue": "a", "retries": 1}, {"queue": "a", "retries": True}]},
            "jobs[1].retries: true is not allowed: a whole number from 0 to 2147483647, "
            "or a mapping such as {failed: 2, lost: 3, preempted: 10}",
            id="also where the number that equals it came before",
        ),
        pytest.param(
            {
                "jobs": [
                    {"queue": "a", "name": "x", "after": ["y-1"]},
                    {"queue": "a", "name": "y", "array": "0-2", "after": ["x"]},
                ]
            },
            "jobs[0].after: these jobs wait for each other in a circle: x before y before x",
            id="a circle through an array",
        ),
        pytest.param(
            {"jobs": [{"queue": "a", 3: 4}]},
            "jobs[0]: the job is not allowed: must have text as keys",
            id="keys that JSON does not have",
        ),
        pytest.param(
            {"jobs": [{"queue": "a", "cpu": {1, 2}}]},
            "jobs[0]: the job is not allowed: must be what JSON can say: text, a number, true, false, null, a list or a"
            " mapping",
            id="values that JSON does not have",
        ),
    ],
)
def test_what_is_said_about_a_wrong_request(body, said):
    with pytest.raises(JobFileError) as caught:
        read_jobs(body, SERVER)

    assert f"{caught.value.problems[0].path}: {caught.value.problems[0].message}" == said


def test_a_document_that_goes_too_deep_is_refused():
    deep: object = []
    for _ in range(500):
        deep = [deep]

    with pytest.raises(JobFileError, match="nested too deeply"):
        read_jobs([{"queue": "a", "podTemplate": deep}], SERVER)


def test_what_is_remembered_is_bounded():
    reader = JobReader(Known())
    for first in range(0, 30_000, 3000):
        reader.read([{"cpu": f"{number}m", "priority": number} for number in range(first, first + 3000)])

    assert max(map(len, (reader._asks, reader._values))) <= 13_000
