"""`muster submit`, `jobs`, `job`, `why`, `logs`, `wait`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.completing import complete_clusters, complete_jobs, complete_pools, complete_queues
from muster.cli.remote.where import Site, Where


class State(StrEnum):
    """What a job is doing."""

    QUEUED = "queued"
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Until(StrEnum):
    """What is waited for."""

    RUNNING = "running"
    OVER = "over"


class Stream(StrEnum):
    """What a task writes to."""

    BOTH = "both"
    OUT = "out"
    ERR = "err"


JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job.", autocompletion=complete_jobs)]
Queue = Annotated[str, typer.Option("--queue", help="Only of this queue.", autocompletion=complete_queues)]
JobSet = Annotated[str, typer.Option("--job-set", help="Only of this job set.")]


@grouped
def submit(
    where: Where,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]... | -- COMMAND...", help="Job files (docs/job-file.md; -: standard input)."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", help="The queue of the job.  [default: default, if there is one]", autocompletion=complete_queues
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What to call it; its id begins with that.")] = None,
    cpu: Annotated[str | None, typer.Option("--cpu", help="CPUs of each task: 2, 0.5, 500m.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="Memory of each task: 4Gi.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="GPUs of each task.")] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", min=1, help="So many tasks that start together.")] = None,
    array: Annotated[
        str | None,
        typer.Option(
            "--array", metavar="INDICES", help="One job for each: 0-99, 0-9,20 or 0-99:10 (MUSTER_ARRAY_INDEX)."
        ),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable of its tasks; repeatable.")
    ] = None,
    workdir: Annotated[str | None, typer.Option("--workdir", help="The directory that its tasks start in.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="For whom, if not for whoever submits.")] = None,
    job_set: Annotated[str | None, typer.Option("--job-set", help="The job set it belongs to.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="Its place in the queue; more is earlier.")] = None,
    priority_class: Annotated[
        str | None, typer.Option("--priority-class", help="Whom it may take the place of.")
    ] = None,
    time_limit: Annotated[str | None, typer.Option("--time-limit", help="It is ended after this: 2h, 30m.")] = None,
    expected: Annotated[
        str | None, typer.Option("--expected-runtime", help="How long it will take; lets it go into gaps.")
    ] = None,
    lifetime: Annotated[str | None, typer.Option("--lifetime", help="How long it lives at most, for budgets.")] = None,
    retries: Annotated[
        int | None,
        typer.Option("--retries", min=0, help="How often it is tried again after it failed; 0 unless given."),
    ] = None,
    retries_lost: Annotated[
        int | None, typer.Option("--retries-lost", min=0, help="How often after it was lost; always unless given.")
    ] = None,
    retries_preempted: Annotated[
        int | None,
        typer.Option("--retries-preempted", min=0, help="How often after it was preempted; always unless given."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", help="The cluster it must run on.", autocompletion=complete_clusters),
    ] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="The pool it belongs to.", autocompletion=complete_pools)
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="JOB",
            help="It starts when this job has succeeded; repeatable.",
            autocompletion=complete_jobs,
        ),
    ] = None,
    after_any: Annotated[
        list[str] | None,
        typer.Option(
            "--after-any",
            metavar="JOB",
            help="It starts when this job is over, in any way; repeatable.",
            autocompletion=complete_jobs,
        ),
    ] = None,
    after_failed: Annotated[
        list[str] | None,
        typer.Option(
            "--after-failed",
            metavar="JOB",
            help="It starts when this job has failed; repeatable.",
            autocompletion=complete_jobs,
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="A name for this submission: the same one submits nothing twice.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all are over; exit 1 unless all succeed.")] = False,
) -> None:
    """Submit jobs from files, or one that runs a command. All of them, or none.

    Prints their ids, one in a line. More jobs than the server takes in one request go in several, one after the other.

    Example: muster submit train.yaml

    Example: muster submit --queue vision --cpu 4 --memory 16Gi --gpu 1 -- python train.py --epochs 3

    Example: muster submit --queue vision --cpu 1 --array 0-99 --name sweep -- ./sweep.sh

    Exit codes: 0 fine, 1 the server refused or (with --wait) a job did not succeed, 2 bad input, 3 the server
    cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.submitting import Wanted, run, split_at_dashes

    of_job = {
        "queue": queue,
        "name": name,
        "cpu": cpu,
        "memory": memory,
        "gpu": gpu,
        "tasks": tasks,
        "array": array,
        "workdir": workdir,
        "user": user,
        "jobSet": job_set,
        "priority": priority,
        "priorityClass": priority_class,
        "timeLimit": time_limit,
        "expectedRuntime": expected,
        "lifetime": lifetime,
        "retries": _retries(retries, retries_lost, retries_preempted),
        "cluster": cluster,
        "pool": pool,
        "after": _after(after or [], {"any": after_any or [], "failed": after_failed or []}) or None,
    }
    files, command = split_at_dashes(given or [], sys.argv)
    wanted = Wanted(files=files, command=command, of_job=of_job, env=env or [])
    sys.exit(run(where, wanted, key=key, wait=wait))


