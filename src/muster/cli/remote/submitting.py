"""`muster submit`: job files, or a command line, as jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.cli.ending import BAD_INPUT
from muster.cli.remote.asking import answer, as_body, client, ended
from muster.cli.remote.listing import FOLLOWING_PATIENCE_S, wait_and_print
from muster.cli.remote.parting import parts, size, with_ids
from muster.cli.remote.where import Format, Where
from muster.documents import document
from muster.documents.jobs.known import Known
from muster.documents.jobs.making import from_command
from muster.documents.jobs.reading import JobProblems, read_job_file
from muster.documents.problems import DocumentError
from muster.model.errors import InvalidValue, MusterError
from muster.sdk import asking
from muster.sdk.client import Client
from muster.sdk.shapes import Submitted

STANDARD_INPUT = "/dev/stdin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was said: files, or a command with what is known of its job. `command` None: there was no `--`."""

    files: Sequence[str]
    command: Sequence[str] | None
    of_job: Mapping[str, Any] = field(default_factory=dict)  # what `from_command` takes, None where nothing was said
    env: Sequence[str] = ()


def split_at_dashes(given: Sequence[str], line: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Files and command, of the arguments of a command line: after `--` comes a command."""
    if "--" not in line:
        return list(given), None
    many = len(line) - list(line).index("--") - 1
    return list(given[: len(given) - many]), list(given[len(given) - many :])


def run(where: Where, wanted: Wanted, *, key: str | None, wait: bool) -> int:
    """Submit and print the ids, one in a line; the exit code."""

    def submit() -> int:
        try:
            jobs = documents(wanted)
        except DocumentError as err:
            for problem in err.problems:
                print(f"{err.name}: {problem}" if err.name else problem, file=sys.stderr)
            return BAD_INPUT
        ask = asking.submit(jobs, key)  # whatever is wrong with the key is said before anyone is asked
        with client(where) as to:
            taken = _submit(to, jobs, key or asking.new_key())
        if not wait:
            answer(where, ask, as_body({"jobs": taken}), show_submitted)
            return 0
        names = [job.id for job in taken]
        if where.output is Format.TABLE:
            show_submitted(taken, False)
        with client(where, FOLLOWING_PATIENCE_S) as to:
            return wait_and_print(to, where, names)

    return ended(submit)


def _submit(to: Client, jobs: Sequence[Mapping[str, Any]], key: str) -> list[Submitted]:
    """Submit jobs, in as few requests as the server takes them in."""
    if sum(map(size, jobs)) == 1:
        return to.submit(jobs, key)
    in_parts = parts(jobs, to.status().most_jobs)
    if len(in_parts) == 1:
        return to.submit(jobs, key)
    taken: list[Submitted] = []
    before: dict[str, list[str]] = {}
    for number, part in _shown(in_parts):
        try:
            now = to.submit(with_ids(part, before), f"{key}:{number}")
        except MusterError:
            said = f"{len(taken)} jobs were submitted before this; the same command with --key {key} goes on after them"
            print(said, file=sys.stderr)
            raise
        taken += now
        ids = iter(now)
        for job in part:
            for name, it in _named(job, ids):
                before.setdefault(name, []).append(it.id)
    return taken


def _named(job: Mapping[str, Any], ids: Iterator[Submitted]) -> Iterator[tuple[str, Submitted]]:
    """The jobs of an entry by each name that others may call them by."""
    whole = job.get("name")
    for _ in range(size(job)):
        one = next(ids)
        for name in {one.name, whole} - {None, ""}:
            yield str(name), one


def _shown(in_parts: list[list[Mapping[str, Any]]]) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """The parts with their number; how far it is stands on the terminal, if there is one."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    about = f"submitting in {len(in_parts)} requests"
    yield from track(list(enumerate(in_parts)), about, console=console, transient=True, disable=not console.is_terminal)


def show_submitted(jobs: list[Submitted], _wide: bool) -> None:
    """Their ids, one in a line, for the next program."""
    for job in jobs:
        print(job.id)


def documents(wanted: Wanted) -> list[Mapping[str, Any]]:
    """The jobs as the API takes them."""
    said = {name: value for name, value in wanted.of_job.items() if value is not None}
    if wanted.command is None:
        if said or wanted.env:
            option = next(iter(said), "env")
            raise InvalidValue(said.get(option, ""), "for a command after `--`; a job file says it itself", option)
        if not wanted.files:
            raise InvalidValue("", "what? Name job files, or a command after `--`", "submit")
        return [job for file in wanted.files for job in in_file(file)]
    if wanted.files or not wanted.command:
        given = " ".join([*wanted.files, "--", *wanted.command])
        raise InvalidValue(given, "either job files, or a command after `--`", "submit")
    return [from_command(wanted.command, env=_variables(wanted.env), **said)]


def in_file(path: str) -> list[Mapping[str, Any]]:
    """The jobs of a file, once they are known to be well written; whether they can run is for the server to say."""
    path = STANDARD_INPUT if path == "-" else path
    data = document.read_file(path, JobProblems(path))
    return [spec.document for spec in read_job_file(data, path, Known(classes=_AnyClass()))]


class _AnyClass(dict[str, int]):
    """Priority classes: which there are is for the server to say."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> int:
        return 0


def _variables(given: Sequence[str]) -> dict[str, str]:
    wrong = next((pair for pair in given if "=" not in pair), None)
    if wrong is not None:
        raise InvalidValue(wrong, "a variable and its value: NAME=VALUE", "env")
    return dict(pair.split("=", 1) for pair in given)
