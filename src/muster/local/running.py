"""The agent of this machine, from its start until it is told to end."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.agent.calling import Caller, Machines
from muster.local.agent import Local
from muster.local.machine import host_name, parts, this_machine
from muster.local.memory import find_place, mounted, own_groups

CallerOf = Callable[[Machines], Caller]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How the agent is to run. `stops_tasks`: whether they end with it."""

    folder: Path
    nodes: int
    keep_s: float
    stops_tasks: bool


def place_name(folder: Path) -> str:
    """What the control group of the agent in a folder is called: the same for the next one there."""
    return f"muster-{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]}"


async def run(wanted: Wanted, caller_of: CallerOf, greeting: str) -> None:
    """Call in until told to end; then leave tasks to their supervisors, or have them end first.

    Told a second time, it does not wait for them.
    """
    place = find_place(place_name(wanted.folder), mounted(), own_groups())
    machine = Local(wanted.folder, parts(this_machine(), wanted.nodes, host_name()), groups=place, keep_s=wanted.keep_s)
    caller = caller_of(machine)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell_to_end() -> None:
        if told.is_set():
            machine.kill_all()
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tell_to_end)
    sweeping = asyncio.ensure_future(machine.sweep())
    calling = asyncio.ensure_future(caller.run(lambda: print(greeting, flush=True)))  # noqa: T201  # waited for
    waiting = asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait({calling, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            calling.result()
        calling.cancel()
        if wanted.stops_tasks:
            if machine.stop_all():
                await machine.until_empty()
            if place is not None:
                place.remove()
    finally:
        for each in (calling, waiting, sweeping):
            each.cancel()
        await asyncio.gather(calling, waiting, sweeping, return_exceptions=True)
        machine.close()
