"""`muster server` and `muster agent`: the processes that stay."""

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

if TYPE_CHECKING:
    from muster.agent.calling import Caller, Machines

    CallerOf = Callable[[Machines], Caller]

FAILED = 1
KEEP = "not a duration such as 7d, 12h or 60s"
MOST_PARTS = 1024  # nodes that a machine can be cut into

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NODES = re.compile(r"(?:(\d+)x)?(.+)")


def state_folder() -> Path:
    """Where this user's server keeps its database and its first token."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "muster"


def log_to_stderr(level: int) -> None:
    """What a process that stays has to say beside its output."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def seconds_of(duration: str) -> float | None:
    """How many seconds `7d`, `12h` or `60s` are; None if it is no duration."""
    read = _DURATION.fullmatch(duration)
    return None if read is None else float(read[1]) * _SECONDS[read[2]]


def run_server(*, db: str | None, host: str, port: int, token_file: str | None, most_queued: int, keep: str) -> int:
    """Run until interrupted; the exit code."""
    from muster.model.errors import MusterError
    from muster.model.policy import Policy
    from muster.server.service import Limits
    from muster.server.serving import serve

    kept_s = seconds_of(keep)
    if kept_s is None:
        print(f"--keep {keep}: {KEEP}", file=sys.stderr)
        return BAD_INPUT
    folder = state_folder()
    if db is None:
        folder.mkdir(parents=True, exist_ok=True)
        db = f"sqlite:///{folder / 'muster.db'}"
    log_to_stderr(logging.INFO)
    token_path = Path(token_file) if token_file else folder / "token"
    limits = Limits(most_queued=most_queued, keep_ms=int(kept_s * 1000))
    try:
        serve(db, host=host, port=port, token_file=token_path, policy=Policy(), limits=limits)
    except (MusterError, OSError) as err:
        print(f"the server cannot run: {err}", file=sys.stderr)
        return FAILED
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOf:
    """What every agent is told: for which cluster it speaks, to which server, and with which token."""

    cluster: str
    server_url: str
    token_file: str | None


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

    async def life(caller_of: CallerOf) -> None:
        written = Ledger(Path(ledger) if ledger else None)
        machines = Simulated(made_up(count, amounts, agent.cluster), seconds=seconds, ledger=written)
        machines.caller = caller_of(machines)
        await _until_told(machines.caller, greeting("simulated", agent))

    return run_agent(agent, life)


def run_local(
    agent: AgentOf, *, nodes: str | None, folder: str | None, keep: str, stops_tasks: bool, parent: int | None
) -> int:
    """Run the agent of this machine until interrupted; the exit code."""
    kept_s = seconds_of(keep)
    if kept_s is None:
        print(f"--keep {keep}: {KEEP}", file=sys.stderr)
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
        keep_s=kept_s,
        stops_tasks=stops_tasks,
        greeting=greeting("local", agent),
    )
    return run_agent(agent, lambda caller_of: run(wanted, caller_of))


def greeting(kind: str, agent: AgentOf) -> str:
    """What an agent says once the server knows it."""
    return f"{kind} agent of {agent.cluster} is connected to {agent.server_url}"


def run_agent(agent: AgentOf, life: Callable[[CallerOf], Coroutine[Any, Any, None]]) -> int:
    """Run an agent until interrupted; the exit code."""
    from muster.agent.calling import Caller, Refused
    from muster.model.errors import MusterError

    log_to_stderr(logging.WARNING)
    try:
        token = _token(agent.token_file)
        asyncio.run(life(lambda machines: Caller(agent.server_url, token, agent.cluster, machines)))
    except Refused as err:
        print(f"the server refuses this agent: {err}", file=sys.stderr)
        return FAILED
    except MusterError as err:
        print(f"this agent cannot run: {err}", file=sys.stderr)
        return FAILED
    except OSError as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
    return 0


async def _until_told(caller: Caller, greeting: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await caller.run(lambda: print(greeting, flush=True))


def _token(token_file: str | None) -> str:
    """The agent's token: from its file, its environment, or the file of this user's own server."""
    given = os.environ.get("MUSTER_TOKEN")
    if token_file is None and given:
        return given
    path = Path(token_file) if token_file else state_folder() / "token"
    return path.read_text(encoding="utf-8").strip()
