"""A scenario, and the same with more jobs and events: what `muster whatif` compares.

Additions are written as in the file and read by the same code, as if they stood in it; only what is said about a wrong
one names the flag it came from instead of a place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from muster.documents import document
from muster.documents.scalars import DURATION, LONGEST_MS, milliseconds
from muster.documents.values import List, Map, Scalar, Value, resolved, shown
from muster.sim.scenario.loader import WHAT, scenario_of
from muster.sim.scenario.problems import Problem, Problems, ScenarioError, quoted
from muster.sim.scenario.scenario import Scenario

_ADDED = re.compile(r"(jobs|events)\[([0-9]+)\]\.?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A scenario without and with a change; `added` are the ids of the jobs that come with it."""

    at_ms: int
    before: Scenario
    after: Scenario
    added: frozenset[str]


class _Addition(NamedTuple):
    """One more entry of the file. `has_lines`: it comes from a file of its own, so that lines mean something."""

    flag: str
    entry: Map
    has_lines: bool


def load_changed(path: str, *, at: str, events: Sequence[str], submits: Sequence[str]) -> Changed:
    """The scenario in a file, and with these events and jobs at `at`, or later; raises ScenarioError.

    An event is written as in a scenario, without its `at` or with one that is not before. `submits` are files with job
    entries, or an entry itself.
    """
    at_ms = read_moment(at, "--at")
    problems = Problems(path)
    value = document.read(document.read_file(path, problems), problems, WHAT)
    before = scenario_of(value, problems)
    assert isinstance(value, Map)  # or there would have been a problem
    wrong: list[Problem] = []
    added: dict[str, list[_Addition]] = {"jobs": [], "events": []}
    for number, text in enumerate(events, start=1):
        flag = "--event" if len(events) == 1 else f"--event {number}"
        added["events"] += _additions(flag, text, wrong, is_event=True)
    for number, text in enumerate(submits, start=1):
        flag = "--submit" if len(submits) == 1 else f"--submit {number}"
        added["jobs"] += _additions(flag, text, wrong, is_event=False)
    timed = {key: [_timed(one, at, at_ms, wrong) for one in ones] for key, ones in added.items()}
    try:
        after = _with(value, timed)
    except ScenarioError as err:
        raise ScenarioError((*wrong, *err.problems), path) from None
    if wrong:
        raise ScenarioError(tuple(wrong), path)
    new = {entry.job.id for entry in after.jobs} - {entry.job.id for entry in before.jobs}
    return Changed(at_ms=at_ms, before=before, after=after, added=frozenset(new))


def read_moment(text: str, flag: str) -> int:
    """A moment given on the command line, in ms; raises ScenarioError."""
    ms = milliseconds(Scalar(0, resolved(text), text))
    if ms is None or not 0 <= ms <= LONGEST_MS:
        raise ScenarioError((Problem(flag, 0, f"{quoted(text)} is not allowed: {DURATION}"),), text)
    return ms


def _additions(flag: str, text: str, wrong: list[Problem], *, is_event: bool) -> list[_Addition]:
    """The entries that a flag brings; what is wrong with them is noted."""
    is_inline = is_event or text.lstrip().startswith("{")
    flag = flag if is_inline else f"--submit {text}"
    problems = Problems(flag)
    try:
        data = document.encoded(text, problems) if is_inline else document.read_file(text, problems)
        value = document.read(data, problems)
    except ScenarioError as err:
        wrong += [_named(problem, flag, has_line=not is_inline) for problem in err.problems]
        return []
    if problems:
        wrong += [_named(problem, flag, has_line=not is_inline) for problem in problems.error().problems]
    found = []
    for entry in [value] if is_event else _entries(value):
        if isinstance(entry, Map):
            found.append(_Addition(flag, entry, not is_inline))
            continue
        what = "an event such as {removeNode: n-1}" if is_event else "job entries, a list of them, or {jobs: [...]}"
        wrong.append(
            _named(Problem("", entry.line, f"{shown(entry)} is not allowed: {what}"), flag, has_line=not is_inline)
        )
    return found


def _entries(value: Value) -> Iterable[Value]:
    """Job entries: a list of them, a mapping with only the key `jobs`, or one entry."""
    if isinstance(value, Map) and list(value.values) == ["jobs"]:
        value = value.values["jobs"]
    return value.items if isinstance(value, List) else [value]


def _timed(one: _Addition, at: str, at_ms: int, wrong: list[Problem]) -> _Addition:
    """The addition with its time; nothing may be changed that lies before --at."""
    line, values, lines = one.entry
    if "at" not in values:
        scalar = Scalar(line, f"{at_ms}ms", f"{at_ms}ms")
        return one._replace(entry=Map(line, {**values, "at": scalar}, {**lines, "at": line}))
    own_ms = milliseconds(values["at"])
    if own_ms is not None and own_ms < at_ms:
        message = f"{shown(values['at'])} is not allowed: nothing before --at, which is {at}"
        wrong.append(_named(Problem("at", values["at"].line, message), one.flag, has_line=one.has_lines))
    return one


def _with(value: Map, added: dict[str, list[_Addition]]) -> Scenario:
    """The scenario with all additions."""
    values, lines, first = dict(value.values), dict(value.lines), {}
    for key, ones in added.items():
        there = values.get(key)
        items = there.items if isinstance(there, List) else []
        first[key] = len(items)
        if ones:
            values[key] = List(there.line if there else value.line, [*items, *(one.entry for one in ones)])
            lines.setdefault(key, value.line)
    try:
        return scenario_of(Map(value.line, values, lines), Problems(""))
    except ScenarioError as err:
        raise ScenarioError(tuple(_found(problem, added, first) for problem in err.problems), err.name) from None


def _found(problem: Problem, added: dict[str, list[_Addition]], first: dict[str, int]) -> Problem:
    """The problem with the flag that it came from."""
    match = _ADDED.fullmatch(problem.path)
    place = -1 if match is None else int(match[2]) - first[match[1]]
    if match is None or place < 0:
        return problem
    one = added[match[1]][place]
    return _named(replace(problem, path=match[3]), one.flag, has_line=one.has_lines)


def _named(problem: Problem, flag: str, *, has_line: bool) -> Problem:
    """A problem of a flag; on the command line there are no lines to count."""
    where = [f"line {problem.line}"] if has_line and problem.line else []
    message = ": ".join(part for part in (*where, problem.path, problem.message) if part)
    return Problem(flag, 0, message)