def _retries(failed: int | None, lost: int | None, preempted: int | None) -> int | dict[str, int] | None:
    """The key `retries` of a job file."""
    given = {"failed": failed, "lost": lost, "preempted": preempted}
    each = {cause: times for cause, times in given.items() if times is not None}
    return failed if set(each) <= {"failed"} else each


def _after(ok: list[str], others: dict[str, list[str]]) -> list[str | dict[str, str]]:
    """The key `after` of a job file."""
    return [*ok, *({"job": name, "when": when} for when, names in others.items() for name in names)]


@grouped
def jobs(
    where: Where,
    queue: Queue = "",
    state: Annotated[State | None, typer.Option("--state", help="Only in this state.")] = None,
    job_set: JobSet = "",
    user: Annotated[str, typer.Option("--user", help="Only of this user.")] = "",
    text: Annotated[str, typer.Option("--text", help="Only with this in their id, job set or user.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="The latest so many.")] = 100,
) -> None:
    """List jobs, the latest first.

    Example: muster jobs --queue vision --state running -o wide

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.listing import list_jobs

    which = {"queue": queue, "job_set": job_set, "user": user, "text": text}
    sys.exit(list_jobs(where, which, state=None if state is None else state.value, limit=limit))


@grouped
def job(where: Where, job_id: JobId) -> None:
    """Show one job: its state, its attempts, and what it was submitted as.

    Example: muster job train-bprwmkjnxht

    Exit codes: 0 fine, 1 there is no such job or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_job
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.job(job_id), show_job))


@grouped
def why(where: Where, job_id: JobId) -> None:
    """Say why a job waits, with the numbers, and when it will start. With -o wide also the facts.

    Example: muster why train-bprwmkjnxht

    Exit codes: 0 fine, 1 there is no such job or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_why
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.why(job_id), show_why))


@grouped
def wait(
    where: Where,
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.", autocompletion=complete_jobs)],
    until: Annotated[
        Until, typer.Option("--for", help="Until each is over, or until each runs (or is over by then).")
    ] = Until.OVER,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="Wait for so many seconds at most.")] = None,
) -> None:
    """Wait until jobs are over, or until they run, and print them.

    Example: muster wait train-bprwmkjnxht && echo done

    Example: muster wait train-bprwmkjnxht --for running --timeout 60

    Exit codes: 0 all succeeded (--for running: all run or succeeded), 1 one did not, or took too long, or the server
    refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.listing import wait_for

    sys.exit(wait_for(where, job_ids, timeout, until.value))


@grouped
def logs(
    site: Site,
    job_id: JobId,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it is over.")] = False,
    task: Annotated[
        str, typer.Option("--task", metavar="GROUP/INDEX", help="Which of its tasks.  [default: the first]")
    ] = "",
    stream: Annotated[Stream, typer.Option("--stream", help="What it wrote to.")] = Stream.BOTH,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="Which attempt.  [default: the last]")] = None,
) -> None:
    """Print what a job wrote: its standard output to ours, its standard error to ours.

    Example: muster logs train-k7d2xqz -f

    Example: muster logs train-k7d2xqz --task worker/3 --stream err

    Exit codes: 0 fine, 1 there is no such job or task, it did not run yet, or the server refused, 2 bad input, 3 the
    server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.printing import print_logs

    which = {"task": task, "attempt": attempt, "follow": follow}
    sys.exit(print_logs(site.printing(), job_id, stream.value, which))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (submit, jobs, job, why, logs, wait):
        app.command()(command)
