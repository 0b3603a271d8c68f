"""Lists of jobs: page by page, those that were cancelled, those that are waited for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from muster.cli.remote.asking import FAILED, answer, as_body, client, ended, print_plain
from muster.cli.remote.options import Format, Where
from muster.cli.remote.tables import JOBS, print_table, show_jobs
from muster.sdk import asking
from muster.sdk.asking import Ask
from muster.sdk.client import Client
from muster.sdk.shapes import JobDetail, JobPage, JobState

FOLLOWING_PATIENCE_S = 600.0  # a server that restarts does not end what waits for it


def list_jobs(where: Where, which: Mapping[str, str], *, state: str | None, limit: int) -> int:
    """Print the latest so many of these jobs; the exit code."""

    def run() -> int:
        with client(where) as to:
            _print_jobs(to, where, which, cast(JobState | None, state), limit)
        return 0

    return ended(run)


def _print_jobs(to: Client, where: Where, which: Mapping[str, str], state: JobState | None, limit: int) -> None:
    """One page as the server sent it; several, put together, look the same."""

    def ask(many: int, after: int | None) -> Ask[JobPage]:
        return asking.jobs(**which, state=state, limit=min(many, asking.MOST_IN_A_PAGE), after=after)

    first = ask(limit, None)
    body = to.fetch(first)
    if limit > asking.MOST_IN_A_PAGE:
        whole: dict[str, Any] = msgspec.json.decode(body)
        while whole["next"] is not None and len(whole["jobs"]) < limit:
            more = msgspec.json.decode(to.fetch(ask(limit - len(whole["jobs"]), whole["next"])))
            whole = {"jobs": whole["jobs"] + more["jobs"], "next": more["next"]}
        body = as_body(whole)
    answer(where, first, body, show_jobs)


def show_cancelled(jobs: list[str], _wide: bool) -> None:
    """Their ids, one in a line, for the next program."""
    for name in jobs:
        print(name)
    if not jobs:
        print("nothing to cancel: there are none that are not over already", file=sys.stderr)


def wait_for(where: Where, jobs: Sequence[str], timeout_s: float | None) -> int:
    """Wait until jobs are over and print them; the exit code is 0 if all succeeded."""

    def run() -> int:
        with client(where, FOLLOWING_PATIENCE_S) as to:
            return wait_and_print(to, where, jobs, timeout_s)

    return ended(run)


def wait_and_print(to: Client, where: Where, jobs: Sequence[str], timeout_s: float | None = None) -> int:
    """Wait until jobs are over and print them; the exit code is 0 if all succeeded."""
    try:
        over = to.wait(jobs, timeout_s=timeout_s)
    except TimeoutError as err:
        print(f"{err}; `muster why JOB` says why it waits", file=sys.stderr)
        return FAILED
    _print_over(where, over)
    return 0 if all(job.state == "succeeded" for job in over) else FAILED


def _print_over(where: Where, over: list[JobDetail]) -> None:
    if where.output in (Format.TABLE, Format.WIDE):
        print_table(over, JOBS, wide=where.output is Format.WIDE, none="no jobs")
    else:
        print_plain(where, as_body({"jobs": over}))
