"""`muster clusters`, `pools`, `pool set|remove`, `nodes`, `cordon`, `drain`, `uncordon`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.devcluster import must_have_extra
from muster.cli.grouped import grouped
from muster.cli.remote.completing import complete_clusters, complete_nodes, complete_pools
from muster.cli.remote.where import Site, Where

pool_group = typer.Typer(name="pool", help="Make and remove pools.", no_args_is_help=True, rich_markup_mode=None)

NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The name of a node.", autocompletion=complete_nodes)]
PoolName = Annotated[str, typer.Argument(metavar="NAME", help="The pool.", autocompletion=complete_pools)]


@grouped
def clusters(where: Where) -> None:
    """List clusters, and whether their agents are heard of.

    Example: muster clusters

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_clusters
    from muster.sdk import asking

    sys.exit(asked(where, asking.clusters, show_clusters))


@grouped
def pools(
    where: Where,
    kube: Annotated[
        bool, typer.Option("--kube", help="Those of a Kubernetes cluster, found as kubectl does; no server is asked.")
    ] = False,
    kubeconfig: Annotated[str, typer.Option(metavar="FILE", help="How to reach that cluster; as --kube.")] = "",
    kube_context: Annotated[str, typer.Option(metavar="NAME", help="Which context of the kubeconfig; as --kube.")] = "",
) -> None:
    """List pools: their nodes, and what is allowed there; of a Kubernetes cluster, what each has, uses and lends.

    Example: muster pools

    Example: muster pools --kube

    Example: muster pools --kubeconfig ~/.kube/config -o json

    Exit codes: 0 fine, 1 the server or the cluster refused, 2 bad input, 3 it cannot be reached, 130 interrupted.
    """
    if kube or kubeconfig or kube_context:
        must_have_extra()
        from muster.cli.kubepools import Cluster, run

        sys.exit(run(Cluster(kubeconfig, kube_context), where))
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_pools
    from muster.sdk import asking

    sys.exit(asked(where, asking.pools, show_pools))


@pool_group.command("set")
@grouped
def set_pool(
    where: Where,
    name: PoolName,
    selector: Annotated[
        list[str] | None,
        typer.Option(
            "--node-selector",
            metavar="LABEL=VALUE",
            help="Nodes with this label; repeatable. The pool default takes none.",
        ),
    ] = None,
    sharing: Annotated[
        bool, typer.Option("--sharing/--no-sharing", help="Whether others may borrow its nodes.")
    ] = True,
    borrowing: Annotated[
        bool, typer.Option("--borrowing/--no-borrowing", help="Whether its jobs may borrow elsewhere.")
    ] = True,
    preemption: Annotated[
        bool, typer.Option("--preemption/--no-preemption", help="Whether jobs there may be evicted.")
    ] = True,
    borrow_from: Annotated[
        list[str] | None,
        typer.Option(
            "--borrow-from", metavar="POOL", help="Only from this pool; repeatable.", autocompletion=complete_pools
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="NAME=AMOUNT", help="So much of what is idle is never lent, such as cpu=8; repeatable."
        ),
    ] = None,
) -> None:
    """Make a pool, or replace all settings of one (docs/concepts/pools.md). For admins.

    Example: muster pool set vision --node-selector team=vision --no-sharing

    Example: muster pool set default --no-borrowing

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.changing import put_pool

    allowed = {"disable_sharing": not sharing, "disable_borrowing": not borrowing, "disable_preemption": not preemption}
    sys.exit(put_pool(where, name, selector or [], allowed, borrow_from or [], keep or []))


@pool_group.command("remove")
@grouped
def remove_pool(site: Site, name: PoolName) -> None:
    """Make an end of a pool: its nodes and waiting jobs go where they belong without it. For admins.

    Example: muster pool remove vision

    Exit codes: 0 fine, 1 there is no such pool or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_nothing
    from muster.sdk import asking

    where = site.printing()
    sys.exit(asked(where, lambda: asking.remove_pool(name), show_nothing))


@grouped
def nodes(
    where: Where,
    cluster: Annotated[
        str, typer.Option("--cluster", help="Only of this cluster.", autocompletion=complete_clusters)
    ] = "",
) -> None:
    """List nodes: what they have, and what is in use.

    Example: muster nodes --cluster lab

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_nodes
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.nodes(cluster=cluster), show_nodes))


@grouped
def cordon(where: Where, node: NodeName) -> None:
    """Let nothing new start on a node; what runs there goes on.

    Example: muster cordon lab-3

    Exit codes: 0 fine, 1 there is no such node or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_node
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.cordon(node), show_node))


@grouped
def drain(
    where: Where,
    node: NodeName,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="Let what runs there go on for so long first: 5m, 90s.")
    ] = "0s",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the node is empty, and say who left.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="With --wait: how often to look.", min=0.1, max=3600)
    ] = 1.0,
) -> None:
    """Empty a node: nothing new starts there, and what runs there leaves. For admins.

    A job that has its `min` elsewhere goes on without its tasks there. Any other is stopped whole, as when it is
    preempted (TERM, and KILL after its own grace), and starts elsewhere; that costs it no retry. The node stays closed
    until `muster uncordon`, whoever restarts. Drain it again with another --grace to hurry, or to give more time.

    Example: muster drain lab-3

    Example: muster drain lab-3 --grace 30m --wait && ssh lab-3 sudo reboot

    Exit codes: 0 fine (with --wait: the node is empty), 1 there is no such node, somebody uncordoned it, or the server
    refused, 2 bad input, 3 the server cannot be reached, 130 interrupted (the drain goes on).
    """
    from muster.cli.remote.draining import drain_node

    sys.exit(drain_node(where, node, grace, every_s=every, waits=wait))


@grouped
def uncordon(where: Where, node: NodeName) -> None:
    """Let things start on a node again; whatever was to leave it may stay.

    Example: muster uncordon lab-3

    Exit codes: 0 fine, 1 there is no such node or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_node
    from muster.sdk import asking

    sys.exit(asked(where, lambda: asking.uncordon(node), show_node))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (clusters, pools, nodes, cordon, drain, uncordon):
        app.command()(command)
    app.add_typer(pool_group)
