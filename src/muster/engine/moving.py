"""Who is better off in another cluster (openpai-multi-cluster.md; docs/adr/0026-unequal-clusters.md).

A job says how much it prefers each cluster, from 0 to 100: how fast it is there, say. One that runs where it would
rather not be moves to a cluster with room, or changes places with another that asks for the same, if that is worth
enough points of preference in all. What it has done so far it must be able to keep: only jobs that may be preempted at
any time are moved. While room is promised for good to anyone, nobody moves.

Pure; mover.py carries moves out on the books of a turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import permutations
from typing import NamedTuple

from muster.model.fleet import Fleet
from muster.model.jobs import Profile, Running
from muster.model.names import name_key

MOST_MOVES = 64  # a turn

FindsRoom = Callable[[Running, str], bool]
"""Whether the job finds room in a cluster; then it has moved there."""


class Exchange(NamedTuple):
    """Two jobs that change places."""

    one: Running
    other: Running


def preferences(fleet: Fleet, profile: Profile) -> Mapping[str, int]:
    """How much a job would rather be in each cluster it may be in now."""
    wanted = dict(profile.clusters) or {name: cluster.preference for name, cluster in fleet.clusters.items()}
    return {name: wanted[name] for name in fleet.candidates(profile)}


def is_movable(run: Running, fleet: Fleet, now_ms: int) -> bool:
    """Whether the job may be moved now: its lifetime is over, it has one width, and it has a choice."""
    is_free = run.started_ms < now_ms and run.is_expired(now_ms) and not run.job.profile.is_elastic
    return is_free and run.cluster in fleet.preempts_in and len(fleet.candidates(run.job.profile)) > 1


def move_to_room(runs: Iterable[Running], fleet: Fleet, least: int, finds_room: FindsRoom) -> list[Running]:
    """Jobs move to clusters they would rather be in, the worst placed first; returns those who stayed.

    Who moves leaves room: the others are asked again until nobody moves.
    """
    stay, left = list(runs), MOST_MOVES
    while left:
        stay.sort(key=lambda run: (preferences(fleet, run.job.profile).get(run.cluster, 0), run.job.key))
        mover = next((run for run in stay if any(finds_room(run, name) for name in _better(run, fleet, least))), None)
        if mover is None:
            break
        stay.remove(mover)
        left -= 1
    return stay


def _better(run: Running, fleet: Fleet, least: int) -> Iterator[str]:
    """The clusters the job would rather be in by so many points, most preferred first."""
    wanted = preferences(fleet, run.job.profile)
    for name, points in wanted.items():
        if points - wanted.get(run.cluster, 0) >= least:
            yield name


def exchanges(runs: Iterable[Running], fleet: Fleet, least: int) -> Iterator[Exchange]:
    """Pairs of jobs that gain so many points in all by changing places, those that gain most first; everyone once."""
    alike: dict[tuple[Profile, str], deque[Running]] = {}
    for run in sorted(runs, key=lambda run: run.job.key):
        alike.setdefault((run.job.profile, run.cluster), deque()).append(run)
    wanted = {profile: preferences(fleet, profile) for profile, _ in alike}
    gains = []
    for (one, here), (other, there) in permutations(alike, 2):
        if (
            here == there
            or one.groups != other.groups
            or not {here, there} <= wanted[one].keys() & wanted[other].keys()
        ):
            continue
        gain = wanted[one][there] + wanted[other][here] - wanted[one][here] - wanted[other][there]
        if gain >= least:
            first, second = alike[one, here], alike[other, there]
            gains.append((-gain, name_key(here), first[0].job.key, second[0].job.key, first, second))
    for *_, first, second in sorted(gains, key=lambda it: it[:4]):
        while first and second:
            yield Exchange(first.popleft(), second.popleft())
