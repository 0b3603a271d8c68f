"""Sums that change with every event: plain numbers, made into values when someone asks."""

from __future__ import annotations

from typing import NamedTuple

from muster.model.flow import Account, faded
from muster.model.jobs import Profile, Task, least_usage_of, resources_of, usage_of
from muster.model.resources import Resources, Weights, counted


class Tally:
    """Amounts that come and go."""

    __slots__ = ("_amounts", "_made")

    def __init__(self) -> None:
        self._amounts: dict[str, int] = {}
        self._made: Resources | None = None

    def add(self, resources: Resources, times: int) -> None:
        """So many times these amounts more, or (below zero) less."""
        amounts = self._amounts
        for name, amount in resources.items():
            amounts[name] = amounts.get(name, 0) + amount * times
        self._made = None

    def get(self, name: str) -> int:
        """One amount."""
        return self._amounts.get(name, 0)

    def amounts(self) -> Resources:
        """All of them, as a value."""
        if self._made is None:
            self._made = counted(self._amounts)
        return self._made

    def copy(self) -> Tally:
        """The same amounts, to go on by themselves."""
        other = Tally()
        other._amounts, other._made = dict(self._amounts), self._made
        return other


class Meter:
    """An account that follows usage."""

    __slots__ = ("_as_of_ms", "_flow", "_half_time_ms", "_service", "_usage")

    def __init__(self, half_time_ms: int) -> None:
        self._half_time_ms = half_time_ms
        self._usage = self._flow = self._as_of_ms = self._service = 0

    def change(self, by: int, now_ms: int) -> None:
        """Usage changes now."""
        if now_ms != self._as_of_ms:
            memory = faded(self._flow - self._usage, now_ms - self._as_of_ms, self._half_time_ms)
            self._service += self._usage * (now_ms - self._as_of_ms)
            self._flow, self._as_of_ms = self._usage + memory, now_ms
        self._usage += by
        self._flow = max(self._flow, self._usage)

    def account(self) -> Account:
        """The account as of the last change."""
        return Account(usage=self._usage, flow=self._flow, as_of_ms=self._as_of_ms, service=self._service)

    def recall(self, account: Account) -> None:
        """Flow and service were so much then, as was found written down; what is used now is known."""
        self._flow, self._as_of_ms = max(account.flow, self._usage), account.as_of_ms
        self._service = account.service

    def serve(self, more: int) -> None:
        """So much more service counts, or (below zero) less, as if it had been given before."""
        self._service += more

    def copy(self) -> Meter:
        """The same account, to go on by itself."""
        other = Meter(self._half_time_ms)
        other._usage, other._flow = self._usage, self._flow
        other._as_of_ms, other._service = self._as_of_ms, self._service
        return other


class Measure(NamedTuple):
    """What some tasks of a job use and hold."""

    usage: int
    resources: Resources


class Measures:
    """What tasks measure, worked out once for each profile and width."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._by_width: dict[tuple[Profile, tuple[int, ...]], Measure] = {}
        self._least: dict[Profile, int] = {}

    def of(self, profile: Profile, tasks: tuple[Task, ...]) -> Measure:
        """What these tasks measure."""
        if len(profile.groups) == 1:
            widths: tuple[int, ...] = (len(tasks),)
        else:
            widths = tuple(sum(task.group == group.name for task in tasks) for group in profile.groups)
        measure = self._by_width.get((profile, widths))
        if measure is None:
            usage, resources = usage_of(profile, tasks, self._weights), resources_of(profile, tasks)
            measure = self._by_width[profile, widths] = Measure(usage, resources)
        return measure

    def least_usage(self, profile: Profile) -> int:
        """Usage of a job at its min."""
        usage = self._least.get(profile)
        if usage is None:
            usage = self._least[profile] = least_usage_of(profile, self._weights)
        return usage
