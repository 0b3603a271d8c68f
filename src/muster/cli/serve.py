"""`muster server` and `muster agent`: the processes that stay."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli.ending import BAD_INPUT

if TYPE_CHECKING:
    from muster.agent.calling import Caller
    from muster.server.configuration import Configuration
    from muster.server.limits import Limits

FAILED = 1

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATIONS = {"keep_ms": "--keep", "silent_ms": "--silent-after", "lost_ms": "--lost-after"}
_NODES = re.compile(r"(?:(\d+)x)?(.+)")


def state_folder() -> Path:
    """Where this user's server keeps its database and its first token."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "muster"


def run_server(*, config: str | None, limits: Mapping[str, int | str | None], **said: str | int | None) -> int:
    """Run until interrupted; the exit code. What is said here wins over the configuration."""
    from muster.model.errors import MusterError
    from muster.server.configuration import Configuration, read_configuration

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        read = read_configuration(config) if config else Configuration()
        changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        read = replace(read, **changes, limits=_limited(read.limits, limits))
    except (MusterError, _Wrong) as err:
        print(f"{config}: {err}" if isinstance(err, MusterError) else err, file=sys.stderr)
        return BAD_INPUT
    from muster.server.serving import serve  # what is wrong is said at once, before anything heavy is loaded

    try:
        serve(_at_home(read))
    except (MusterError, OSError) as err:
        print(f"the server cannot run: {err}", file=sys.stderr)
        return FAILED
    return 0


class _Wrong(Exception):
    """An option that cannot be used, and why."""


def _limited(limits: Limits, said: Mapping[str, int | str | None]) -> Limits:
    """The limits, with those changed that are given as options."""
    changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    for name, value in changes.items():
        if isinstance(value, str):
            changes[name] = _duration_ms(_DURATIONS[name], value)
    changed = replace(limits, **changes)
    if changed.lost_ms < changed.silent_ms:
        raise _Wrong(
            f"--lost-after {changed.lost_ms / 1000:g}s: not allowed: at least --silent-after, "
            f"which is {changed.silent_ms / 1000:g}s"
        )
    return changed


def _duration_ms(option: str, text: str) -> int:
    read = _DURATION.fullmatch(text)
    if read is None:
        raise _Wrong(f"{option} {text}: not a duration such as 7d, 12h or 60s")
    return int(float(read[1]) * _SECONDS[read[2]] * 1000)


def _at_home(configuration: Configuration) -> Configuration:
    """With this user's own files where none are named."""
    folder = state_folder()
    if not configuration.database:
        folder.mkdir(parents=True, exist_ok=True)
    return replace(
        configuration,
        database=configuration.database or f"sqlite:///{folder / 'muster.db'}",
        token_file=configuration.token_file or str(folder / "token"),
    )


def run_agent(
    kind: str,
    *,
    cluster: str,
    nodes: str,
    seconds: float,
    ledger: str | None,
    server: str,
    token_file: str,
    context: str,
) -> int:
    """Run until interrupted; the exit code. Server and token are those that other commands would use."""
    from muster.agent.calling import Caller, Refused
    from muster.agent.simulated import Ledger, Simulated, made_up
    from muster.model.errors import InvalidValue
    from muster.model.resources import GPU, parse_amount
    from muster.sdk.contexts import ContextsError, Said, meant

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    read = _NODES.fullmatch(nodes)
    count, spec = (int(read[1] or 1), read[2]) if read else (0, "")
    amounts = dict(part.split("=", 1) for part in spec.split(",") if "=" in part)
    try:
        if not amounts or count < 1 or spec.count(",") + 1 != len(amounts):
            raise InvalidValue(nodes, "nodes such as 4xcpu=8,memory=32Gi")
        for name, amount in amounts.items():
            parse_amount(GPU if name == "gpu" else name, amount)
        to = meant(Said(server=server, token_file=token_file, context=context))
    except (InvalidValue, ContextsError) as err:
        print(f"--nodes {nodes}: {err}" if getattr(err, "value", None) == nodes else str(err), file=sys.stderr)
        return BAD_INPUT
    machines = Simulated(
        made_up(count, amounts, cluster), seconds=seconds, ledger=Ledger(Path(ledger) if ledger else None)
    )
    machines.caller = caller = Caller(to.server, to.token, cluster, machines)
    try:
        asyncio.run(_until_told(caller, f"{kind} agent of {cluster} is connected to {to.server}"))
    except Refused as err:
        print(f"the server refuses this agent: {err}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
    return 0


async def _until_told(caller: Caller, greeting: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await caller.run(lambda: print(greeting, flush=True))
