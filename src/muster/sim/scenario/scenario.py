"""What a scenario file says, as values.

Every tuple is in a total order (times first, names last): the order of lists in the file means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.documents.jobs.simulation import RaceScript
from muster.model.budgets import Budget
from muster.model.events import Event
from muster.model.fleet import Cluster
from muster.model.jobs import Job
from muster.model.nodes import Node
from muster.model.policy import Policy
from muster.model.pools import Pool
from muster.model.queues import Queue, User
from muster.state.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A job that arrives at `job.submit_ms` and really runs for `runtime_ms` (None: until the end), or until its work
    is done, or is raced."""

    job: Job
    runtime_ms: int | None = None
    work: Work | None = None
    race: RaceScript | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """Something that happens at a moment, whatever the scheduler does."""

    at_ms: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A small world with a script. `until_ms` None: until nothing can happen any more.

    With `rounds_ms` above 1, what happens between two rounds is heard of in the next one.
    """

    policy: Policy
    clusters: tuple[Cluster, ...] = ()
    nodes: tuple[Node, ...] = ()
    pools: tuple[Pool, ...] = ()
    queues: tuple[Queue, ...] = ()
    users: tuple[User, ...] = ()
    budgets: tuple[Budget, ...] = ()
    jobs: tuple[ScriptJob, ...] = ()
    events: tuple[Scripted, ...] = ()
    until_ms: int | None = None
    rounds_ms: int = 1
