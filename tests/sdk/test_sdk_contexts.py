"""Which server is meant, with which token, and how that is kept."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.errors import InvalidValue
from muster.sdk.contexts import (
    DEFAULT_SERVER,
    Context,
    Contexts,
    ContextsError,
    Said,
    chosen,
    contexts_path,
    is_local,
    meant,
    own_token_path,
    read_contexts,
    said_in,
    write_contexts,
)

LAB, FAR = (
    Context(server="https://lab.example", token="lab-token"),
    Context(server="https://far.example", token_file="/far"),
)
SAVED = Contexts(known={"lab": LAB, "far": FAR}, current="lab")
OWN = "/own/token"


@pytest.mark.parametrize(
    "said, around, saved, expected",
    [
        pytest.param(
            Said(),
            Said(),
            Contexts(),
            Context(server=DEFAULT_SERVER, token_file=OWN),
            id="nothing said: this machine's",
        ),
        pytest.param(Said(), Said(), SAVED, LAB, id="the context in use"),
        pytest.param(Said(context="far"), Said(), SAVED, FAR, id="another context by its name"),
        pytest.param(Said(), Said(context="far"), SAVED, FAR, id="another context by the environment"),
        pytest.param(
            Said(context="far"),
            Said(server="http://e.example", token="e"),
            SAVED,
            FAR,
            id="a context beats the environment",
        ),
        pytest.param(
            Said(server="http://s.example"),
            Said(server="http://e.example", token="e"),
            SAVED,
            Context(server="http://s.example", token="e"),
            id="an argument beats the environment, each by itself",
        ),
        pytest.param(
            Said(), Said(token="e"), SAVED, Context(server=LAB.server, token="e"), id="another token for the one in use"
        ),
        pytest.param(
            Said(token_file="/f"),
            Said(token="e"),
            Contexts(),
            Context(server=DEFAULT_SERVER, token_file="/f"),
            id="a token file beats a token of the environment",
        ),
        pytest.param(
            Said(server="https://elsewhere.example"),
            Said(),
            SAVED,
            Context(server="https://elsewhere.example"),
            id="a server that nobody has a token for gets none",
        ),
        pytest.param(
            Said(server="https://far.example/"),
            Said(),
            SAVED,
            Context(server="https://far.example/", token_file="/far"),
            id="a server that a context is about gets that one's",
        ),
        pytest.param(
            Said(server="http://localhost:9"),
            Said(),
            SAVED,
            Context(server="http://localhost:9", token_file=OWN),
            id="a server of this machine gets this machine's",
        ),
    ],
)
def test_what_is_said_in_so_many_words_comes_first(
    said: Said, around: Said, saved: Contexts, expected: Context
) -> None:
    assert chosen(said, around, saved, OWN) == expected


_SERVERS = st.sampled_from(
    ["", "https://lab.example", "https://far.example", "http://127.0.0.1:1", "https://x.example"]
)


@given(said=st.builds(Said, server=_SERVERS, context=st.sampled_from(["", "lab", "far"])), around=_SERVERS)
def test_a_token_is_never_sent_to_another_server_than_its_own(said: Said, around: str) -> None:
    found = chosen(said, Said(server=around), SAVED, OWN)

    if found.token == LAB.token:
        assert found.server == LAB.server
    if found.token_file == FAR.token_file:
        assert found.server == FAR.server
    if found.token_file == OWN:
        assert is_local(found.server)


@pytest.mark.parametrize(
    "server",
    [
        "lab.example",
        "ftp://lab.example",
        "http://",
        "http://lab.example:x",
        "https://lab.example?a=b",
        "//lab",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused_with_one_that_is(server: str) -> None:
    with pytest.raises(InvalidValue, match=r"server: .*: an address such as http://127\.0\.0\.1:8642"):
        chosen(Said(server=server), Said(), Contexts(), OWN)


_NAMES = st.text(min_size=1, max_size=10)
_CONTEXT = st.builds(
    Context,
    server=st.sampled_from([LAB.server, FAR.server]),
    token=st.text(max_size=5),
    token_file=st.text(max_size=5),
)


@given(known=st.dictionaries(_NAMES, _CONTEXT, max_size=4), pick=st.integers(0, 4))
def test_contexts_are_read_as_they_were_written(tmp_path_factory, known: dict[str, Context], pick: int) -> None:
    path = tmp_path_factory.mktemp("contexts") / "deep" / "contexts.yaml"
    current = ([*sorted(known), ""] * 5)[pick]
    contexts = Contexts(known=known, current=current)

    write_contexts(path, contexts)

    assert read_contexts(path) == contexts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["contexts.yaml"]


def test_a_file_that_everyone_could_read_is_closed_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text("{}", encoding="utf-8")
    path.chmod(0o644)

    write_contexts(path, SAVED)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text, named",
    [
        pytest.param("[1, 2]", ["contexts: {NAME:"], id="a list"),
        pytest.param(
            "contexts: {lab: {token: x}}", ["contexts.lab", "needs a server"], id="a context without a server"
        ),
        pytest.param(
            "contexts: {lab: {server: 7}}", ["contexts.lab.server", "as text"], id="a server that is a number"
        ),
        pytest.param(
            "contexts: {lab: {server: nowhere}}", ["contexts.lab.server", "nowhere"], id="a server that is none"
        ),
        pytest.param("contexts: {lab: {server: 'http://a', tokn: x}}", ["contexts.lab.tokn", "tokenFile"], id="a typo"),
        pytest.param("current: lab", ["current", "'lab'"], id="one in use that is not there"),
        pytest.param("a: [", ["not YAML"], id="no YAML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, named: list[str]) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ContextsError) as caught:
        read_contexts(path)

    assert all(part in str(caught.value) for part in (str(path), *named)), caught.value


def test_contexts_come_and_go() -> None:
    contexts = Contexts().with_context("lab", LAB)
    assert contexts.current == "lab"

    both = contexts.with_context("far", FAR)
    assert (both.current, both.using("far").current) == ("lab", "far")
    assert both.without("lab") == Contexts(known={"far": FAR}, current="")
    with pytest.raises(ContextsError, match=r"there is no context 'x': there are far, lab"):
        both.using("x")


def test_the_token_is_read_from_its_file_and_no_secret_is_shown(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    assert meant(Said(), environment) == Context(server=DEFAULT_SERVER)

    own = own_token_path(environment)
    own.parent.mkdir()
    own.write_text("muster_secret\n", encoding="utf-8")
    found = meant(Said(), environment)

    assert found == Context(server=DEFAULT_SERVER, token="muster_secret")
    assert "secret" not in repr(found)
    assert "secret" not in repr(said_in({"MUSTER_TOKEN": "secret"}))
    assert contexts_path(environment) == tmp_path / "muster" / "contexts.yaml"


@pytest.mark.parametrize(
    "text, said",
    [
        pytest.param(None, "cannot be read: No such file", id="no file"),
        pytest.param("", "is empty", id="an empty file"),
        pytest.param("two words\n", "is one word", id="a sentence"),
        pytest.param("a\nb\n", "is one word", id="two lines"),
    ],
)
def test_a_token_file_that_has_none_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    with pytest.raises(ContextsError, match=said) as caught:
        meant(Said(token_file=str(file)), {})
    assert str(file) in str(caught.value)


def test_a_token_that_is_none_is_refused_without_being_shown() -> None:
    with pytest.raises(ContextsError, match="is one word") as caught:
        meant(
            Said(), {"MUSTER_TOKEN": "secret\nhalf", "MUSTER_SERVER": "http://s.example", "XDG_CONFIG_HOME": "/nowhere"}
        )

    assert "secret" not in str(caught.value)
    around = {"MUSTER_TOKEN": " token\n", "MUSTER_SERVER": "http://s.example", "XDG_CONFIG_HOME": "/nowhere"}
    assert meant(Said(), around).token == "token"
