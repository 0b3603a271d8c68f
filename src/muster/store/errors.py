"""What can go wrong with a store, as one tree.

MusterError
├── InvalidValue
│   └── BadBatch        a batch that no store could take: nothing of it was written
└── StoreError
    ├── AlreadyThere    a new job has the id, or the client's id, of one that is there: nothing was written
    ├── Expired         events from that far back have been forgotten (the 410 of the API)
    ├── NewerSchema     the database was written by a newer Muster
    ├── OlderSchema     the database was written by an older Muster, and was not to be upgraded now
    ├── BackupFailed    no backup was made
    └── StoreDown       the database cannot be reached, or has no room; trying again may help
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.model.errors import InvalidValue, MusterError

_NAMED = 5  # so many ids are named in a message


class StoreError(MusterError):
    """Something about the store went wrong."""


class BadBatch(InvalidValue):
    """A batch that no store could take: nothing of it was written."""


class AlreadyThere(StoreError):
    """Jobs that cannot be new: `ids` are there already, and so are the clients' ids in `client_ids`."""

    def __init__(self, ids: Iterable[str], client_ids: Iterable[str] = ()) -> None:
        self.ids = tuple(ids)
        self.client_ids = tuple(client_ids)
        super().__init__(self.ids, self.client_ids)

    def __str__(self) -> str:
        parts = (_named("job", self.ids), _named("client id", self.client_ids))
        return f"there already: {', '.join(part for part in parts if part)}"


class Expired(StoreError):
    """Events after `after` were asked for, and those before `oldest` have been forgotten."""

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(after, oldest)
        self.after = after
        self.oldest = oldest

    def __str__(self) -> str:
        return (
            f"events after {self.after} are no longer kept; the oldest kept is {self.oldest}: read the jobs anew, "
            f"then go on with events after {self.oldest - 1} or later"
        )


class NewerSchema(StoreError):
    """The database has schema `found`, which this Muster, made for `known`, does not know."""

    def __init__(self, found: str, known: str) -> None:
        super().__init__(found, known)
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"the database has schema {self.found}, and this Muster knows schemas up to {self.known}: "
            "it was written by a newer Muster; use that one, or a backup from before the upgrade"
        )


class OlderSchema(StoreError):
    """The database has schema `found` (nothing yet where that is empty), and this Muster needs `known`."""

    def __init__(self, found: str, known: str) -> None:
        super().__init__(found, known)
        self.found = found
        self.known = known

    def __str__(self) -> str:
        has = f"schema {self.found}" if self.found else "no schema of Muster"
        return f"the database has {has}, and this Muster needs {self.known}: run `muster db upgrade`"


class BackupFailed(StoreError):
    """No backup was made, and why."""


class StoreDown(StoreError):
    """The database cannot be reached or cannot write. A batch that met this is there whole or not at all."""


def _named(what: str, ids: tuple[str, ...]) -> str:
    if not ids:
        return ""
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return f"{what} {', '.join(ids[:_NAMED])}{more}"
