"""The JSON Schema of job files agrees with their reader, as far as a schema can say it, and is what is published."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from job_documents import SERVER, damaged, jobs
from typer.testing import CliRunner

from muster.cli.main import app
from muster.documents.jobs import JobFileError, Known, job_schema, read_job_file, read_jobs

ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema.Draft202012Validator(job_schema())

NOT_SAID = (
    "of this server",  # names of what there is
    "one of Experiment, Offline",
    "<= initial",  # one number beside another
    "initial <= max",
    "a width, which is a whole number from 1 to",
    "at least one task is needed",
    "needs gpu: 1 or more",
    "not allowed where command is a line",
    "is given twice here",
    "names are unique",
    "a job cannot wait for itself",
    "a group of this job",
    "each port once",
    "a whole number >= 0",  # of a quantity that may be written with a suffix
    "must be ",  # Kubernetes' own shapes
    "must have ",
    "finite numbers of 64 bits",
)
"""What readers say that no schema could."""


def problems(job: object) -> list[str]:
    try:
        read_jobs(job, SERVER)
    except JobFileError as err:
        return [str(problem) for problem in err.problems]
    return []


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(job_schema())


@given(jobs)
def test_it_takes_what_people_may_write(job):
    for body in (job, [job, job], {"jobs": [job]}, {"jobs": job}):
        assert [error.message for error in SCHEMA.iter_errors(body)] == []


@given(damaged())
def test_it_never_refuses_what_the_reader_takes(job):
    errors = [*SCHEMA.iter_errors(job)]

    assert not errors or problems(job), errors


@given(damaged())
def test_it_refuses_what_the_reader_refuses_as_far_as_it_can(job):
    said = [problem for problem in problems(job) if not any(words in problem for words in NOT_SAID)]

    assert not said or not SCHEMA.is_valid(job), said


@pytest.mark.parametrize(
    "job, at",
    [
        pytest.param({"cpus": 1}, [], id="an unknown key"),
        pytest.param({"at": 0}, [], id="what only a simulation knows"),
        pytest.param({"queue": "no name"}, ["queue"], id="a name that is none"),
        pytest.param({"queue": 7}, ["queue"], id="a number as a name"),
        pytest.param({"lifetime": "soon"}, ["lifetime"], id="a duration that is none"),
        pytest.param({"lifetime": -1}, ["lifetime"], id="a negative duration"),
        pytest.param({"timeLimit": 0}, ["timeLimit"], id="no time at all"),
        pytest.param({"cpu": "4 cores"}, ["cpu"], id="a quantity that is none"),
        pytest.param({"example.com/x": True}, ["example.com/x"], id="a switch as a quantity"),
        pytest.param({"retries": -1}, ["retries"], id="a number below its range"),
        pytest.param({"retries": {"lost": -1}}, ["retries", "lost"], id="a number below its range, one deeper"),
        pytest.param({"retries": {"never": 1}}, ["retries"], id="what ends no attempt"),
        pytest.param({"onLost": "cry"}, ["onLost"], id="another word"),
        pytest.param({"wholeNode": 1}, ["wholeNode"], id="a number as a switch"),
        pytest.param({"array": "0-9"}, [], id="an array without a name"),
        pytest.param({"name": "x", "array": "0..9"}, ["array"], id="an array that is none"),
        pytest.param({"name": "x", "array": "1", "count": 1}, [], id="an array and a count"),
        pytest.param({"cluster": "a", "clusters": {"a": 1}}, [], id="a cluster and clusters"),
        pytest.param({"cpu": 1, "groups": [{"name": "w"}]}, [], id="amounts beside groups"),
        pytest.param({"a.b/c": 1, "groups": [{"name": "w"}]}, [], id="any amounts beside groups"),
        pytest.param({"command": "x", "groups": [{"name": "w"}]}, [], id="a command beside groups"),
        pytest.param({"groups": []}, ["groups"], id="no group"),
        pytest.param({"groups": [{"cpu": 1}]}, ["groups", 0], id="a group without a name"),
        pytest.param({"groups": [{"name": "w", "count": 1, "max": 2}]}, ["groups", 0], id="a count and a max"),
        pytest.param({"command": []}, ["command"], id="no program"),
        pytest.param({"command": [1]}, ["command", 0], id="a number as an argument"),
        pytest.param({"command": ["a\0"]}, ["command", 0], id="a null character"),
        pytest.param({"args": ["x"]}, [], id="arguments of nothing"),
        pytest.param({"command": "x", "env": {"1": "x"}}, ["env"], id="a wrong variable"),
        pytest.param({"command": "x", "env": {"MUSTER_ARRAY_INDEX": "1"}}, ["env"], id="the variable of arrays"),
        pytest.param({"command": "x", "podTemplate": {"spec": {"containers": [{}]}}}, [], id="a command and a pod"),
        pytest.param({"podTemplate": {"spec": {"containers": []}}}, ["podTemplate", "spec", "containers"], id="no pod"),
        pytest.param({"race": {"clusters": {}}}, ["race", "clusters"], id="a race without clusters"),
        pytest.param(
            {"race": {"clusters": {"pai": {"sightings": []}}}}, ["race", "clusters", "pai"], id="what a race will see"
        ),
        pytest.param({"objects": [{"kind": "pod", "name": "x", "ports": [1]}]}, ["objects", 0, "kind"], id="a pod"),
        pytest.param({"objects": [{"kind": "service", "name": "x"}]}, ["objects", 0], id="a service without ports"),
    ],
)
def test_schema_and_reader_refuse_alike(job, at):
    job = {"queue": "a", **job} if "race" not in job else job

    assert at in [list(error.absolute_path) for error in SCHEMA.iter_errors(job)]
    assert problems(job)


def test_the_published_schema_is_current():
    printed = CliRunner().invoke(app, ["schema", "job"])

    assert printed.exit_code == 0
    assert printed.stdout == (ROOT / "docs" / "job.schema.json").read_text(), (
        "run `muster schema job > docs/job.schema.json`"
    )


def test_the_page_on_job_files_names_every_key():
    text = (ROOT / "docs" / "job-file.md").read_text()
    found = {key for part in _parts(job_schema()) for key in part.get("properties", ()) if key != "jobs"}

    assert [key for key in sorted(found) if f"`{key}`" not in text] == []


def test_every_example_in_the_page_is_a_job_file():
    text = (ROOT / "docs" / "job-file.md").read_text()
    files = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    assert len(files) >= 5
    for file in files:
        for spec in read_job_file(file, "docs/job-file.md", Known(classes={"default": 0, "high": 1000})):
            SCHEMA.validate(json.loads(json.dumps(spec.document)))


def _parts(schema: object):
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from _parts(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _parts(part)
