"""What `muster pools --kube` does: read the status of the Pools of a Kubernetes cluster, which its scheduler keeps."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, NamedTuple

from rich.console import Console

from muster.cli.ending import BAD_INPUT, ending_well
from muster.cli.remote.asking import FAILED, UNREACHABLE, as_body, print_plain
from muster.cli.remote.where import Format, Where
from muster.kubernetes.access import access_here
from muster.kubernetes.client import Client
from muster.kubernetes.errors import KubernetesError, NotFound, Unreachable
from muster.kubernetes.pools import POOLS, Pool
from muster.model.errors import InvalidValue
from muster.model.pools import DEFAULT_NAME
from muster.sim.pool_table import show_pools

PATIENCE_S = 10.0  # somebody sits in front of it
WIDE = 200  # columns, where nobody looks: nothing is folded


class Cluster(NamedTuple):
    """Which one, as the options say."""

    kubeconfig: str
    context: str


def run(cluster: Cluster, where: Where) -> int:
    """Print the pools of the cluster; the exit code."""

    def answer() -> int:
        try:
            _must_not_name_a_server(where)
            found = asyncio.run(_pools(cluster))
        except InvalidValue as err:
            return _told(str(err), BAD_INPUT)
        except Unreachable as err:
            return _told(str(err), UNREACHABLE)
        except NotFound:
            return _told("the cluster has no Pools: kubectl apply -f deploy/kubernetes/pools.yaml brings them", FAILED)
        except KubernetesError as err:
            return _told(str(err), FAILED)
        _print(found, where)
        return 0

    return ending_well(answer)


def _must_not_name_a_server(where: Where) -> None:
    for option, given in (
        ("--server", where.server),
        ("--token-file", where.token_file),
        ("--context", where.context),
    ):
        if given:
            raise InvalidValue(given, "must not be given with --kube: a cluster is asked, and no server", option)


async def _pools(cluster: Cluster) -> list[Pool]:
    """The default pool first, then by name."""
    async with Client(access_here(cluster.kubeconfig, cluster.context), request_s=PATIENCE_S) as client:
        found = await client.list(POOLS)
    return sorted(found, key=lambda pool: (pool.metadata.name != DEFAULT_NAME, pool.metadata.name))


def _print(pools: list[Pool], where: Where) -> None:
    told: dict[str, Any] = {pool.metadata.name: pool.status for pool in pools}
    if where.output in (Format.JSON, Format.YAML):
        print_plain(where, as_body([{"name": name, **status} for name, status in told.items()]))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    console.print(show_pools(told))
    uncounted = [name for name, status in told.items() if "resources" not in status]
    if uncounted or not told:
        which = f"of {', '.join(uncounted)}" if uncounted else "yet"
        print(f"nothing is counted {which}: does `muster kube-scheduler` run there?", file=sys.stderr)


def _told(words: str, code: int) -> int:
    print(words, file=sys.stderr)
    return code
