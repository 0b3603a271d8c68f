"""What a container without a machine would have done: for how long it runs, and with which code it exits.

`sleep 20`, `exit 3`, `true` and `false` are honoured, also one after the other in a shell's `-c`. Whatever else a
command says cannot be known here; then the container takes the course that all such containers of a cluster take.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

SHELLS = ("sh", "bash", "dash", "ash", "zsh")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?|\.\d+)([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BETWEEN = re.compile(r"\s*(?:;|&&|\n)\s*")


@dataclass(frozen=True, slots=True)
class Course:
    """It runs so long (None: until it is told to end) and then exits so."""

    run_s: float | None
    exit_code: int


def course_of(words: Sequence[str], otherwise: Course) -> Course:
    """The course of a command with its arguments."""
    if len(words) >= 3 and _program(words[0]) in SHELLS and words[1] in ("-c", "-ec"):
        return _script([_split(line) for line in _BETWEEN.split(words[2].strip()) if line], otherwise)
    return _script([list(words)], otherwise)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # quotes that do not close: nobody knows what that is
        return []


def _script(commands: Sequence[Sequence[str]], otherwise: Course) -> Course:
    """One command after the other; the last one's code is that of the script."""
    ran_s, code = 0.0, 0
    for words in commands:
        match [_program(words[0]), *words[1:]] if words else []:
            case ["sleep", "infinity"]:
                return Course(None, 0)
            case ["sleep", *times] if times and all(map(_NUMBER.fullmatch, times)):
                ran_s += sum(map(_seconds, times))
                code = 0
            case ["exit"]:
                return Course(ran_s, code)
            case ["exit", number] if number.isdecimal():
                return Course(ran_s, int(number) % 256)
            case ["true" | ":" | "echo", *_]:
                code = 0
            case ["false", *_]:
                code = 1
            case _:
                return otherwise
    return Course(ran_s, code)


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _seconds(text: str) -> float:
    found = _NUMBER.fullmatch(text)
    assert found is not None
    return float(found[1]) * _UNITS[found[2]]
