"""How fast training jobs really are, as Pollux measured it: step times by placement, and what a step is worth.

A folder for each application holds `placements.csv` (step and synchronisation time by GPUs on each node and local batch
size), `scalability.csv` (the same by nodes and replicas, for more nodes) and `validation-<batch size>.csv` (progress,
gradient statistics by epoch). What was not measured lies on straight lines between its neighbours. With a fixed batch
size a job is so many steps, and a wider one takes shorter steps.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from muster.documents.problems import Problem
from muster.sim.traces.lines import Line, TraceError, lines

Placement = tuple[int, ...]
"""GPUs on each node, in ascending order."""

EPOCHS = {"bert": 2, "cifar10": 100, "deepspeech2": 80, "imagenet": 90, "ncf": 10, "yolov3": 50}
_MOST_LOCAL = {"yolov3": 8}  # larger local batches were measured, but do not fit into memory with all inputs
_SLACK = 1e-8


class Times(NamedTuple):
    """Seconds of a step, and the part of it that replicas wait for each other."""

    step: float
    sync: float


class Epoch(NamedTuple):
    """What training with one batch size had come to by the end of an epoch."""

    progress: float
    square: float
    variance: float


Series = list[tuple[float, Times]]


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """One kind of job: step times by placement, and by nodes and replicas; epochs by batch size."""

    name: str
    by_placement: dict[Placement, Series]
    by_nodes: dict[int, dict[int, Series]]
    epochs: dict[int, list[Epoch]]

    @property
    def least_local(self) -> int:
        """The smallest local batch that was measured."""
        return int(min(size for series in self.by_placement.values() for size, _ in series))

    @property
    def most_local(self) -> int:
        """The largest local batch that fits."""
        largest = int(max(size for series in self.by_placement.values() for size, _ in series))
        return _MOST_LOCAL.get(self.name, largest)

    def seconds(self, batch: int, placement: Placement) -> int:
        """How long a job runs in all with a batch size and at a placement; each epoch takes whole seconds."""
        local, more = self._local(batch, sum(placement))
        times = self._times(placement, local)
        step = times.step + (times.step - times.sync) * more
        gains = self._gains(sum(placement) * local * (more + 1))
        return sum(round(part / gain * step) for part, gain in zip(self._parts(), gains, strict=True))

    def _local(self, batch: int, replicas: int) -> tuple[int, int]:
        """The batch of one replica at a time, and how many more it puts together before a step."""
        share = math.ceil(batch / replicas - _SLACK)
        more = math.ceil(share / self.most_local - _SLACK) - 1
        if replicas == 1 and batch > min(self.epochs):
            more = max(more, 1)
        local = math.ceil(share / (more + 1) - _SLACK)
        return min(local, max(self.epochs) // (replicas * (more + 1))), more

    def _parts(self) -> list[float]:
        """The progress of each epoch."""
        reached = [min(each[epoch].progress for each in self.epochs.values()) for epoch in range(EPOCHS[self.name])]
        return [after - before for before, after in zip([0.0, *reached], reached, strict=False)]

    def _gains(self, batch: int) -> list[float]:
        """What one step is worth in each epoch."""
        sizes = sorted(self.epochs)
        batch = min(max(batch, sizes[0]), sizes[-1])
        low = max(size for size in sizes if size <= batch)
        high = min(size for size in sizes if size >= batch)
        part, scale = (0.0 if low == high else (batch - low) / (high - low)), batch / sizes[0]
        gains = []
        for one, other in zip(self.epochs[low], self.epochs[high], strict=False):
            square = one.square + (other.square - one.square) * part
            variance = one.variance + (other.variance - one.variance) * part
            gains.append((variance + square) / (variance / scale + square))
        return gains[: EPOCHS[self.name]]

    def _times(self, placement: Placement, local: int) -> Times:
        if placement in self.by_placement:
            return _at(self.by_placement[placement], local)
        replicas, measured = sum(placement), sorted(self.by_nodes)
        nodes = min(len(placement), measured[-1])
        above = measured[bisect_left(measured, nodes)]
        below = nodes if above == nodes else measured[bisect_left(measured, nodes) - 1]
        around: Series = [
            (
                count,
                _at([(many, _at(series, local)) for many, series in sorted(self.by_nodes[count].items())], replicas),
            )
            for count in sorted({below, above})
        ]
        return _at(around, nodes)


def _at(series: Sequence[tuple[float, Times]], place: float) -> Times:
    """The times at a place: on the line between the two around it, or those at the end it lies beyond."""
    right = bisect_left(series, place, key=lambda point: point[0])
    if right == 0 or right == len(series):
        return series[min(right, len(series) - 1)][1]
    (low, before), (high, after) = series[right - 1], series[right]
    part = (place - low) / (high - low)
    return Times(*(one + (other - one) * part for one, other in zip(before, after, strict=True)))


# --- reading ------------------------------------------------------------------------------------


@cache
def application(folder: str) -> Application:
    """The application of a folder; raises TraceError."""
    path = Path(folder)
    by_placement: dict[Placement, Series] = {}
    sums: dict[tuple[int, int, float], list[Times]] = {}
    for line in _rows(path / "placements.csv", 4):
        placement = _placement(line)
        size, times = _measured(line, 1)
        by_placement.setdefault(placement, []).append((size, times))
        sums.setdefault((len(placement), sum(placement), size), []).append(times)
    by_nodes: dict[int, dict[int, Series]] = {}
    for (nodes, replicas, size), found in sums.items():
        mean = Times(*(sum(column) / len(found) for column in zip(*found, strict=True)))
        by_nodes.setdefault(nodes, {}).setdefault(replicas, []).append((size, mean))
    for line in _rows(path / "scalability.csv", 5):
        nodes, replicas = line.whole(0, "num_nodes", least=1), line.whole(1, "num_replicas", least=1)
        by_nodes.setdefault(nodes, {}).setdefault(replicas, []).append(_measured(line, 2))
    for series in [*by_placement.values(), *(each for some in by_nodes.values() for each in some.values())]:
        series.sort()
    epochs = {_batch_size(file): _epochs(file, EPOCHS[path.name]) for file in sorted(path.glob("validation-*.csv"))}
    for what, found_any in (("placements.csv", by_placement), ("validation-<batch size>.csv", epochs)):
        if not found_any:
            raise TraceError((Problem("", 0, f"{what} with at least one measurement is needed here"),), folder)
    return Application(path.name, by_placement, by_nodes, dict(sorted(epochs.items())))


def _rows(path: Path, fields: int) -> list[Line]:
    """The rows of a file of comma-separated values, without its heading."""
    rows = list(lines(str(path), ","))[1:]
    for row in rows:
        row.must_have(fields, path.name)
    return rows


def _placement(line: Line) -> Placement:
    text = line.parts[0]
    if not text.isdigit() or "0" in text:
        line.refuse("placement", text, "a digit for each node, from 1 to 9")
    return tuple(sorted(map(int, text)))


def _measured(line: Line, place: int) -> tuple[float, Times]:
    size = line.whole(place, "local_bsz", least=1)
    return size, Times(number(line, place + 1, "step_time"), number(line, place + 2, "sync_time"))


def _batch_size(path: Path) -> int:
    size = path.stem.removeprefix("validation-")
    if not size.isdecimal():
        raise TraceError((Problem("", 0, f"{size!r} is not a batch size"),), str(path))
    return int(size)


def _epochs(path: Path, many: int) -> list[Epoch]:
    found = [
        Epoch(number(line, 0, "progress"), number(line, 3, "grad_sqr"), number(line, 4, "grad_var"))
        for line in _rows(path, 5)
    ]
    if len(found) < many:
        raise TraceError((Problem("", 0, f"has {len(found)} epochs; {path.parent.name} has {many}"),), str(path))
    return found


def number(line: Line, place: int, field: str) -> float:
    """A number of at least 0."""
    text = line.parts[place]
    try:
        found = float(text)
    except ValueError:
        line.refuse(field, text, "a number")
    if not 0 <= found < math.inf:
        line.refuse(field, text, "a number of at least 0")
    return found
