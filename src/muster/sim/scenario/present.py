"""Events as a scenario writes them, about a world that runs: its nodes, queues, pools and jobs are those of a state.

Read by the very code that reads scenario files, so that a question to a server is put in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.documents.fields import Fields
from muster.documents.values import decoded
from muster.model.errors import InvalidValue
from muster.model.pools import DEFAULT_POOL
from muster.sim.scenario.jobs import Jobs
from muster.sim.scenario.nodes import Nodes
from muster.sim.scenario.pools import Pools
from muster.sim.scenario.problems import Problems
from muster.sim.scenario.scenario import Scripted
from muster.sim.scenario.script import Script
from muster.sim.scenario.world import World
from muster.state.state import State

WHERE = "this server"


def read_changes(
    events: Sequence[Mapping[str, Any]], state: State, *, classes: Mapping[str, int], levels: Mapping[str, int]
) -> list[Scripted]:
    """Events as JSON has them, in order; `at` counts from now, and is now unless it is said. Raises ScenarioError."""
    problems = Problems("")
    try:
        value = decoded({"events": [{"at": 0, **event} for event in events]})
    except InvalidValue as err:
        problems.stop("events", 0, err.allowed)
    top = Fields.of("question", value, "", problems)
    assert top is not None, "it was put together here"
    machines = state.machines
    pools = Pools(first=dict(machines.pools), names=set(machines.pools) - {DEFAULT_POOL}, where=WHERE)
    world = World(
        policy=state.policy,
        clusters=dict(machines.clusters),
        nodes=Nodes(there=set(machines.nodes)),
        pools=pools,
        queues={name: books.queue for name, books in state.books.items()},
        users={},
        classes=dict(classes),
        levels=levels,
        where=WHERE,
    )
    jobs = Jobs(world)
    jobs.know({name: run.job.profile for name, run in state.running.items()})
    jobs.know({name: job.profile for name in state.waiting() if (job := state.find(name)) is not None})
    script = Script(world, jobs)
    script.read(top)
    pools.check()
    if problems:
        raise problems.error()
    return script.made()
