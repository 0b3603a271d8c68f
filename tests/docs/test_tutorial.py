"""The tutorial is carried out as it is written: every command is typed, and prints what the page shows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tutorial import File, Terminal, Typed, matches, steps

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PORT = "8642"  # what the page shows; here it is any that is free

MUSTER = f"""#!/bin/sh
[ "$1" = up ] && shift && set -- up --port 0 "$@"
exec {sys.executable} -c "from muster.cli.main import main; main()" "$@"
"""


class Reader:
    """Someone with terminals who does what a page says."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        commands = folder / "bin"
        commands.mkdir()
        (commands / "muster").write_text(MUSTER)
        (commands / "muster").chmod(0o700)
        self._desk = folder / "desk"
        self._desk.mkdir()
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "XDG_"))}
        self._environment = own | {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
        }
        self._stack = stack
        self._here = self._terminal()
        self._elsewhere: dict[str, tuple[Terminal, Iterator[str]]] = {}

    def _terminal(self) -> Terminal:
        return self._stack.enter_context(closing(Terminal(self._desk, self._environment)))

    def do(self, step: File | Typed) -> None:
        """One step; what is printed is what is shown."""
        if isinstance(step, File):
            (self._desk / step.name).write_text(step.text)
        elif step.command == "^C":
            terminal, lines = self._elsewhere.pop(step.terminal)
            terminal.interrupt()
            _compare(step, list(map(_with_port, lines)))
        elif step.terminal:
            self._begin(step)
        else:
            self._here.type(step.command)
            _compare(step, list(map(_with_port, self._here.lines())))

    def _begin(self, step: Typed) -> None:
        terminal = self._terminal()
        terminal.type(step.command)
        lines = terminal.lines()
        printed: list[str] = []
        while not matches(step.shown, printed):
            line = next(lines, None)
            if line is None:
                _compare(step, printed)
                return
            printed.append(_with_port(line))
        self._elsewhere[step.terminal] = terminal, lines


def _with_port(line: str) -> str:
    return re.sub(r"127\.0\.0\.1:\d+(?=[, ]|$)", f"127.0.0.1:{PORT}", line)


def _compare(step: Typed, printed: list[str]) -> None:
    shown = "\n".join(step.shown)
    said = f"line {step.line} of docs/tutorial.md: `{step.command}` is shown to print\n{shown}\nand printed\n"
    assert matches(step.shown, printed), said + "\n".join(printed)


def test_the_tutorial_does_what_it_shows(tmp_path: Path) -> None:
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for step in steps(PAGE.read_text()):
            reader.do(step)


def test_the_tutorial_shows_what_people_need_first() -> None:
    typed = " ".join(step.command for step in steps(PAGE.read_text()) if isinstance(step, Typed))
    commands = ("up", "submit", "jobs", "job", "why", "logs", "wait", "watch", "top", "usage", "cancel")

    assert [name for name in (*commands, "simulate", "whatif", "nodes") if f"muster {name} " not in typed + " "] == []


@pytest.mark.parametrize(
    "shown, printed, is_so",
    [
        pytest.param(["a  b"], ["a b"], True, id="spaces do not matter"),
        pytest.param(["job-… ran …s"], ["job-x1 ran 12s"], True, id="anything within a line"),
        pytest.param(["job-…"], ["job-x", "more"], False, id="but no further line"),
        pytest.param(["a", "…", "z"], ["a", "b", "c", "z"], True, id="any lines"),
        pytest.param(["a", "…", "z"], ["a", "z"], True, id="none, too"),
        pytest.param(["a", "…", "z"], ["a", "b"], False, id="but the one after them must come"),
        pytest.param([], ["a"], False, id="nothing is shown"),
        pytest.param(["a.b"], ["axb"], False, id="a dot is a dot"),
    ],
)
def test_what_is_printed_is_held_against_what_is_shown(shown: list[str], printed: list[str], is_so: bool) -> None:
    assert matches(tuple(shown), printed) is is_so


def test_a_page_is_read_as_files_and_commands() -> None:
    page = (
        "Write `a.yaml`:\n\n```yaml\nname: a\n```\n\nThen\n\n```console\n$ one \\\n> two\nout\n$ three\n```\n\n"
        "```yaml\nnot: a file\n```\n\n<!-- first terminal -->\n```console\n^C\n```\n"
    )

    assert [*steps(page)] == [
        File(name="a.yaml", text="name: a\n"),
        Typed(line=10, command="one \\\ntwo", shown=("out",), terminal=""),
        Typed(line=13, command="three", shown=(), terminal=""),
        Typed(line=22, command="^C", shown=(), terminal="first"),
    ]


def test_a_wrong_page_is_found_out(tmp_path: Path) -> None:
    (step,) = steps("```console\n$ echo right\nwrong\n```\n")

    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        with pytest.raises(AssertionError) as found:
            reader.do(step)

    said = " ".join(str(found.value).split())
    assert said.startswith("line 2 of docs/tutorial.md: `echo right` is shown to print wrong and printed right")
