"""Jobs that wait for each other in a circle, so that none of them could ever start."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from muster.documents.jobs.spec import JobSpec
from muster.model.names import name_key

MOST_CIRCLES = 20  # that are reported; each search walks every job
MOST_NAMED = 20  # jobs of one circle
ITSELF = "a job cannot wait for itself, nor for others of its own array"

_OF_ARRAY = re.compile(r"(.+)-([0-9]+)")


def circles(before: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Each circle once, in the order in which its jobs would have to run; `before`: the names that each waits for."""
    left = dict(before)
    for _ in range(MOST_CIRCLES):
        try:
            TopologicalSorter(left).prepare()
        except CycleError as err:
            names: list[str] = err.args[1][:-1]  # each before the one that waits for it, and the first once more
            left |= {name: set() for name in names}
            start = names.index(min(names, key=name_key))
            yield [*names[start:], *names[:start]]
        else:
            return


def in_words(circle: Sequence[str]) -> str:
    """What is wrong with it."""
    around = [*circle, circle[0]][:MOST_NAMED]
    return f"these jobs wait for each other in a circle: {' before '.join(around)}"


def refuse_circles(specs: Sequence[JobSpec | None], refuse: Callable[[int, str], None]) -> None:
    """Call `refuse` with the place of one job of each circle, and what is wrong. Jobs without a name are in none."""
    if not any(spec is not None and spec.after for spec in specs):
        return
    places: dict[str, int] = {}
    arrays: dict[str, set[int]] = {}
    for place, spec in enumerate(specs):
        if spec is not None and spec.name is not None:
            places.setdefault(spec.name, place)
            arrays.setdefault(spec.name, set()).update(spec.indices or ())

    def meant(name: str) -> Iterator[str]:
        if name in places:
            yield name
        match = _OF_ARRAY.fullmatch(name)
        if match and int(match[2]) in arrays.get(match[1], ()):
            yield match[1]

    before: dict[str, set[str]] = {}
    for spec in specs:
        if spec is not None and spec.name is not None:
            others = [need.job for need in spec.after if need.job != spec.name]  # whoever names itself was told
            before.setdefault(spec.name, set()).update(one for name in others for one in meant(name))
    for circle in circles(before):
        refuse(places[circle[0]], ITSELF if len(circle) == 1 else in_words(circle))
