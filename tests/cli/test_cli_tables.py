"""What people see: ages, amounts, tables, and nothing that a terminal would obey."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.remote.changing import pairs
from muster.cli.remote.following import as_line
from muster.cli.remote.granting import rights_of
from muster.cli.remote.submitting import split_at_dashes
from muster.cli.remote.tables import Column, age, as_lines, as_yaml, clean
from muster.cli.remote.where import Format
from muster.sdk.shapes import Event


@pytest.mark.parametrize(
    "seconds, shown",
    [(-3, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86_399, "23h"), (864_000, "10d")],
)
def test_ages_are_short(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_a_column_is_as_wide_as_what_is_in_it() -> None:
    columns = [
        Column("NAME", lambda row: row[0]),
        Column("N", lambda row: row[1], right=True),
        Column("X", lambda _: ""),
    ]

    assert as_lines([("a", "100"), ("longer", "7")], columns) == [
        "NAME      N  X",
        "a       100",
        "longer    7",
    ]


def test_colours_are_around_words_not_in_their_width() -> None:
    columns = [Column("STATE", lambda row: row), Column("B", lambda _: "x")]

    head, line = as_lines(["failed"], columns, coloured=True)
    assert (head, line) == ("\x1b[1mSTATE \x1b[0m  \x1b[1mB\x1b[0m", "\x1b[31mfailed\x1b[0m  x")


@given(st.text())
def test_nothing_from_elsewhere_commands_the_terminal(text: str) -> None:
    assert clean(text).isprintable()
    assert len(clean(text)) == len(text)
    event = Event(id=1, t=0.0, event="e", job=text, facts={"cause": text})
    assert as_line(event, Format.WIDE).isprintable()
    assert "\n" not in as_line(event, Format.JSON)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text(" \n\r\ta:#-|"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def test_a_script_is_shown_with_its_lines() -> None:
    assert as_yaml({"command": "step 1\n  step 2\n"}) == "command: |\n  step 1\n    step 2\n"


@given(_JSON)
def test_yaml_reads_as_what_was_written(value: object) -> None:
    assert yaml.safe_load(as_yaml(value)) == value


@pytest.mark.parametrize(
    "line, files, command",
    [
        pytest.param(["submit", "a", "b"], ["a", "b"], None, id="files"),
        pytest.param(["submit", "--", "a", "b"], [], ["a", "b"], id="a command"),
        pytest.param(["submit", "a", "--", "b"], ["a"], ["b"], id="both"),
        pytest.param(["submit", "--"], [], [], id="a command of nothing"),
        pytest.param(["submit", "--", "sh", "--", "x"], [], ["sh", "--", "x"], id="a command with dashes of its own"),
    ],
)
def test_after_two_dashes_comes_a_command(line: list[str], files: list[str], command: list[str] | None) -> None:
    given = line[1:]
    if "--" in given:
        given.remove("--")

    assert split_at_dashes(given, line) == (files, command)


def test_pairs_and_rights() -> None:
    assert pairs(["a=1", "b=x=y"], "quota", "cpu=1") == {"a": "1", "b": "x=y"}
    assert rights_of(["a=submit,view", "a=view,cancel", "*=view"]) == {"a": ["submit", "view", "cancel"], "*": ["view"]}
