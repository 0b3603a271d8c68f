"""`muster dev-cluster`: a Kubernetes cluster on this machine, to try things on. Commands import when they run."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from muster.cli.ending import BAD_INPUT

app = typer.Typer(help="A Kubernetes cluster on this machine, with hollow nodes.", no_args_is_help=True)


@app.command()
def up(
    nodes: Annotated[int, typer.Option(min=0, max=20_000, help="How many nodes: node-0, node-1, …")] = 10,
    cpu: Annotated[str, typer.Option(metavar="AMOUNT", help="Cores of each node.")] = "32",
    memory: Annotated[str, typer.Option(metavar="AMOUNT", help="Memory of each node.")] = "256Gi",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each node (nvidia.com/gpu).")] = 0,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label that all nodes have; repeatable.")
    ] = None,
    run_for: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long containers run whose command is no `sleep`: 30s, 10m. Until deleted, unless said.",
        ),
    ] = None,
    exit_code: Annotated[int, typer.Option(min=0, max=255, help="How they exit then.")] = 0,
    start_takes: Annotated[str, typer.Option(metavar="TIME", help="From bound to running.")] = "0s",
    stop_takes: Annotated[
        str, typer.Option(metavar="TIME", help="How long containers take to end when told to.")
    ] = "0s",
    scheduler: Annotated[
        bool, typer.Option("--scheduler/--no-scheduler", help="Also run Kubernetes' own scheduler.")
    ] = False,
    controllers: Annotated[
        bool, typer.Option("--controllers/--no-controllers", help="Run the controllers of jobs, deployments, nodes, …")
    ] = True,
    feature_gates: Annotated[str, typer.Option(metavar="GATES", help="Such as GenericWorkload=true.")] = "",
    runtime_config: Annotated[
        str, typer.Option(metavar="KINDS", help="Kinds that are off, such as api/alpha=true.")
    ] = "",
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A new folder for everything; one that goes at the end, unless said."),
    ] = None,
    parent: Annotated[int | None, typer.Option(hidden=True, help="End with this process.")] = None,
) -> None:
    """Start a cluster and print its kubeconfig; Ctrl-C ends it, and nothing is left.

    etcd, the API server and the controllers are real. Nodes are hollow: pods on them run for as long as their command
    says (`sleep 20`, `exit 1`), get their grace when they are deleted, and use nothing of this machine. More about it:
    docs/kubernetes.md.

    Example: muster dev-cluster up --nodes 50 --gpus 8

    Exit codes: 0 told to end, 1 it cannot run here, or one of its programs ended, 2 an option is wrong, or Muster
    was installed without its extra.
    """
    must_have_extra()
    from muster.cli.devcluster_up import Asked, run

    asked = Asked(
        nodes=nodes,
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        labels=label or [],
        run_for=run_for,
        exit_code=exit_code,
        start_takes=start_takes,
        stop_takes=stop_takes,
        has_scheduler=scheduler,
        has_controllers=controllers,
        feature_gates=feature_gates,
        runtime_config=runtime_config,
        data=data,
        parent=parent,
    )
    sys.exit(run(asked))


@app.command()
def build() -> None:
    """Build the programs of Kubernetes, once; `up` does so by itself.

    They are kept in the user's cache. KUBEBUILDER_ASSETS names a folder with programs that are used instead.

    Example: muster dev-cluster build

    Exit codes: 0 they are there (their folders are printed), 1 they cannot be built (the message says what is missing),
    2 Muster was installed without its extra, 130 interrupted.
    """
    must_have_extra()
    from muster.cli.devcluster_up import run_build

    sys.exit(run_build())


def must_have_extra() -> None:
    """End, saying what to install, if Muster was installed without what Kubernetes needs."""
    missing = next((name for name in ("aiohttp", "cryptography", "uvloop") if find_spec(name) is None), None)
    if missing is not None:
        print(f"{missing} is not installed: pip install 'muster-scheduler[kubernetes]'", file=sys.stderr)
        sys.exit(BAD_INPUT)
