"""Names that entries with a `count` stand for, and what depends on an entry's index.

`{name: n, count: 3}` is n-0, n-1 and n-2. A Roster knows all such names without listing them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from muster.documents.fields import Fields
from muster.documents.scalars import MOST_NAME

MOST_COUNT = 1_000_000

_LONGEST_INDEX = len(f"-{MOST_COUNT}")

_INDEXED = re.compile(r"(.+)-(0|[1-9][0-9]{0,6})")
_PLACEHOLDER = re.compile(r"\{i(?:(//|%)([1-9][0-9]{0,6}))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A name and what it stands for. `count` None: just the name; else the name with each index."""

    name: str
    count: int | None
    line: int

    def __len__(self) -> int:
        return 1 if self.count is None else self.count

    def names(self) -> list[str]:
        """All names it stands for, in order of index."""
        return [self.name] if self.count is None else [f"{self.name}-{index}" for index in range(self.count)]


@dataclass(slots=True)
class Roster:
    """The entries of one kind (jobs or nodes) in the whole file."""

    what: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, fields: Fields, entry: Entry) -> bool:
        """Take an entry in; False, with a problem noted, when its name is taken."""
        taken = self.entries.get(entry.name)
        if taken is not None:
            fields.refuse("name", f"a {self.what} of that name is on line {taken.line}: names are unique")
            return False
        self.entries[entry.name] = entry
        return True

    def clashes(self) -> list[tuple[Entry, Entry]]:
        """Entries without a count whose name an entry with a count stands for as well."""
        found = []
        for entry in self.entries.values():
            other = self._counted(entry.name) if entry.count is None else None
            if other is not None:
                found.append((entry, other))
        return found

    def one(self, name: str) -> Entry | None:
        """The entry that `name` is one of; None when there is no such name."""
        entry = self.entries.get(name)
        return entry if entry is not None and entry.count is None else self._counted(name)

    def entry_of(self, name: str) -> Entry | None:
        """The entry that `name` is one of, or stands for as a whole."""
        return self.one(name) or self.entries.get(name)

    def size(self, name: str) -> int:
        """How many names `name` means."""
        entry = self.entry_of(name)
        return 0 if entry is None else 1 if self.one(name) else len(entry)

    def meant(self, name: str) -> list[str]:
        """The names that `name` means: itself, or all of an entry with a count."""
        entry = self.entry_of(name)
        return [] if entry is None else [name] if self.one(name) else entry.names()

    def _counted(self, name: str) -> Entry | None:
        match = _INDEXED.fullmatch(name)
        entry = self.entries.get(match[1]) if match else None
        if match is None or entry is None or entry.count is None or int(match[2]) >= entry.count:
            return None
        return entry


def read_name(fields: Fields) -> tuple[str | None, int | None]:
    """The keys `name` and `count` of an entry."""
    name = fields.required_name("name")
    count = fields.optional_integer("count", 1, MOST_COUNT)
    if name is not None and count is not None and len(name) > MOST_NAME - _LONGEST_INDEX:
        fields.refuse("name", f"with a count, a name of at most {MOST_NAME - _LONGEST_INDEX} characters")
    return name, count


def expand(template: str, index: int) -> str:
    """`{i}`, `{i//4}` and `{i%4}` replaced by the index, its quotient and its remainder."""

    def number(match: re.Match[str]) -> str:
        match match[1]:
            case "//":
                return str(index // int(match[2]))
            case "%":
                return str(index % int(match[2]))
        return str(index)

    return _PLACEHOLDER.sub(number, template) if "{" in template else template


def longest(template: str, count: int) -> str:
    """An expansion no shorter than any for an index below `count`, to check what all of them must obey."""
    return _PLACEHOLDER.sub(str(count - 1), template)
