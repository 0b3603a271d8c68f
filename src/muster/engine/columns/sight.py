"""A sight of something that state keeps, good until that goes on."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Kept(Protocol):
    """What state keeps up to date; its version changes whenever it does."""

    @property
    def version(self) -> int:
        """Another one with every change."""


T = TypeVar("T", bound=Kept)


class Sight(Generic[T]):
    """Something kept by state, as it is now; once it has gone on there is nothing to see."""

    __slots__ = ("_kept", "_version")

    def __init__(self, kept: T) -> None:
        self._kept = kept
        self._version = kept.version

    def seen(self) -> T | None:
        """What was there to see, if it still is as it was."""
        return self._kept if self._kept.version == self._version else None
