"""How fast pods are bound on a real API server: by Muster, by Kubernetes' own scheduler, by a client that only binds.

etcd, the API server and whoever binds share this machine; controllers and kubelets do not run. A scheduler is paused
while pods are made, so that all of them wait when the clock begins. What is bound is counted by a watch while the clock
runs, and by a list afterwards.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import uvloop

from bench.binding import ACCOUNT, ACCOUNTS_SPACE, GANG, NODE_CPU, NODES_THERE, Bench, Sight
from bench.measuring import at_least, below, median, table, tell
from bench.serving import cpu_s
from bench.worlds import SCALE
from muster.kubernetes.access import from_kubeconfig
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster, Wanted
from muster.kubernetes.dev.pki import kubeconfig
from muster.kubernetes.dev.processes import Program
from muster.kubernetes.dev.programs import programs

PODS_BOUND = max(int(5_000 * SCALE), 2 * GANG)
ROUNDS, MOST_S = (3 if SCALE == 1 else 1), 520  # fewer rounds on a machine that is busy otherwise
LOW_LOAD, EVERY_S = max(int(400 * SCALE), 20), 0.05
OUR_ACCOUNT = "muster.kubeconfig"
BAR_TIMES, BAR_GANGS_PCT, BAR_P99_MS = 2, 90, 200
BARE, THEIRS, OURS, GANGS = "a client that only binds", "kube-scheduler", "Muster", "Muster, gangs of 10"
ORDER = (THEIRS, OURS, GANGS)  # in the first round


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """Pods that one of them bound: after how long, what it cost, and how many Events there were in the end."""

    who: str
    took_s: float
    spent: dict[str, float]
    events: int = 0
    told_s: float = 0.0

    @property
    def rate(self) -> float:
        """Binds a second."""
        return PODS_BOUND / self.took_s


def binds() -> str:
    """5,000 pods on 1,000 nodes, alone and in gangs of ten; and pods that come one by one."""
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    wanted = Wanted(hollow=None, has_controllers=False, has_scheduler=True)
    try:
        with Cluster(programs(), folder / "cluster", wanted) as cluster:
            assert cluster.scheduler is not None
            cluster.scheduler.kill()
            did, low = uvloop.run(_measured(cluster))
    finally:
        shutil.rmtree(folder)
    return _told(did, low, load)


async def _measured(cluster: Cluster) -> tuple[list[Did], dict[str, list[float]]]:
    did: list[Did] = []
    low: dict[str, list[float]] = {}
    async with Client(from_kubeconfig([cluster.kubeconfig])) as client:
        bench = Bench(client)
        await bench.prepare()
        ours = cluster.folder / OUR_ACCOUNT
        ours.touch(mode=0o600)
        authority = base64.b64encode(cluster.authority.ca.read_bytes()).decode()
        reached: dict[str, object] = {"server": cluster.url, "certificate-authority-data": authority}
        ours.write_text(kubeconfig("bench", reached, {"token": await bench.token()}), encoding="utf-8")
        did.append(await _bare(bench, cluster))
        first = began = monotonic()
        for number in range(ROUNDS):
            last, began = began, monotonic()
            if began - first + (began - last) > MOST_S:
                tell(f"another round would take too long: {number} must do")
                break
            # Who comes later finds more in etcd: everybody does once.
            for who in (ORDER[number % len(ORDER) :] + ORDER)[: len(ORDER)]:
                async with _scheduler(bench, cluster, who) as (program, sight):
                    did.append(await _backlog(bench, cluster, program, sight, who))
                    if number == 0 and who in (THEIRS, OURS):
                        low[who] = await bench.one_by_one(sight, LOW_LOAD, EVERY_S)
                await bench.clear()
    return did, low


@asynccontextmanager
async def _scheduler(bench: Bench, cluster: Cluster, who: str) -> AsyncIterator[tuple[Program, Sight]]:
    """One that runs and has bound pods before."""
    await bench.forget_leader()
    program = _theirs(cluster) if who == THEIRS else _ours(cluster)
    bench.scheduler = "default-scheduler" if who == THEIRS else "muster"
    program.start()
    try:
        async with bench.watched() as sight:
            await bench.make(2 * GANG)
            await sight.have_bound(2 * GANG, program)
            await bench.make_gangs(2 * GANG)
            await sight.have_bound(4 * GANG, program)
            await bench.settled()
            yield program, sight
    finally:
        program.kill()


def _theirs(cluster: Cluster) -> Program:
    assert cluster.scheduler is not None
    return cluster.scheduler


def _ours(cluster: Cluster) -> Program:
    shown = cluster.folder / OUR_ACCOUNT
    command: list[str | Path] = [sys.executable, "-m", "muster", "kube-scheduler", "--kubeconfig", shown]
    command += ["--lease-duration", "600", "--lease", f"{ACCOUNTS_SPACE}/{ACCOUNT}"]  # it is paused for a while
    return Program("muster", command, cluster.folder / "logs" / "muster.log")


async def _backlog(bench: Bench, cluster: Cluster, program: Program, sight: Sight, who: str) -> Did:
    """Everything waits; then the scheduler goes on."""
    program.pause()
    before, told = sight.bound, await bench.events()
    await (bench.make_gangs if who == GANGS else bench.make)(PODS_BOUND)
    spent = _Spent(cluster, program)
    program.resume()
    began = monotonic()
    await sight.have_bound(before + PODS_BOUND, program)
    took_s, costs = monotonic() - began, spent.until_now()
    await bench.settled()
    told_s = monotonic() - began
    await bench.check(sight)
    events = await bench.events() - told
    tell(f"{who}: {PODS_BOUND / took_s:,.0f} binds/s; {_costs(costs)}; {events:,} Events after {told_s:.1f} s")
    return Did(who=who, took_s=took_s, spent=costs, events=events, told_s=told_s)


async def _bare(bench: Bench, cluster: Cluster) -> Did:
    bench.scheduler = "nobody"
    async with bench.watched() as sight:
        names = await bench.make(PODS_BOUND)
        spent = _Spent(cluster, None)
        began = monotonic()
        await bench.bind(sight, names)
        took_s, costs = monotonic() - began, spent.until_now()
        await bench.check(sight)
    await bench.clear()
    tell(f"{BARE}: {PODS_BOUND / took_s:,.0f} binds/s; {_costs(costs)}")
    return Did(who=BARE, took_s=took_s, spent=costs)


class _Spent:
    """CPU seconds of everybody since then."""

    def __init__(self, cluster: Cluster, program: Program | None) -> None:
        self._pids = {"API server": cluster.apiserver.pid, "etcd": cluster.etcd.pid, "benchmark": os.getpid()}
        if program is not None:
            self._pids = {"scheduler": program.pid, **self._pids}
        self._before = self._now()

    def until_now(self) -> dict[str, float]:
        return {name: seconds - self._before[name] for name, seconds in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self._pids.items()}


def _costs(spent: dict[str, float]) -> str:
    return ", ".join(f"{name} {1e6 * seconds / PODS_BOUND:,.0f}" for name, seconds in spent.items())


def _told(did: list[Did], low: dict[str, list[float]], load: float) -> str:
    by = {who: [one for one in did if one.who == who] for who in (BARE, *ORDER)}
    rows = [
        (
            who,
            ", ".join(f"{one.rate:,.0f}" for one in those),
            _costs({name: median(one.spent[name] for one in those) for name in those[0].spent}),
            *((those[0].events, f"{median(one.told_s for one in those):.1f}") if who != BARE else ("", "")),
        )
        for who, those in by.items()
    ]
    waits = [(who, *(f"{1000 * _within(low[who], part):,.0f}" for part in (0.5, 0.99, 1))) for who in low]
    times = [ours.rate / theirs.rate for ours, theirs in zip(by[OURS], by[THEIRS], strict=True)]
    pct = [100 * gangs.rate / ours.rate for gangs, ours in zip(by[GANGS], by[OURS], strict=True)]
    return "\n".join(
        [
            f"{PODS_BOUND:,} pods of a core on {NODES_THERE:,} nodes of {NODE_CPU}. etcd, the API server and who binds",
            f"share this machine of {os.cpu_count()} cores (load average before: {load:.1f}). All pods wait when the",
            f"clock begins. Rounds, in each everybody once: {len(times)}; costs are the median of those. Events and",
            "conditions are on; what is written after the last bind is not in the costs. kube-scheduler has its",
            "defaults, and may make 5,000 requests a second. Each comes in as it does where it is installed: the",
            "one with a certificate, which the API server verifies at every request, Muster as the service account of",
            "its manifests, with a token.",
            "",
            *table(
                ("who", "binds/s", "µs of CPU a bind, until the last", "Events", "the last after s"),
                rows,
            ),
            "",
            f"{LOW_LOAD:,} pods, one every {1000 * EVERY_S:.0f} ms, from before each was sent until it was seen bound:",
            "",
            *table(("who", "half within ms", "99 of 100 within ms", "all within ms"), waits),
            "",
            f"Muster's binds a second over kube-scheduler's, round by round: {', '.join(f'{it:.2f}' for it in times)}.",
            f"Those of gangs over those of single pods: {', '.join(f'{it:.0f} %' for it in pct)}.",
            "CPU time of a bind with API server and etcd, kube-scheduler's over Muster's: "
            f"{_cpu(by[THEIRS]) / _cpu(by[OURS]):.2f}.",
            "",
            # Those of one round are compared: a machine that others use too is not equally fast all the time.
            at_least("Binds a second over kube-scheduler's, median of the rounds", BAR_TIMES, median(times), " times"),
            at_least(
                "Binds a second of gangs over single pods', median of the rounds", BAR_GANGS_PCT, median(pct), " %"
            ),
            below("Created to bound, 99 of 100", BAR_P99_MS, 1000 * _within(low[OURS], 0.99), " ms"),
            "",
            "Checked by a list after each: every pod is bound, to the node where it was seen first, and no node has",
            "more than it has room for.",
        ]
    )


def _cpu(those: list[Did]) -> float:
    """CPU seconds of all that the pods cost, without the benchmark."""
    return median(sum(one.spent.values()) - one.spent["benchmark"] for one in those)


def _within(waits_s: list[float], part: float) -> float:
    return waits_s[min(int(len(waits_s) * part), len(waits_s) - 1)]
