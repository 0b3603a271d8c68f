"""The one order of names: what people expect, so `n-2` comes before `n-10`.

Every order in Muster is total and ends in a name; this is how two names compare.
"""

from __future__ import annotations

from zlib import crc32

NameKey = tuple[str, int, str]


def name_key(name: str) -> NameKey:
    """Sort key of a name: its stem, the number it ends in (none: -1), then the name itself."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return (stem, int(digits) if digits else -1, name)


def name_mark(name: str) -> int:
    """A number made of the name: a tie is broken by it where a million names cannot be put in order in time."""
    return crc32(name.encode())
