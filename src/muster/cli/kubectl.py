"""`kubectl muster`: what Muster says of a pod, as a plugin that kubectl finds on the PATH by the name of its script."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.devcluster import must_have_extra

app = typer.Typer(
    name="kubectl muster",
    help="What Muster says of pods of a Kubernetes cluster (docs/kubernetes.md).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Output(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


@app.callback()
def about() -> None:
    """What Muster says of pods of a Kubernetes cluster (docs/kubernetes.md)."""


@app.command()
def why(
    pod: Annotated[str, typer.Argument(help="The name of a pod; pod/NAME works too.")],
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Where it is.  [default: as the kubeconfig says]")
    ] = "",
    output: Annotated[
        Output, typer.Option("-o", "--output", help="Words, words and the facts behind them, or one JSON object.")
    ] = Output.TEXT,
    kubeconfig: Annotated[str, typer.Option(metavar="FILE", help="How to reach the cluster, as for kubectl.")] = "",
    context: Annotated[str, typer.Option(metavar="NAME", help="Which context of the kubeconfig.")] = "",
) -> None:
    """Say why a pod waits: what its condition says, and worked out anew the reason, the numbers and what would help.

    Nothing is changed. Everything that decides is listed once, so you need the right to list pods and nodes of the
    whole cluster; without it you hear what the condition says.

    Example: kubectl muster why train-0 -n vision

    Exit codes: 0 answered, 1 there is no such pod or the cluster refuses, 2 bad input, or Muster was installed
    without its extra, 130 interrupted.
    """
    must_have_extra()
    from muster.cli.kubectl_why import Asked, run

    asked = Asked(pod=pod, namespace=namespace, output=output.value, kubeconfig=kubeconfig, context=context)
    sys.exit(run(asked))


def main() -> None:
    """The console script."""
    app(prog_name="kubectl muster")
