"""Values that are made when someone looks: a turn reads and writes columns, and most objects are never needed.

Made once, they are kept, and are from then on what a tuple or a dict would be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeVar, cast, overload

T = TypeVar("T")


class Made(Sequence[T]):
    """A tuple that is made when someone looks into it; its length may be known before.

    One that `passes` is not kept for those who just go through it: it may be long, and is made anew for each.
    """

    __slots__ = ("_made", "_make", "_passes", "_size")

    def __init__(self, make: Callable[[], Iterable[T]], size: int | None = None, *, passes: bool = False) -> None:
        self._make = make
        self._size = size
        self._passes = passes
        self._made: tuple[T, ...] | None = None

    def all(self) -> tuple[T, ...]:
        """All of it, from now on kept."""
        if self._made is None:
            self._made = tuple(self._make())
        return self._made

    def __len__(self) -> int:
        return len(self.all()) if self._size is None else self._size

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        return self.all()[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._make() if self._passes and self._made is None else self.all())

    def __eq__(self, other: object) -> bool:
        return self.all() == (other.all() if isinstance(other, Made) else other)

    def __hash__(self) -> int:
        return hash(self.all())

    def __repr__(self) -> str:
        return repr(self.all())

    def __reduce__(self) -> tuple[type[tuple[T, ...]], tuple[tuple[T, ...]]]:
        return tuple, (self.all(),)


class MadeMapping(Mapping[str, T]):
    """A dict that is made when someone looks into it; its keys may be known before."""

    __slots__ = ("_made", "_make", "_names")

    def __init__(self, make: Callable[[], dict[str, T]], names: Collection[str] | None = None) -> None:
        self._make = make
        self._names = names
        self._made: dict[str, T] | None = None

    def all(self) -> dict[str, T]:
        """All of it, from now on kept."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def _keys(self) -> Collection[str]:
        return self.all() if self._names is None else self._names

    def __len__(self) -> int:
        return len(self._keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __getitem__(self, name: str) -> T:
        return self.all()[name]

    def __repr__(self) -> str:
        return repr(self.all())

    def __reduce__(self) -> tuple[type[dict[str, T]], tuple[dict[str, T]]]:
        return dict, (self.all(),)


def tuples(kind: type[T], *columns: Iterable[object]) -> Iterator[T]:
    """Named tuples from columns, up to the end of the shortest. For many, `kind(...)` one by one takes far longer."""
    made: Any = map(tuple.__new__, repeat(kind), zip(*columns, strict=False))
    return cast(Iterator[T], made)
