"""What a snapshot shows of the columns that state keeps: a sight of each, good until they go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from muster.engine.floor import Floor
    from muster.engine.roll import Roll
    from muster.engine.runs import Runs


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Queued jobs, running jobs and nodes, as state keeps them for the engine.

    A snapshot that is stored goes without them.
    """

    roll: Sight[Roll]
    runs: Sight[Runs]
    floor: Sight[Floor]

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()
