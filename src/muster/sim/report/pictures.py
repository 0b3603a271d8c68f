"""Which plots the page has, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from muster.model.resources import units_of
from muster.sim.measures import Measured
from muster.sim.measures.division import Floats
from muster.sim.measures.jobs import width_classes
from muster.sim.report import words
from muster.sim.report.axes import Axis, count_axis, log_axis, log_time_axis, part_axis, time_axis
from muster.sim.report.plots import HEIGHT, MOST_POINTS, Line, Plot, coarse, fewer, figure

MOST_QUEUES = 12  # that have a plot of their own
_CURVE_POINTS = 160
_MOST_CLASSES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How high a plot is, and how many points it has at most."""

    points: int = MOST_POINTS
    height: int = HEIGHT


_LARGE, _SMALL = Size(), Size(points=240, height=170)


class Pictures:
    """The plots of one simulation."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.course = measured.course

    def use(self) -> str:
        """How much of each resource was held, and how much of the main one by attempts that came to something."""
        lines = [
            Line(name=words.resource(name), values=self.course.used[:, place], colour=number)
            for number, (place, name) in enumerate(self._resources(), 1)
        ]
        for place, name in self._resources()[:1]:
            good = f"goodput of {words.resource(name)}"
            lines.append(Line(name=good, values=self.course.good[:, place], colour=1, is_dashed=True))
        means = [
            f"{words.resource(name)} {words.percent(part)} (goodput {words.percent(self.measured.good[name])})"
            for name, part in self.measured.used.items()
        ]
        told = f"On average: {words.listed(means)}." if means else "There is nothing to use."
        return self._over_time("Part of the fleet in use", lines, _whole_axis, told=told)

    def jobs(self) -> str:
        """How many jobs waited and ran."""
        lines = [
            Line(name="waiting", values=self.course.waiting, colour=2),
            Line(name="running", values=self.course.running, colour=1),
        ]
        most = f"At most {words.count(self.course.waiting.max(initial=0))} waited on average over a step."
        return self._over_time("Jobs waiting and running", lines, count_axis, told=most)

    def idle(self) -> str:
        """What was idle although jobs waited, and what no waiting task could use."""
        name = words.resource(self.measured.main)
        unusable = np.zeros(len(self.course.waiting))
        times = np.array(self.course.times_ms)
        for look, end_ms in self.measured.looked():
            unusable[(times + self.course.step_ms > look.at_ms) & (times < end_ms)] = look.unusable
        lines = [
            Line(name="idle while jobs waited for as much", values=self.course.asked, colour=3, is_area=True),
            Line(name="idle where no waiting task fits", values=unusable / max(self.measured.capacity, 1), colour=2),
        ]
        told = f"On average {words.percent(self.measured.asked)} and {words.percent(self.measured.unusable)}."
        return self._over_time(f"Idle {name} that waiting jobs could not get", lines, part_axis, told=told)

    def queues(self) -> Iterator[str]:
        """Share held against entitled share, of the queues that were entitled to most."""
        for number in self.shown_queues():
            name, queue = self.course.queues[number], self.measured.fairness.queues[number]
            lines = [
                Line(name="held", values=self.course.held[:, number], colour=1, is_area=True),
                Line(name="entitled to", values=self.course.entitled[:, number], colour=2),
            ]
            told = (
                f"Held {words.percent(queue.held)} of the fleet on average, was entitled to "
                f"{words.percent(queue.entitled)}; shortfall {words.percent(queue.shortfall)}."
            )
            yield self._over_time(name or "(no queue)", lines, part_axis, told=told, size=_SMALL)

    def shown_queues(self) -> list[int]:
        """The places of those queues, the most entitled first."""
        queues = self.measured.fairness.queues
        counted = [place for place, queue in enumerate(queues) if queue.entitled or queue.held]
        return sorted(counted, key=lambda place: (-queues[place].entitled, queues[place].name))[:MOST_QUEUES]

    def waits(self) -> str:
        """The part of jobs that waited no longer than so."""
        waits = self.measured.jobs.wait_s
        across = log_time_axis(float(np.nanmax(waits, initial=1.0)) if not np.isnan(waits).all() else 1.0)
        return self._curves("Jobs that waited at most so long", waits, across, words.duration)

    def slowdowns(self) -> str:
        """The part of jobs that were slowed down no more than so."""
        slow = self.measured.jobs.slowdown
        across = log_axis(float(np.nanmax(slow, initial=1.0)) if not np.isnan(slow).all() else 1.0)
        return self._curves("Jobs with at most this bounded slowdown", slow, across, words.number)

    # -- how they are drawn ----------------------------------------------------------------------------

    def _resources(self) -> list[tuple[int, str]]:
        return sorted(enumerate(self.course.resources), key=lambda it: (it[1] != self.measured.main, it[1]))

    def _over_time(
        self,
        title: str,
        lines: list[Line],
        up: Callable[[float], Axis],
        *,
        told: str,
        size: Size = _LARGE,
    ) -> str:
        times = fewer(len(self.course.waiting), size.points)
        drawn = [replace(line, values=coarse(line.values, times)) for line in lines]
        most = max((float(line.values.max(initial=0.0)) for line in drawn), default=0.0)
        step_s, end_s = times * self.course.step_ms / 1000, self.course.end_ms / 1000
        plot = Plot(
            title=title,
            told=told,
            across=time_axis(end_s, 5),
            up=up(most),
            at=[number * step_s for number in range(len(coarse(self.course.waiting, times)))],
            lines=drawn,
            say_at=lambda at: f"{words.duration(at)} – {words.duration(min(at + step_s, end_s))}",
            say=words.number if up is count_axis else words.percent,
            height=size.height,
        )
        return figure(plot, note=told)

    def _curves(self, title: str, values: Floats, across: Axis, say_at: Callable[[float], str]) -> str:
        """Of all jobs and of each class of width, the part that is not above each value."""
        points = np.geomspace(across.low, across.high, _CURVE_POINTS)
        known = ~np.isnan(values)
        groups = [("all jobs", known)]
        classes = [(name, which & known) for name, which in width_classes(self.measured.jobs.width, self.measured.unit)]
        if len(classes) > 1:
            largest = {name for name, _ in sorted(classes, key=lambda it: -int(it[1].sum()))[:_MOST_CLASSES]}
            groups += [(_class(name, self.measured.main), which) for name, which in classes if name in largest]
        lines = [
            Line(name=name, values=_at_most(values[which], points), colour=number)
            for number, (name, which) in enumerate(groups, 1)
            if which.any()
        ]
        middle = float(np.median(values[known])) if known.any() else None
        plot = Plot(
            title=title,
            told="Nothing to show." if middle is None else f"Half of all jobs: at most {say_at(middle)}.",
            across=across,
            up=part_axis(1.0),
            at=points.tolist(),
            lines=lines,
            say_at=lambda at: f"at most {say_at(at)}",
            say=words.percent,
            is_stepped=False,
        )
        return figure(plot, note=plot.told)


def _at_most(values: Floats, points: Floats) -> Floats:
    """The part of the values that are not above each point."""
    part: Floats = np.searchsorted(np.sort(values), points, side="right") / len(values)
    return part


def _class(name: str, main: str) -> str:
    if name == "none":
        return f"no {words.resource(main)}"
    return words.amount(main, units_of(main)) if name == "1" else f"{name} {words.resource(main)}"


def _whole_axis(most: float) -> Axis:
    """From nothing to everything, whatever there is to show."""
    return part_axis(max(most, 1.0))
