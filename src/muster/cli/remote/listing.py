"""Lists of jobs: page by page, those that were cancelled, those that are waited for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from muster.cli.remote.asking import FAILED, answer, as_body, client, ended, print_plain
from muster.cli.remote.tables import JOBS, print_table, show_jobs
from muster.cli.remote.where import Format, Where
from muster.sdk import asking
from muster.sdk.asking import Ask
from muster.sdk.client import Client
from muster.sdk.shapes import JobDetail, JobPage, JobState, Until

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


def wait_for(where: Where, jobs: Sequence[str], timeout_s: float | None, until: str) -> int:
    """Wait until jobs are over, or run, and print them; the exit code is 0 unless one is over without success."""

    def run() -> int:
        with client(where, FOLLOWING_PATIENCE_S) as to:
            return wait_and_print(to, where, jobs, timeout_s, cast(Until, until))

    return ended(run)


def wait_and_print(
    to: Client, where: Where, jobs: Sequence[str], timeout_s: float | None = None, until: Until = "over"
) -> int:
    """Wait until jobs are over, or run, and print them; the exit code is 0 unless one is over without success."""
    try:
        done = to.wait(jobs, until=until, timeout_s=timeout_s)
    except TimeoutError as err:
        print(f"{err}; `muster why JOB` says why it waits", file=sys.stderr)
        return FAILED
    _print_done(where, done)
    return 0 if all(job.state == "succeeded" or not job.is_over for job in done) else FAILED


def _print_done(where: Where, done: list[JobDetail]) -> None:
    if where.output in (Format.TABLE, Format.WIDE):
        print_table(done, JOBS, wide=where.output is Format.WIDE, none="no jobs")
    else:
        print_plain(where, as_body({"jobs": done}))
