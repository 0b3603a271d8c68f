"""`muster`: the command line. Commands import what they need when they run, so that `--help` is instant."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli import db, devcluster, kubescheduler, pages, questions, remote
from muster.cli.declaring import evaluate_annotations, without_options
from muster.cli.grouped import grouped
from muster.cli.remote.where import Site
from muster.sim.traces.choices import Expected, Format, QueueBy

app = typer.Typer(
    name="muster",
    help="One batch scheduler for many clusters: fair shares, gangs, backfill, and an answer to 'why?'.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(db.app, name="db")
app.add_typer(devcluster.app, name="dev-cluster")


class Output(StrEnum):
    """How to print a simulation."""

    TABLE = "table"
    JSONL = "jsonl"
    SUMMARY = "summary"


class Estimates(StrEnum):
    """Which waiting jobs get an estimated start in the log."""

    AUTO = "auto"
    ALL = "all"
    NONE = "none"


@app.callback()
def about() -> None:
    """One batch scheduler for many clusters: fair shares, gangs, backfill, and an answer to 'why?'."""


@app.command()
def simulate(
    file: Annotated[
        str | None,
        typer.Argument(
            help="A scenario file (docs/scenarios.md); /dev/stdin works too. With --trace: config, queues and users."
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="A table for people, one JSON line per event, or one JSON object.")
    ] = Output.TABLE,
    estimates: Annotated[
        Estimates,
        typer.Option(help="Forecast starts for -o jsonl: auto in scenarios of up to 200 jobs, all (slow), or none."),
    ] = Estimates.AUTO,
    check: Annotated[
        bool, typer.Option("--check", help="Verify every plan with the independent checker; exit 1 on a violation.")
    ] = False,
    every_turn: Annotated[
        bool, typer.Option("--every-turn", help="Run turns that cannot decide anything too; the output is the same.")
    ] = False,
    reasons: Annotated[
        bool,
        typer.Option(
            "--reasons/--no-reasons", help="Tell why jobs wait. Without, the same is decided, and told sooner."
        ),
    ] = True,
    record: Annotated[
        str | None, typer.Option(metavar="RECORD", help="Write every turn to this file, for `muster replay`.")
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(metavar="JOB[@TIME]", help="Say why this job waits then (or when it last did), with the numbers."),
    ] = None,
    pools: Annotated[
        bool, typer.Option("--pools", help="Show what each pool has, uses, lends and borrows at the end.")
    ] = False,
    report: Annotated[
        str | None, typer.Option(metavar="HTML", help="Write a report with plots into this one file (docs/report.md).")
    ] = None,
    parquet: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write jobs, queues and fleet over time as Parquet files into this folder."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Take the jobs from a public trace, plain or gzip (docs/traces.md)."),
    ] = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="What the trace is written in; swf unless said.")
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="MACHINE",
            help="The trace's machine. 64x8 is 64 nodes of 8, 8192 one big node; openb: its file of nodes; "
            "gavel: v100=8,p100=16,k80=24.",
        ),
    ] = None,
    measured: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="pollux: the folder of measured step times; gavel: the file of measured throughputs."
        ),
    ] = None,
    queue_by: Annotated[
        QueueBy | None, typer.Option(help="What makes a queue of an SWF trace; one for all unless said.")
    ] = None,
    expected: Annotated[
        Expected | None,
        typer.Option(help="What the scheduler is told about run times of an SWF trace; requested unless said."),
    ] = None,
    most_jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Only the first so many of a trace.")] = None,
    repeat_to: Annotated[int | None, typer.Option(min=1, help="Repeat the trace until there are so many jobs.")] = None,
) -> None:
    """Run a scenario through the real engine with a simulated clock.

    Example: muster simulate examples/scenarios/backfill.yaml -o jsonl

    Example: muster simulate examples/scenarios/why.yaml --why train@20m

    Example: muster simulate examples/scenarios/demo.yaml --report demo.html --parquet demo/

    Example: muster simulate --trace RICC-2010-2.swf.gz --nodes 8192 --queue-by user -o summary

    Example: muster simulate --trace openb_pod_list_default.csv --format openb --nodes openb_node_list_gpu_node.csv

    Exit codes: 0 done, 1 --check found a violation, 2 the file is wrong (all problems are listed) or a result cannot be
    written, 130 interrupted (then no result is written).
    """
    from muster.cli.simulate import Asked, run

    how = Asked(
        estimates=estimates.value,
        check=check,
        every_turn=every_turn,
        reasons=reasons,
        record=record,
        why=why,
        pools=pools,
        report=report,
        parquet=parquet,
        trace={
            "path": trace,
            "format": format_,
            "nodes": nodes,
            "measured": measured,
            "queue_by": queue_by,
            "expected": expected,
            "most_jobs": most_jobs,
            "repeat_to": repeat_to,
        },
    )
    sys.exit(run(file, output.value, how))


questions.declare(app)


class Document(StrEnum):
    """How to print a document."""

    YAML = "yaml"
    JSON = "json"


@app.command()
def specialise(
    file: Annotated[str, typer.Argument(help="A job file with protocolVersion: super-2 (docs/concepts/races.md).")],
    cluster: Annotated[str, typer.Option("--cluster", help="The alias of the cluster, as the file writes it.")],
    output: Annotated[
        Document, typer.Option("-o", "--output", help="YAML as OpenPAI takes it, or JSON.")
    ] = Document.YAML,
) -> None:
    """Print the job that one cluster gets of a job file for several OpenPAI clusters.

    Example: muster specialise examples/openpai/train.yaml --cluster v100

    Exit codes: 0 done, 2 the file or the alias is wrong (all problems are listed); then no cluster gets anything.
    """
    from muster.cli.specialise import run

    sys.exit(run(file, cluster, output.value))


class Described(StrEnum):
    """What there is a schema of."""

    JOB = "job"


@app.command()
def schema(what: Annotated[Described, typer.Argument(help="job: the job file (docs/job-file.md).")]) -> None:
    """Print the JSON Schema of a kind of file, for editors and for programs that write it.

    Example: muster schema job > job.schema.json

    Exit codes: 0 printed, 2 there is no such kind.
    """
    from muster.cli.schema import run

    sys.exit(run(what.value))


@app.command()
def server(
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Settings and policy in YAML (docs/server.md); options here win over it."),
    ] = None,
    db: Annotated[
        str | None, typer.Option(help="sqlite:///PATH or postgresql://…  [default: a file of this user]", metavar="URL")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.  [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on; 0: any that is free.  [default: 8642]", min=0, max=65535)
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where the first admin's token is put.  [default: of this user]")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Keep the last turns here, for `muster replay` (docs/replay.md)."),
    ] = None,
    most_queued: Annotated[
        int | None, typer.Option(help="The most jobs a queue takes before it answers 429.  [default: 1000000]", min=1)
    ] = None,
    most_requests: Annotated[
        int | None,
        typer.Option(help="The most requests a second with one token, else 429; 0: any.  [default: 1000]", min=0),
    ] = None,
    most_strangers: Annotated[
        int | None,
        typer.Option(help="The most requests a second from one address without a known token.  [default: 20]", min=0),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="For how long what is over is kept: 7d, 12h, 60s.  [default: 7d]")
    ] = None,
    silent_after: Annotated[
        str | None, typer.Option(help="An agent that says nothing for so long gets nothing new.  [default: 30s]")
    ] = None,
    lost_after: Annotated[
        str | None,
        typer.Option(help="After so long jobs of a silent agent with `onLost: rerun` run again.  [default: 15m]"),
    ] = None,
) -> None:
    """Run the server: people submit, agents call in, turns decide.

    Example: muster server --db sqlite:///muster.db --port 8642

    Example: muster server --config server.yaml --port 0

    It prints `listening on URL` once it answers. Exit codes: 0 ended by Ctrl-C or TERM, 1 the store or the port cannot
    be used, 2 bad input.
    """
    from muster.cli.serve import run_server

    limits = {
        "most_queued": most_queued,
        "most_requests": most_requests,
        "most_strangers": most_strangers,
        "keep_ms": keep,
        "silent_ms": silent_after,
        "lost_ms": lost_after,
    }
    said = {"database": db, "host": host, "port": port, "token_file": token_file, "record": record}
    sys.exit(run_server(config=config, limits=limits, **said))


@app.command()
def up(
    data: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where everything is kept.  [default: $XDG_DATA_HOME/muster]"),
    ] = None,
    port: Annotated[int, typer.Option(help="The port to listen on; 0: any that is free.", min=0, max=65535)] = 8642,
    nodes: Annotated[int, typer.Option(help="Cut this machine into so many nodes.", min=1, max=1024)] = 1,
    keep: Annotated[str, typer.Option(help="For how long what is over is kept: 7d, 12h, 60s.")] = "7d",
    demo: Annotated[bool, typer.Option("--demo", help="Run a small mixed workload, and say what happened.")] = False,
) -> None:
    """Start everything on this machine: a server, its database and an agent that runs jobs here.

    Example: muster up

    Then, elsewhere: muster submit -- echo hello

    A queue `default` and a context `local` are made, so that other commands find it. Ctrl-C ends it: tasks that run are
    told to end (TERM, and KILL after their grace or a second Ctrl-C), and their jobs start again with the next
    `muster up`, which finds everything else as it was.

    Exit codes: 0 ended by Ctrl-C or TERM, 1 the store, the port or the folder cannot be used, 2 bad input.
    """
    from muster.cli.up import run

    sys.exit(run(data=data, port=port, nodes=nodes, keep=keep, demo=demo))


class Kind(StrEnum):
    """What an agent runs jobs on."""

    SIMULATED = "simulated"
    LOCAL = "local"


class OnEnd(StrEnum):
    """What becomes of tasks when their agent is told to end."""

    LEAVE = "leave"
    STOP = "stop"


@app.command()
@grouped
def agent(
    site: Site,
    cluster: Annotated[str, typer.Option(help="The name of the cluster it speaks for.")] = "local",
    kind: Annotated[
        Kind,
        typer.Option(help="local: processes on this machine; simulated: no machines, tasks take their time and end."),
    ] = Kind.SIMULATED,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="NODES",
            help="simulated: 4xcpu=8,memory=32Gi,gpu=1 is four such nodes; local: cut this machine into so many.",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="simulated: how long a job takes that does not say `sleep N`.", min=0)
    ] = 1.0,
    ledger: Annotated[
        str | None, typer.Option(metavar="FILE", help="simulated: where attempts are written down before they begin.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="local: where attempts and their output are.  [default: of this user]"),
    ] = None,
    keep: Annotated[str, typer.Option(help="local: for how long output is kept: 7d, 12h, 60s.")] = "7d",
    on_end: Annotated[
        OnEnd,
        typer.Option(help="local: when it ends, leave tasks running for the next agent in this folder, or stop them."),
    ] = OnEnd.LEAVE,
    parent: Annotated[int | None, typer.Option(hidden=True, help="local: be killed with this process.")] = None,
) -> None:
    """Run an agent: it calls the server, starts what it is told to and tells what became of it.

    Example: muster agent --cluster desk --kind local

    Example: muster agent --cluster lab --kind simulated --nodes 10xcpu=32,memory=128Gi --seconds 5

    Exit codes: 0 ended by Ctrl-C or TERM, 1 the server refuses it or its folder is in use, 2 bad input.
    """
    from muster.cli.agents import AgentOf, run_local, run_simulated

    told = AgentOf(kind=kind.value, cluster=cluster, **site._asdict())
    if kind is Kind.LOCAL:
        stops = on_end is OnEnd.STOP
        sys.exit(run_local(told, nodes=nodes, folder=data, keep=keep, stops_tasks=stops, parent=parent))
    sys.exit(run_simulated(told, nodes=nodes or "1xcpu=8,memory=32Gi", seconds=seconds, ledger=ledger))


app.command(name="kube-scheduler")(kubescheduler.kube_scheduler)
remote.declare(app)


@app.command()
def version() -> None:
    """Print Muster's version.

    Example: muster version

    Exit codes: 0 always.
    """
    from muster import __version__

    typer.echo(__version__)


pages.say_where_to_read_more(app)


def main() -> None:
    """The console script."""
    if sys.argv[1:] == ["--help"]:
        without_options(app)
    else:
        evaluate_annotations(app)
    app()
