"""Names for the shell to complete, as far as the server tells them at once; none otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer

_TIMEOUT_S = 1.0
_MOST = 100


def complete_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The latest jobs whose ids begin like that."""
    from muster.cli.remote.asking import tried
    from muster.sdk import asking

    page = tried(_said(ctx), lambda: asking.jobs(text=incomplete, limit=_MOST), _TIMEOUT_S)
    return [] if page is None else _beginning((job.id for job in page.jobs), incomplete)


def complete_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """The queues whose names begin like that."""
    from muster.sdk import asking

    return _named(ctx, asking.queues, incomplete)


def complete_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """The nodes whose names begin like that."""
    from muster.sdk import asking

    return _named(ctx, asking.nodes, incomplete)


def complete_clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """The clusters whose names begin like that."""
    from muster.sdk import asking

    return _named(ctx, asking.clusters, incomplete)


def complete_pools(ctx: typer.Context, incomplete: str) -> list[str]:
    """The pools whose names begin like that."""
    from muster.sdk import asking

    return _named(ctx, asking.pools, incomplete)


def complete_users(ctx: typer.Context, incomplete: str) -> list[str]:
    """The users with a quota whose names begin like that."""
    from muster.sdk import asking

    return _named(ctx, asking.users, incomplete)


def _named(ctx: typer.Context, ask: Callable[[], Any], incomplete: str) -> list[str]:
    """The names of what a question is answered with."""
    from muster.cli.remote.asking import tried

    found = tried(_said(ctx), ask, _TIMEOUT_S)
    return [] if found is None else _beginning((it.name for it in found), incomplete)


def _said(ctx: typer.Context) -> dict[str, str]:
    """Which server the command line names, as far as it is written."""
    return {name: ctx.params.get(name) or "" for name in ("server", "token_file", "context")}


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
