"""Numbers for names: columns know things by their number."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Numbers(Generic[T]):
    """Numbers for names, in order of appearance."""

    def __init__(self) -> None:
        self.names: list[T] = []
        self._number: dict[T, int] = {}

    def number(self, name: T) -> int:
        """The number of a name, a new one if it was never seen."""
        known = self._number.get(name)
        if known is None:
            known = self._number[name] = len(self.names)
            self.names.append(name)
        return known

    def number_all(self, names: Iterable[T]) -> list[int]:
        """The number of each of many names; none of them comes twice."""
        names = list(names)
        new = [name for name in names if name not in self._number]
        self._number.update(zip(new, count(len(self.names))))
        self.names += new
        return list(map(self._number.__getitem__, names))

    def __contains__(self, name: object) -> bool:
        return name in self._number

    def __getitem__(self, name: T) -> int:
        return self._number[name]

    def __len__(self) -> int:
        return len(self.names)

    def copy(self) -> Numbers[T]:
        """The same numbers, to go on by themselves."""
        other = Numbers[T]()
        other.names, other._number = list(self.names), dict(self._number)
        return other
