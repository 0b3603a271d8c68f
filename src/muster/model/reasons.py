"""Why a job is not running: typed reasons, their facts in words, and what could change them.

`until` names the happenings after which a waiting job is worth another look; nothing else can help it.
Sentences are templates over the facts and are filled in at the edge, when a person asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

Fact = str | int | float | bool | None | list[str]
Facts = Mapping[str, Fact]


class Happening(Enum):
    """What can make a waiting job worth another look."""

    NODE_ADDED = "a node is added"
    NODE_CHANGED = "a node is changed or uncordoned"
    POOL_CHANGED = "a pool is changed"
    TASK_ENDED = "a task ends"
    JOB_ENDED = "a job ends"
    JOB_CHANGED = "the job is changed"
    QUEUE_CHANGED = "a queue is changed"
    FLOW_DECAYED = "the queue's flow decays"
    LIFETIME_ENDED = "a running job outlives its lifetime"
    RESERVATION_MOVED = "a reservation moves or is used"
    NEXT_TURN = "the next turn"


class Scope(Enum):
    """What a reason stands in the way of."""

    JOB = "job"
    PROFILE = "profile"
    QUEUE = "queue"


_NODES = frozenset({Happening.NODE_ADDED, Happening.NODE_CHANGED, Happening.POOL_CHANGED, Happening.JOB_CHANGED})
_ROOM = _NODES | {Happening.TASK_ENDED, Happening.LIFETIME_ENDED, Happening.QUEUE_CHANGED}


class Reason(Enum):
    """One primary reason per waiting job."""

    scope: Scope
    until: frozenset[Happening]
    sentence: str
    cases: Mapping[str, str]

    def __new__(
        cls, scope: Scope, until: frozenset[Happening], sentence: str, cases: Mapping[str, str] | None = None
    ) -> Reason:
        member = object.__new__(cls)
        member._value_ = (scope, tuple(sorted(happening.value for happening in until)), sentence)
        member.scope, member.until, member.sentence = scope, until, sentence
        member.cases = cases or {}  # sentences for a fact `case`, where one sentence does not suit all
        return member

    NEVER_FITS = (
        Scope.PROFILE,
        _NODES,
        "fits no cluster, even an empty one: {dimension} is short (asked {asked}, at most {most} on a matching node)",
        {
            "count": "fits no cluster, even an empty one: {needed} tasks must start together, "
            "{placed} find room, then {dimension} is short",
            "refused": "fits no cluster, even an empty one: no node is admitted by its {dimension}",
            "topology": "fits no cluster, even an empty one: its {needed} tasks find no nodes close enough",
            "nothing": "fits no cluster, even an empty one: there are no {dimension} for it",
            "needs": "fits no cluster, even an empty one: none that it may go to honours its {needs}",
        },
    )
    NO_NODES = (
        Scope.PROFILE,
        _NODES | {Happening.TASK_ENDED, Happening.QUEUE_CHANGED, Happening.RESERVATION_MOVED},
        "there are no nodes for it yet: its pool {pool} has none in {clusters}",
        {
            "cluster": "there are no nodes for it yet: none in {clusters}",
            "fleet": "there are no nodes for it yet: there is no cluster",
            "lent": "there are no nodes for it yet: its pool {pool} has none in {clusters}, "
            "and no other pool lends it room now",
            "small": "fits no cluster that has nodes, even an empty one, and there are no nodes yet in {clusters}",
        },
    )
    NO_ROOM = (
        Scope.PROFILE,
        _ROOM,
        "no node has room now: {dimension} is short on {short} of {matching} matching nodes",
        {"nothing": "no cluster it may go to takes jobs now"},
    )
    GANG_DOES_NOT_FIT = (
        Scope.PROFILE,
        _ROOM,
        "only {placed} of {needed} tasks that must start together fit now: "
        "{dimension} is short on {short} of {matching} matching nodes",
        {"nothing": "no cluster it may go to takes jobs now"},
    )
    WOULD_DELAY = (
        Scope.PROFILE,
        _ROOM | {Happening.RESERVATION_MOVED},
        "there is room, but it is kept for {reserved} and this job might not end before that one starts",
    )
    RESERVED = (
        Scope.JOB,
        _ROOM | {Happening.RESERVATION_MOVED},
        "room on {cluster} is reserved for it from {start} on",
    )
    OVER_SHARE = (
        Scope.QUEUE,
        frozenset({Happening.TASK_ENDED, Happening.FLOW_DECAYED, Happening.QUEUE_CHANGED, Happening.NODE_ADDED}),
        "jobs without a lifetime would bring queue {queue} to {share:.1%} of the fleet; its limit is {limit:.1%}",
    )
    BUDGET = (
        Scope.QUEUE,
        frozenset({Happening.JOB_ENDED, Happening.FLOW_DECAYED, Happening.QUEUE_CHANGED, Happening.NODE_ADDED}),
        "it would cost {cost} of queue {queue}'s excess budget, which has {left} left (usage × minutes)",
    )
    QUOTA = (
        Scope.QUEUE,
        frozenset({Happening.TASK_ENDED, Happening.QUEUE_CHANGED, Happening.JOB_CHANGED}),
        "queue {queue} would hold {would} of {resource}; its quota is {quota}",
    )
    USER_QUOTA = (
        Scope.QUEUE,
        frozenset({Happening.TASK_ENDED, Happening.QUEUE_CHANGED, Happening.JOB_CHANGED}),
        "user {user} would hold {would} of {resource}; the quota is {quota}",
    )
    RATE_LIMIT = (
        Scope.QUEUE,
        frozenset({Happening.NEXT_TURN}),
        "this turn has started {started} jobs, the most it may ({limit})",
    )
    QUEUE_CORDONED = (
        Scope.QUEUE,
        frozenset({Happening.QUEUE_CHANGED}),
        "queue {queue} is cordoned: nothing starts from it",
    )
    JUST_EVICTED = (
        Scope.JOB,
        frozenset({Happening.NEXT_TURN}),
        "it gave way at this very moment, and stands in line again from the next turn on",
    )
    DEPENDENCY = (
        Scope.JOB,
        frozenset({Happening.JOB_ENDED}),
        "it starts after {after}",
    )
    HELD = (
        Scope.JOB,
        frozenset({Happening.JOB_CHANGED}),
        "it is held back by {by} until it is released",
    )
    BEHIND = (
        Scope.QUEUE,
        _ROOM | {Happening.JOB_ENDED, Happening.FLOW_DECAYED, Happening.RESERVATION_MOVED, Happening.NEXT_TURN},
        "it waits behind {head} in queue {queue}",
    )

    def explain(self, facts: Facts) -> str:
        """The reason as a sentence."""
        words = self.cases.get(str(facts.get("case")), self.sentence)
        if "unknownPool" in facts:
            words += _UNKNOWN_POOL
        return words.format_map({name: _in_words(name, fact) for name, fact in facts.items()})


_UNKNOWN_POOL = " (its pool {unknownPool} is not in any cluster it may go to: it counts as a job of the default pool)"


def _in_words(name: str, fact: Fact) -> Fact:
    """A fact as a sentence has it; a moment that nobody put into words is told as it is counted."""
    if name == "start" and isinstance(fact, int | float):
        return f"t = {fact:g} s"
    return ", ".join(fact) if isinstance(fact, list) else fact
