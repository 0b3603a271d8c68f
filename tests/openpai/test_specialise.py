"""Job files for several OpenPAI clusters: what is read, what is sent, what is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.model.errors import InvalidValue
from muster.model.race import Grace, Terms
from muster.model.resources import CPU, GPU, MEMORY, PODS, Resources
from muster.openpai.amounts import race_spec
from muster.openpai.jobfile import JobFileError, load, parse
from muster.openpai.names import LEGAL, MOST_NAME, child_name
from muster.openpai.specialise import specialise
from muster.openpai.writing import to_yaml

ROOT = Path(__file__).parents[2]


def file(body="", *, params="{}", clusters="{a: {}, b: {}}", head="", extras="extras"):
    """A job file for the clusters a and b; the rows of a test show only what matters."""
    return (
        f"protocolVersion: super-2\nname: job\n{head}\n{body}\n{extras}:\n  com.microsoft.pai.runtimeplugin:\n"
        f"    - plugin: super_scheduler\n      parameters:\n        clusters: {clusters}\n        params: {params}\n"
    )


def problems_of(text):
    with pytest.raises(JobFileError) as refused:
        specialise(parse(text), "a")
    return [(problem.path, problem.message) for problem in refused.value.problems]


def sent(text, alias="a"):
    """The job as the cluster reads it."""
    return yaml.safe_load(to_yaml(specialise(parse(text), alias)))


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written, arrives",
    [
        pytest.param("3", 3, id="a number"),
        pytest.param("0.5", 0.5, id="a fraction"),
        pytest.param("true", True, id="a boolean"),
        pytest.param("on", "on", id="a word that only YAML 1.1 takes for a boolean"),
        pytest.param("'3'", "3", id="a number in quotes is text"),
        pytest.param("'1e3'", "1e3", id="so is one that only YAML 1.2 takes for a number"),
        pytest.param("null", None, id="nothing"),
        pytest.param("[1, x, [2]]", [1, "x", [2]], id="a list"),
        pytest.param("{x: [1], y: {z: 2}}", {"x": [1], "y": {"z": 2}}, id="a mapping"),
        pytest.param("<% $parameters.x %>", "<% $parameters.x %>", id="a template for the cluster"),
        pytest.param('"line\\nline\\n"', "line\nline\n", id="several lines"),
    ],
)
def test_a_parameter_keeps_its_type(written, arrives):
    text = file("x: <% $mcc.p %>", params=f"{{p: {{a: {written}, b: 1}}}}")

    value = sent(text)["x"]

    assert (value, type(value)) == (arrives, type(arrives))


def test_text_that_another_yaml_would_take_for_a_number_is_sent_in_quotes():
    assert '"1e3"' in to_yaml(specialise(parse(file("x: '1e3'")), "a"))


def test_a_parameter_inside_of_a_text_is_written_as_the_file_wrote_it():
    text = file("x: run --n <%$mcc.n%> --y <% $mcc.y %>", params="{n: {a: 010, b: 1}, y: {a: true, b: false}}")

    assert sent(text)["x"] == "run --n 010 --y true"


def test_what_has_become_empty_is_left_out():
    job = sent(file(head="secrets: {token-a: x, token-b: y}"))

    assert sorted(job) == ["name", "protocolVersion"]


def test_both_spellings_are_read_and_the_servers_are_written():
    text = file(extras="extra").replace("    - plugin: super", "    - plugin: teamwiase_storage\n    - plugin: super")

    assert sent(text)["extras"] == {"com.microsoft.pai.runtimeplugin": [{"plugin": "teamwise_storage"}]}


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, path, message",
    [
        pytest.param(
            file("x: <% $mcc.p %>", params="{p: {a: 1}}"),
            "x",
            "parameter p has no value for cluster 'b'",
            id="no value",
        ),
        pytest.param(file("x: <% $mcc.q %>", params="{p: {}}"), "x", "parameter of this file: p", id="no parameter"),
        pytest.param(
            file("x: n <% $mcc.p %>", params="{p: {a: [1], b: 2}}"), "x", "no text or number", id="a list in a text"
        ),
        pytest.param(file("x: <% $mcc %>"), "x", "<% $mcc.name %>", id="a parameter without a name"),
        pytest.param(file("<% $mcc.p %>: 1", params="{p: {a: 1, b: 2}}"), None, "not for a key", id="in a key"),
        pytest.param(
            file(params="{p: {a: <% $mcc.q %>}}"),
            "extras.com.microsoft.pai.runtimeplugin[0].parameters.params.p.a",
            "may not refer to another",
            id="a parameter in a parameter",
        ),
        pytest.param(
            file(params="{p: {c: 1}}"),
            "extras.com.microsoft.pai.runtimeplugin[0].parameters.params.p.c",
            "a cluster of this file: a, b",
            id="a value for a cluster nobody named",
        ),
        pytest.param(
            file("x: <% $secrets.token-b %>"), "x", "taken out of every job", id="a token that will not be there"
        ),
        pytest.param(file().replace("super-2", "2"), "protocolVersion", "super-2", id="a job for one cluster"),
        pytest.param(file().replace("name: job", "name: a b"), "name", "letters, digits", id="a name with a blank"),
        pytest.param(file().replace("name: job\n", ""), "name", "missing", id="no name"),
        pytest.param(file(head="extra: {}"), "extra", "two spellings", id="both spellings at once"),
        pytest.param(
            file(clusters="{}"),
            "extras.com.microsoft.pai.runtimeplugin[0].parameters.clusters",
            "at least one cluster",
            id="no cluster",
        ),
        pytest.param(
            file(clusters="{a: {priority: 200}}"),
            "extras.com.microsoft.pai.runtimeplugin[0].parameters.clusters.a.priority",
            "0 to 100",
            id="a priority of 200",
        ),
        pytest.param(
            file(clusters="{a: {url: x}}"),
            "extras.com.microsoft.pai.runtimeplugin[0].parameters.clusters.a.url",
            "uri, user, priority",
            id="a misspelt key",
        ),
        pytest.param(
            file().replace("        params", "        timeScale: soon\n        params"),
            "extras.com.microsoft.pai.runtimeplugin[0].parameters.timeScale",
            "minutes",
            id="a time that is none",
        ),
        pytest.param(
            file().replace("super_scheduler", "other"),
            "extras.com.microsoft.pai.runtimeplugin",
            "one plugin super_scheduler",
            id="no clusters at all",
        ),
        pytest.param("[]", "", "a mapping with keys", id="a list"),
        pytest.param("", "", "the file is empty", id="nothing"),
        pytest.param("a: !!python/object:os.system x\n" + file(), "a", "tag", id="a tag that runs code"),
    ],
)
def test_a_wrong_file_is_refused_and_nothing_is_made(text, path, message):
    found = problems_of(text)

    assert any((path is None or where == path) and message in what for where, what in found), found


def test_every_cluster_that_lacks_something_is_named():
    text = file("x: <% $mcc.p %>\ny: <% $mcc.q %>", params="{p: {b: 1}, q: {a: 1}}")

    assert [message for _, message in problems_of(text)] == [
        "missing: the parameter p has no value for cluster 'a'",
        "missing: the parameter q has no value for cluster 'b'",
    ]


def test_an_unknown_cluster_is_refused_with_those_there_are():
    with pytest.raises(InvalidValue, match="must be a cluster of the file: a, b"):
        specialise(parse(file()), "c")


def test_tokens_do_not_show_in_errors_or_logs():
    job = parse(file(head="secrets: {token-a: hush}"))

    assert job.candidates[0].token == "hush"
    assert "hush" not in repr(job)


# --- the race of a file ---------------------------------------------------------------------------


def test_a_file_describes_a_race():
    spec = race_spec(load(str(ROOT / "examples" / "openpai" / "train.yaml")))

    common = {CPU: 4000, MEMORY: 16 << 30, PODS: 1}
    assert spec.terms == Terms(guard_ms=600_000, time_scale_ms=60_000, grace=Grace.STRICT)
    assert {rival.cluster: (rival.priority, rival.asks) for rival in spec.rivals} == {
        "v100": (80, Resources.of({**common, GPU: 2000})),
        "k80": (20, Resources.of({**common, GPU: 4000})),
    }
    assert spec.largest == Resources.of({**common, GPU: 4000})


# --- names ----------------------------------------------------------------------------------------

aliases = st.text(alphabet=st.sampled_from("ab-._/:é"), min_size=1, max_size=300)


@given(st.sets(aliases, min_size=2, max_size=6), st.from_regex(r"[a-zA-Z0-9_-]{1,255}", fullmatch=True))
def test_property_names_are_legal_and_unique(names, name):
    children = {child_name(name, alias, attempt) for alias in names for attempt in (1, 2)}

    assert len(children) == 2 * len(names)
    assert all(LEGAL.fullmatch(child) and len(child) <= MOST_NAME for child in children)


@given(st.text())
def test_property_any_text_is_a_job_file_or_a_job_file_error(text):
    with suppress(JobFileError):
        parse(text)
