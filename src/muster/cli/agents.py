"""`muster agent`: a process that stays where jobs run."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli.ending import BAD_INPUT
from muster.cli.serve import FAILED, Wrong, duration_ms, log_to_stderr, state_folder

if TYPE_CHECKING:
    from muster.agent.calling import Caller, Machines

    CallerOf = Callable[[Machines], Caller]
    Life = Callable[[CallerOf, str], Coroutine[Any, Any, None]]

MOST_PARTS = 1024  # nodes that a machine can be cut into

_NODES = re.compile(r"(?:(\d+)x)?(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOf:
    """What every agent is told: for which cluster it speaks, and to which server, as other commands are told it."""

    kind: str
    cluster: str
    server: str
    token_file: str
    context: str


def run_simulated(agent: AgentOf, *, nodes: str, seconds: float, ledger: str | None) -> int:
    """Run an agent without machines until interrupted; the exit code."""
    from muster.agent.simulated import Ledger, Simulated, made_up
    from muster.model.errors import InvalidValue
    from muster.model.resources import GPU, parse_amount

    read = _NODES.fullmatch(nodes)
    count, spec = (int(read[1] or 1), read[2]) if read else (0, "")
    amounts = dict(part.split("=", 1) for part in spec.split(",") if "=" in part)
    try:
        if not amounts or count < 1 or spec.count(",") + 1 != len(amounts):
            raise InvalidValue(nodes, "nodes such as 4xcpu=8,memory=32Gi")
        for name, amount in amounts.items():
            parse_amount(GPU if name == "gpu" else name, amount)
    except InvalidValue as err:
        print(f"--nodes {nodes}: {err}", file=sys.stderr)
        return BAD_INPUT

    async def life(caller_of: CallerOf, greeting: str) -> None:
        written = Ledger(Path(ledger) if ledger else None)
        machines = Simulated(made_up(count, amounts, agent.cluster), seconds=seconds, ledger=written)
        await _until_told(caller_of(machines), greeting)

    return run_agent(agent, life)


def run_local(
    agent: AgentOf, *, nodes: str | None, folder: str | None, keep: str, stops_tasks: bool, parent: int | None
) -> int:
    """Run the agent of this machine until interrupted; the exit code."""
    try:
        keep_s = duration_ms("--keep", keep) / 1000
    except Wrong as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    if nodes is not None and not (nodes.isascii() and nodes.isdigit() and 1 <= int(nodes) <= MOST_PARTS):
        print(f"--nodes {nodes}: into how many nodes this machine is cut: 1 to {MOST_PARTS}", file=sys.stderr)
        return BAD_INPUT
    if not sys.platform.startswith("linux"):
        print("a local agent needs Linux: it follows processes by pidfd and /proc", file=sys.stderr)
        return FAILED
    from muster.local.processes import die_with_parent
    from muster.local.running import Wanted, run

    if parent is not None:
        die_with_parent()
        if os.getppid() != parent:
            return FAILED
    wanted = Wanted(
        folder=Path(folder) if folder else state_folder() / f"agent-{agent.cluster}",
        nodes=int(nodes or 1),
        keep_s=keep_s,
        stops_tasks=stops_tasks,
    )
    level = logging.WARNING if parent is None else logging.ERROR  # a server that ends ends this one too
    return run_agent(agent, lambda caller_of, greeting: run(wanted, caller_of, greeting), level)


def run_agent(agent: AgentOf, life: Life, level: int = logging.WARNING) -> int:
    """Run an agent until interrupted; the exit code. Server and token are those that other commands would use."""
    from muster.agent.calling import Caller, Refused
    from muster.engine.garbage import collect_seldom
    from muster.model.errors import InvalidValue, MusterError
    from muster.sdk.contexts import ContextsError, Said, meant

    log_to_stderr(level)
    collect_seldom()
    try:
        to = meant(Said(server=agent.server, token_file=agent.token_file, context=agent.context))
        greeting = f"{agent.kind} agent of {agent.cluster} is connected to {to.server}"
        asyncio.run(life(lambda machines: Caller(to.server, to.token, agent.cluster, machines), greeting))
    except (InvalidValue, ContextsError) as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    except Refused as err:
        print(f"the server refuses this agent: {err}", file=sys.stderr)
        return FAILED
    except (MusterError, OSError) as err:
        print(f"this agent cannot run: {err}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
    return 0


async def _until_told(caller: Caller, greeting: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await caller.run(lambda: print(greeting, flush=True))
