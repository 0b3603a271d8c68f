"""What `muster kube-scheduler` does: reach the cluster, and schedule until told to end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from dataclasses import dataclass

import uvloop

from muster.cli.ending import BAD_INPUT
from muster.cli.serve import FAILED, log_to_stderr
from muster.engine.garbage import collect_seldom
from muster.kubernetes.access import Access, access_here
from muster.kubernetes.client import Client
from muster.kubernetes.election import Election, Times
from muster.kubernetes.errors import KubernetesError
from muster.kubernetes.scheduler import Scheduler
from muster.model.errors import InvalidValue
from muster.model.policy import Policy, Preemption

SHORTEST_LEASE_S, LONGEST_LEASE_S = 3.0, 3600.0
GIVE_WAY_S = 0.0002  # binds go on while a turn of many pods is taken, and each waits for this at every step
LEASE_REQUEST_S = 4.0  # a renewal that takes longer is tried again while it still matters


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options, as they were given."""

    kubeconfig: str
    context: str
    lease: str
    lease_s: float
    identity: str
    preempts: bool


def run(asked: Asked) -> int:
    """Schedule until told to end; the exit code."""
    try:
        namespace, _, name = asked.lease.partition("/")
        if not namespace or not name or "/" in name:
            raise InvalidValue(asked.lease, "must be a namespace and a name, such as kube-system/muster", "--lease")
        if not SHORTEST_LEASE_S <= asked.lease_s <= LONGEST_LEASE_S:
            allowed = f"must be between {SHORTEST_LEASE_S:g} and {LONGEST_LEASE_S:g} seconds"
            raise InvalidValue(f"{asked.lease_s:g}", allowed, "--lease-duration")
        access = access_here(asked.kubeconfig, asked.context)
    except InvalidValue as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    log_to_stderr(logging.INFO)
    sys.setswitchinterval(GIVE_WAY_S)
    collect_seldom()
    try:
        uvloop.run(_schedule(access, namespace, name, asked))
    except KubernetesError as err:
        print(err, file=sys.stderr)
        return FAILED
    return 0


async def _schedule(access: Access, namespace: str, name: str, asked: Asked) -> None:
    identity = asked.identity or f"{socket.gethostname()}-{os.getpid()}"
    # Pods state no lifetimes, and namespaces become queues by themselves: a limit on what a queue may hold of a cluster
    # that others leave empty would only idle it.
    policy = Policy(over_share=None, preemption=Preemption.ON if asked.preempts else Preemption.OFF)
    async with Client(access) as client, Client(access, request_s=LEASE_REQUEST_S) as for_lease:
        election = Election(for_lease, namespace, name, identity, Times.lasting(asked.lease_s))
        scheduler = Scheduler(client, election, policy, identity)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, scheduler.stop)
        await scheduler.run()
