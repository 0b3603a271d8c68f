"""`muster kube-scheduler`: schedule the pods of a Kubernetes cluster. Imports what it needs when it runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.devcluster import must_have_extra


class Evictions(StrEnum):
    """Whether pods may be evicted for others."""

    ON = "on"
    OFF = "off"


def kube_scheduler(
    kubeconfig: Annotated[
        str,
        typer.Option(metavar="FILE", help="How to reach the cluster.  [default: as kubectl, or the pod it runs in]"),
    ] = "",
    kube_context: Annotated[str, typer.Option(metavar="NAME", help="Which context of the kubeconfig.")] = "",
    lease: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="Of several schedulers with one lease, one schedules.")
    ] = "kube-system/muster-kube-scheduler",
    lease_duration: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Another takes over from one that was silent for so long (3 to 3600)."),
    ] = 15,
    identity: Annotated[
        str, typer.Option(metavar="NAME", help="Its name in the lease, unlike all others.  [default: host and process]")
    ] = "",
    preemption: Annotated[
        Evictions,
        typer.Option(help="Whether pods may be evicted for more urgent ones, and from room that a pool lent."),
    ] = Evictions.ON,
) -> None:
    """Schedule pods of a Kubernetes cluster whose schedulerName is muster, ai-scheduler or kar-scheduler.

    Gangs start whole or not at all: pods with one PodGroup, or with one controller that has a SchedulingSpec. Pods of
    other schedulers are counted and never touched. Why a pod waits is in its condition PodScheduled and its Events.

    Where the cluster has Pools, nodes are divided among them: pods run on those of their pool first, borrow what others
    share, and give it back when it is needed. The status of a Pool says how it stands (`muster pools --kube`).

    Ctrl-C or TERM ends it: binds that are under way are finished and the lease is given back. It keeps nothing: another
    goes on from what the cluster holds.

    Example: muster kube-scheduler --kubeconfig ~/.kube/config

    Exit codes: 0 ended by Ctrl-C or TERM, 1 it lost the lease or the cluster refuses it, 2 bad input, or Muster was
    installed without its extra.
    """
    must_have_extra()
    from muster.cli.kubescheduler_run import Asked, run

    asked = Asked(
        kubeconfig=kubeconfig,
        context=kube_context,
        lease=lease,
        lease_s=lease_duration,
        identity=identity,
        preempts=preemption is Evictions.ON,
    )
    sys.exit(run(asked))
