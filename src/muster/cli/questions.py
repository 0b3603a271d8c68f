"""`muster replay` and `muster whatif`: about a file or, without one, about the server that runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.completing import complete_jobs, complete_queues
from muster.cli.remote.where import Format, Site


class Answer(StrEnum):
    """How to print an answer."""

    TABLE = "table"
    JSON = "json"


@grouped
def replay(
    site: Site,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="RECORD", help="Turns that --record wrote (docs/replay.md).  [else: those of the server]"
        ),
    ] = None,
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, metavar="N", help="Only the last so many turns.  [default: all]")
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="FOLDER", help="Server: keep the records that were fetched here.")
    ] = None,
    output: Annotated[Answer, typer.Option("-o", "--output", help="Words for people, or one JSON object.")] = (
        Answer.TABLE
    ),
) -> None:
    """Take recorded turns again, and say where they would be decided differently today.

    Of a record or, without one, of the server: those that `muster up`, or `muster server --record FOLDER`, keeps. They
    are fetched and decided again here, with this version of Muster; the server only sends them. For admins.

    Example: muster replay

    Example: muster replay --turns 1000 --save records/

    Example: muster replay turns.muster

    Exit codes: 0 every plan is identical, 1 some differ (the first is shown), or the server refused (it records
    nothing, say), 2 the record cannot be replayed, 3 the server cannot be reached, 130 interrupted.
    """
    if file is None:
        from muster.cli.remote.replaying import replay_server

        sys.exit(replay_server(site.printing(Format(output.value)), last=turns, folder=save))
    from muster.cli.replay import run

    if save is not None:
        raise typer.BadParameter("only records that are fetched from a server are saved", param_hint="--save")
    sys.exit(run(file, output.value, last=turns))


@grouped
def whatif(
    site: Site,
    file: Annotated[
        str | None, typer.Argument(help="A scenario file (docs/scenarios.md).  [else: the server is asked]")
    ] = None,
    at: Annotated[
        str, typer.Option(metavar="TIME", help="When the change comes: 10m, 2h, or seconds; of a server, from now on.")
    ] = "0",
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="EVENT", help="An event as in a scenario, such as '{removeNode: n-1}'; repeatable."),
    ] = None,
    submit: Annotated[
        list[str] | None,
        typer.Option(metavar="JOBS", help="A file with jobs, or '{name: j, queue: q, cpu: 2}'; repeatable."),
    ] = None,
    real_runtimes: Annotated[
        bool, typer.Option("--real-runtimes", help="File: know how long jobs really run, which no scheduler does.")
    ] = False,
    queue: Annotated[
        str | None, typer.Option("--queue", help="A job of this queue came.", autocompletion=complete_queues)
    ] = None,
    cpu: Annotated[str | None, typer.Option("--cpu", help="… with so many CPUs for each task.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="… and memory: 4Gi.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="… and GPUs.")] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", min=1, help="… of so many tasks that start together.")] = None,
    expected: Annotated[str | None, typer.Option("--expected-runtime", help="… that will take so long: 2h.")] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="This job were changed so:", autocompletion=complete_jobs),
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", help="… to this priority in its queue (also of a job that came).")
    ] = None,
    priority_class: Annotated[
        str | None, typer.Option("--class", help="… to this priority class (also of a job that came).")
    ] = None,
    output: Annotated[Answer, typer.Option("-o", "--output", help="A table for people, or one JSON object.")] = (
        Answer.TABLE
    ),
) -> None:
    """Say who would start when, and who would give way, if something were changed.

    Of a scenario file or, without one, of the server: when and where would a job start that nobody submitted yet, and
    why not now? What if a job had another priority, a queue another weight, a node were drained or added? The server
    tries it out on a copy; nothing is submitted or changed.

    Example: muster whatif --queue vision --gpu 8 --expected-runtime 2h

    Example: muster whatif --submit train.yaml --event '{drainNode: lab-3}'

    Example: muster whatif --job train-bprwmkjnxht --priority 9

    Example: muster whatif examples/scenarios/backfill.yaml --at 10m --event '{cordonNode: n-1}'

    Exit codes: 0 answered, 1 the server refused, 2 the file, an event or a job is wrong (all problems are listed), 3
    the server cannot be reached, 130 interrupted.
    """
    of_job = {
        "queue": queue,
        "cpu": cpu,
        "memory": memory,
        "gpu": gpu,
        "tasks": tasks,
        "expectedRuntime": expected,
        "job": job,
        "priority": priority,
        "priorityClass": priority_class,
    }
    said = {name: value for name, value in of_job.items() if value is not None}
    if file is not None:
        from muster.cli.whatif import run

        asked = {"events": event or [], "submits": submit or []}
        sys.exit(run(file, output.value, at=at, knows_runtimes=real_runtimes, only_servers=[*said], **asked))
    from muster.cli.remote.trying import Question, ask_server

    question = Question(at=at, events=event or [], submits=submit or [], said=said, knows_runtimes=real_runtimes)
    sys.exit(ask_server(site.printing(Format(output.value)), question))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (replay, whatif):
        app.command()(command)
