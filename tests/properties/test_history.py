"""How wide elastic jobs run does not depend on how long others have run before (design.md 5.6)."""

from __future__ import annotations

from typing import Any

import yaml
from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from story import world

from muster.sim.scenario.loader import parse
from muster.sim.simulate import Simulation

HOUR_S, LONG_S = 3600, 15 * 86_400
WINDOW_S = 300
CORES = 24
LEVELS = st.sampled_from(["Experiment", "Offline", "Normal", "Production"])


def elastic(name: str, queue: str, level: str, most: int, at: int = 0) -> dict[str, Any]:
    group = {"name": "w", "min": 1, "initial": 1, "max": most, "cpu": 1}
    return {"name": name, "queue": queue, "level": level, "at": at, "groups": [group]}


def after(history_s: int, olds: list[tuple[str, str, int]], news: list[tuple[str, str]]) -> dict[str, tuple[str, int]]:
    """By job its queue and width in a world in which some came after others had run for so long, three freezing windows
    and a few marks later."""
    jobs = [elastic(f"old-{number}", *old) for number, old in enumerate(olds)]
    jobs += [elastic(f"new-{number}", *new, CORES, history_s) for number, new in enumerate(news)]
    until = history_s + 3 * WINDOW_S + 60
    made = world(nodes=[{"name": "n", "cpu": CORES}], config={"overShare": "off"}, jobs=jobs, until=until)
    simulation = Simulation(parse(yaml.safe_dump(made)), estimates=False)
    for _ in simulation:
        pass
    return {name: (run.job.queue, len(run.tasks)) for name, run in simulation.state.running.items()}


def by_queue(widths: dict[str, tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for queue, width in widths.values():
        found[queue] = found.get(queue, 0) + width
    return found


@a_part(2)
@given(
    st.lists(st.tuples(st.sampled_from("AB"), LEVELS, st.sampled_from([2, 6, CORES])), min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from("ABC"), LEVELS), min_size=1, max_size=2),
)
def test_property_within_three_windows_queues_have_their_shares_however_long_others_ran(
    olds: list[tuple[str, str, int]], news: list[tuple[str, str]]
) -> None:
    """Newcomers want all there is, so their queues are entitled to equal parts; queues of others may want less."""
    hour, long = (by_queue(after(history_s, olds, news)) for history_s in (HOUR_S, LONG_S))

    assert sum(hour.values()) == sum(long.values()) == CORES
    queues = sorted(hour)
    assert queues == sorted(long)
    wanted = {queue: sum(most for name, _, most in olds if name == queue) for queue in queues}
    part = CORES // len(queues)
    for queue in queues:
        is_greedy = any(name == queue for name, _ in news)
        for told in (hour, long):
            assert told[queue] >= (part if is_greedy else min(part, wanted[queue])) - 1


@a_part(2)
@given(LEVELS, LEVELS, st.sampled_from([6, CORES]))
def test_property_within_three_windows_a_newcomer_has_its_width_however_long_another_ran(
    old: str, new: str, most: int
) -> None:
    hour, long = (after(history_s, [("A", old, most)], [("A", new)]) for history_s in (HOUR_S, LONG_S))

    assert hour == long
    if old == new and most == CORES:
        assert by_queue(hour) == {"A": CORES}
        assert hour["new-0"] == hour["old-0"]
