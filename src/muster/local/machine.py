"""What this machine has: the cores, memory and GPUs that this process may use, cut into nodes."""

from __future__ import annotations

import importlib
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.agent.protocol import NodeReport
from muster.local.memory import groups_of, least_limit, mounted, own_groups
from muster.local.room import DEVICE_MILLI, Amounts

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is to hand out: cores in thousandths, memory in bytes, and GPUs by the names their driver knows."""

    cpu: int
    memory: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A node: a part of the machine under a name."""

    name: str
    machine: Machine

    def report(self) -> NodeReport:
        """As the server is told."""
        has = self.machine
        amounts: dict[str, str | int | float] = {"cpu": f"{has.cpu}m", "memory": str(has.memory)}
        if has.gpus:
            amounts["gpu"] = len(has.gpus)
        return NodeReport(name=self.name, amounts=amounts, labels={"kubernetes.io/hostname": self.name})

    @property
    def amounts(self) -> Amounts:
        """What tasks may take of it together."""
        devices = {f"gpu {number}": DEVICE_MILLI for number in range(len(self.machine.gpus))}
        return {"cpu": self.machine.cpu, "memory": self.machine.memory, **devices}


def this_machine() -> Machine:
    """What this process may use: what the machine has, as far as affinity and control groups let it."""
    return Machine(cpu=_cores(), memory=_memory(), gpus=_gpus())


def parts(machine: Machine, many: int, host: str) -> list[Part]:
    """The machine in so many equal nodes; GPUs are dealt out in turn."""
    if many == 1:
        return [Part(name=host, machine=machine)]
    return [
        Part(
            name=f"{host}-{number}",
            machine=Machine(cpu=machine.cpu // many, memory=machine.memory // many, gpus=machine.gpus[number::many]),
        )
        for number in range(many)
    ]


def host_name() -> str:
    """What this machine is called, as far as nodes may be called so."""
    return _NOT_IN_NAMES.sub("-", socket.gethostname())[:_LONGEST_NAME].strip("._-") or "localhost"


def _cores() -> int:
    """Thousandths of cores."""
    return min(len(os.sched_getaffinity(0)) * 1000, *_quotas(), 1 << 40)


def _quotas() -> list[int]:
    """The limits on processor time that this process is under, in thousandths of cores."""
    found = []
    own = own_groups()
    for mount, path in groups_of([mount for mount in mounted() if mount.version == 2], own):
        while path.startswith(mount.path):
            found += _quota_in(_text(Path(path) / "cpu.max"))
            if path == mount.path:
                break
            path = os.path.dirname(path)
    group = next((line.split(":", 2)[2] for line in own.splitlines() if "cpu" in line.split(":")[1].split(",")), "/")
    folder = Path("/sys/fs/cgroup/cpu") / group.strip("/")
    return found + _quota_in(f"{_text(folder / 'cpu.cfs_quota_us')} {_text(folder / 'cpu.cfs_period_us')}")


def _quota_in(text: str) -> list[int]:
    """`200000 100000`: two cores; `max 100000` and `-1 100000`: no limit."""
    match text.split():
        case [quota, period] if quota.isdigit() and period.isdigit() and int(period):
            return [int(quota) * 1000 // int(period)]
    return []


def _memory() -> int:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = least_limit(mounted(), own_groups())
    return total if limit is None else min(total, limit)


def _gpus() -> tuple[str, ...]:
    """The GPUs that NVIDIA's library finds; none where there is no such library, or no driver."""
    try:
        library: Any = importlib.import_module("pynvml")
        library.nvmlInit()
    except Exception:  # not installed, no driver, no device: each its own kind of error
        return ()
    try:
        handles = [library.nvmlDeviceGetHandleByIndex(number) for number in range(library.nvmlDeviceGetCount())]
        return tuple(_as_text(library.nvmlDeviceGetUUID(handle)) for handle in handles)
    finally:
        library.nvmlShutdown()


def _as_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
