"""Where to read more about each command: the last line of its help."""

from __future__ import annotations

import typer

PAGES = {
    "simulate": "docs/scenarios.md, docs/traces.md, docs/report.md",
    "replay": "docs/replay.md",
    "whatif": "docs/whatif.md",
    "specialise": "docs/concepts/races.md",
    "schema": "docs/job-file.md",
    "server": "docs/server.md",
    "up": "docs/local.md",
    "agent": "docs/server.md, docs/local.md",
    "submit": "docs/job-file.md",
    "why": "docs/explain.md, docs/reasons.md",
    "logs": "docs/local.md",
    "pools": "docs/concepts/pools.md",
    "cordon": "docs/server.md",
    "drain": "docs/server.md",
    "uncordon": "docs/server.md",
    "turns": "docs/server.md",
    "turn": "docs/reasons.md",
    "audit": "docs/server.md",
    "usage": "docs/server.md",
    "db": "docs/store.md",
    "dev-cluster": "docs/kubernetes.md",
    "kube-scheduler": "docs/kubernetes.md",
    "pool": "docs/concepts/pools.md",
}
"""By command, or by the group that a command is in; all others are on the page of the command line."""

ELSE = "docs/cli.md"


def say_where_to_read_more(app: typer.Typer) -> None:
    """Give every command its last line."""
    _say(app, None)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _say(group.typer_instance, group.name or group.typer_instance.info.name)


def _say(app: typer.Typer, group: str | None) -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        name = group or command.name or command.callback.__name__.replace("_", "-")
        command.epilog = f"More: {PAGES.get(name, ELSE)}"
