"""Reads a scenario file: the whole of it, or one error with every problem in it."""

from __future__ import annotations

from muster.documents import document
from muster.documents.fields import Fields
from muster.documents.values import Value
from muster.model.names import name_key
from muster.model.policy import Policy
from muster.sim.scenario.budgets import read_budgets
from muster.sim.scenario.jobs import Jobs
from muster.sim.scenario.problems import Problems
from muster.sim.scenario.scenario import Scenario
from muster.sim.scenario.script import Script
from muster.sim.scenario.world import read_world

WHAT = "a scenario is a mapping with keys such as clusters and jobs"


def load(path: str, default: Policy | None = None) -> Scenario:
    """The scenario in a file, a pipe or /dev/stdin; raises ScenarioError.

    `default`: the policy where the file says nothing of it.
    """
    problems = Problems(path)
    return scenario_of(document.read(document.read_file(path, problems), problems, WHAT), problems, default)


def parse(text: str, name: str = "<text>") -> Scenario:
    """The scenario in `text`; raises ScenarioError."""
    problems = Problems(name)
    return scenario_of(document.read(document.encoded(text, problems), problems, WHAT), problems)


def scenario_of(value: Value, problems: Problems, default: Policy | None = None) -> Scenario:
    """The scenario that a document describes; raises ScenarioError."""
    top = Fields.of("scenario", value, "", problems)
    if top is None:
        raise problems.error()
    world = read_world(top, Policy() if default is None else default)
    jobs = Jobs(world)
    jobs.read(top)
    script = Script(world, jobs)
    script.read(top)
    budgets = read_budgets(top, jobs)
    until_ms = top.optional_duration("until")
    rounds_ms = top.duration("rounds", 1, least_ms=1)
    top.close()
    world.pools.check()
    if problems:
        raise problems.error()
    # Only now are counts multiplied out: a wrong file costs no more than its text.
    return Scenario(
        policy=world.policy,
        clusters=tuple(sorted(world.clusters.values(), key=lambda cluster: name_key(cluster.name))),
        nodes=tuple(sorted(world.nodes.made(), key=lambda node: node.key)),
        pools=tuple(sorted(world.pools.first.values(), key=lambda pool: name_key(pool.name))),
        queues=tuple(sorted(jobs.made_queues(), key=lambda queue: name_key(queue.name))),
        users=tuple(sorted(world.users.values(), key=lambda user: name_key(user.name))),
        budgets=budgets,
        jobs=tuple(jobs.made()),
        events=tuple(script.made()),
        until_ms=until_ms,
        rounds_ms=rounds_ms,
    )
