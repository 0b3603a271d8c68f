"""`dataclass` for values that are made by the thousand.

Those that are frozen are so for the type checker, which sees the standard one, and for whoever reads them. At run time
nothing keeps anyone from changing one: to make a value whose class does takes three times as long, which came to a
twentieth of all that a busy server does.

    if TYPE_CHECKING:
        from dataclasses import dataclass
    else:
        from muster.model.quick import dataclass
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def dataclass(*, frozen: bool, slots: bool, kw_only: bool, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """A dataclass that compares and hashes as one with these settings does, and may be changed."""
    assert frozen

    def made(cls: type[T]) -> type[T]:
        hashes = eq and "__hash__" not in cls.__dict__
        return dataclasses.dataclass(slots=slots, kw_only=kw_only, eq=eq, unsafe_hash=hashes)(cls)

    return made
