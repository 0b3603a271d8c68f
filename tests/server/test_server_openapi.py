"""The API against its own description: whatever is sent, there is no 5xx, and every answer is one that OpenAPI names.

Requests are made up from the OpenAPI document, both such as it allows and such as it does not; half of the names in
their paths are of things that are there. `make fuzz` tries more, with fresh seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving import Site

from muster.server.api.app import application

EXAMPLES = 300 if os.environ.get("MUSTER_FUZZ") else 16

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]

API = schemathesis.openapi.from_dict(application(None).openapi())  # type: ignore[arg-type]  # described, not started
OPERATIONS = {found.ok().label: found.ok() for found in API.get_all_operations()}


class Asked:
    """A server with a little of everything, and how it is asked."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.token = site.token
        self.session = requests.Session()
        site.queue("a")
        site.ask("PUT", "/pools/p", {"nodeSelector": {"tier": "gold"}})
        hello = {"session": "s", "hello": True, "nodes": [{"name": "n", "amounts": {"cpu": "4"}}]}
        site.ask("POST", "/agents/lab/call", hello)
        self.names = {
            "job_id": site.submit(*({"name": "j", "queue": "a", "cpu": 1} for _ in range(3))),
            "name": ["a", "p", "n", "lab"],
            "cluster": ["lab"],
        }
        # Logs come from agents, and this one answers nobody: what is asked for is that of a job that never runs.
        self.without_logs = site.submit({"name": "wide", "queue": "a", "cpu": 1000})

    def send(self, case: Case) -> None:
        """Ask, and look at the answer. Where headers are to be wrong, the token may be what is wrong."""
        about = case.meta.components.get(ParameterLocation.HEADER)
        is_wrong = about is not None and about.mode is GenerationMode.NEGATIVE
        headers = {} if is_wrong else {"Authorization": f"Bearer {self.token}"}
        case.call_and_validate(base_url=self.site.url, session=self.session, headers=headers, checks=CHECKS, timeout=30)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with Site(tmp_path_factory.mktemp("site"), "", "--most-requests", "0", "--most-strangers", "0") as site:
        asked = Asked(site)
        with asked.session:
            yield asked
        assert "Traceback" not in site.server.log()


@pytest.mark.parametrize("label", OPERATIONS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_every_answer_is_one_that_the_description_names(asked: Asked, label: str, data: st.DataObject) -> None:
    can_be_wrong = label != "GET /healthz"  # which takes nothing
    mode = data.draw(st.sampled_from(list(GenerationMode) if can_be_wrong else [GenerationMode.POSITIVE]))
    case = data.draw(OPERATIONS[label].as_strategy(generation_mode=mode))
    names = {"job_id": asked.without_logs} if label.endswith("/logs") else asked.names
    for name in names.keys() & (case.path_parameters or {}) if mode is GenerationMode.POSITIVE else ():
        case.path_parameters[name] = data.draw(st.sampled_from([case.path_parameters[name], *names[name]]))
    asked.send(in_short(case))


def in_short(case: Case) -> Case:
    """The same, but answered at once: nobody waits for what will happen."""
    if case.path in ("/api/v1/events", "/api/v1/jobs/{job_id}/logs"):
        case.query = {**(case.query or {}), "follow": "false"}
    if case.path.startswith("/api/v1/agents/") and isinstance(case.body, dict) and "wait_s" in case.body:
        case.body["wait_s"] = 0
    return case
