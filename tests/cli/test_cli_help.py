"""The help of every command: what a page of a manual has, and nothing that is not true."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from muster.cli.main import app

ROOT = Path(__file__).parents[2]
SHELL = {"&&", "|", ">", "&"}  # where the command ends and the shell goes on

Path_ = tuple[str, ...]


def commands(group: Any, path: Path_ = ()) -> Iterator[tuple[Path_, click.Command]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands(typer.main.get_command(app)))
EVERY = [pytest.param(path, command, id=" ".join(path)) for path, command in ALL.items()]


def examples_of(command: click.Command) -> list[list[str]]:
    """The words of each example, until the shell goes on."""
    found = []
    for line in re.findall(r"^ *Example: (.*)$", command.help or "", flags=re.MULTILINE):
        words = shlex.split(line)
        ends = [place for place, word in enumerate(words) if word in SHELL]
        found.append(words[: ends[0]] if ends else words)
    return found


def test_all_commands_are_walked() -> None:
    assert {("submit",), ("queue", "set"), ("token", "make"), ("context", "use"), ("db", "backup"), ("drain",)} <= set(
        ALL
    )


@pytest.mark.parametrize("path, command", EVERY)
def test_help_has_examples_exit_codes_and_where_to_read_more(path: Path_, command: click.Command) -> None:
    assert examples_of(command), path
    assert "Exit codes: 0" in (command.help or "")
    pages = re.findall(r"docs/[a-z/-]+\.md", command.epilog or "")
    assert pages, path
    assert [page for page in pages if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize("path, command", EVERY)
def test_an_example_is_about_its_command_and_says_only_what_that_takes(path: Path_, command: click.Command) -> None:
    for words in examples_of(command):
        assert words[: len(path) + 1] == ["muster", *path], words
        parsed = command.make_context(" ".join(path), words[len(path) + 1 :])  # raises for what it does not take
        assert set(parsed.params) == {it.name for it in command.params if it.name != "help"}


@pytest.mark.parametrize("path, command", EVERY)
def test_options_and_arguments_say_what_they_are(path: Path_, command: click.Command) -> None:
    silent = [it.name for it in command.params if not getattr(it, "help", None) and it.name != "help"]
    assert silent == []


@pytest.mark.parametrize("path, command", EVERY)
def test_the_page_on_the_command_line_names_every_command(path: Path_, command: click.Command) -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"`{' '.join(path)}[ `]", page), path


@pytest.mark.parametrize("path, command", EVERY)
def test_whoever_is_asked_for_a_name_of_the_server_can_complete_it(path: Path_, command: click.Command) -> None:
    """A job, a queue, a node, a cluster, a pool, a context: the shell knows which there are."""
    named = {"job_id", "job_ids", "queue", "node", "pool", "context"}
    if path not in (("agent",), ("token", "make"), ("specialise",)):  # these make one up, or read a file
        named |= {"cluster"}
    lacking = [it.name for it in command.params if it.name in named and it._custom_shell_complete is None]
    assert lacking == []
