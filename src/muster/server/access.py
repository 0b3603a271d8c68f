"""Tokens, and what whoever has one may do.

A token is shown once, when it is made; the store keeps its hash. An admin may do everything; others may submit to,
cancel in, or view the queues they were given ("*": all of them), or speak for the cluster whose agent they are. The
owners of a queue have every right in it, and operate its jobs as an admin does; its settings are an admin's to change.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.model.queues import Queue
from muster.store.rows import Thing

KIND = "token"
ALL = "*"
RIGHTS = ("submit", "cancel", "view")


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Someone with a token. `queues`: what they may do in each; `cluster`: whose agent they are.

    `owns`: the queues whose owner they are now.
    """

    name: str
    is_admin: bool = False
    queues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cluster: str = ""
    owns: frozenset[str] = frozenset()

    def operates(self, queue: str) -> bool:
        """Whether they may do all to the jobs of the queue."""
        return self.is_admin or queue in self.owns

    def may(self, right: str, queue: str) -> bool:
        """Whether they may do that in the queue. Who may submit or cancel may look."""
        if self.operates(queue):
            return True
        given = {*self.queues.get(queue, ()), *self.queues.get(ALL, ())}
        return right in given or (right == "view" and bool(given))

    def speaks_for(self, cluster: str) -> bool:
        """Whether they are the agent of the cluster."""
        return self.is_admin or self.cluster == cluster


def new_token() -> str:
    """Something nobody can guess, and that is recognised as ours where it leaks."""
    return f"muster_{secrets.token_urlsafe(32)}"


def digest(token: str) -> str:
    """What is kept of a token. It is random and long, so a plain hash cannot be turned back."""
    return hashlib.sha256(token.encode()).hexdigest()


def as_thing(who: Who, token: str) -> Thing:
    """How the store keeps a token: by its hash, which is its name."""
    body = {
        "name": who.name,
        "admin": who.is_admin,
        "queues": {queue: list(rights) for queue, rights in who.queues.items()},
        "cluster": who.cluster,
    }
    return Thing(kind=KIND, name=digest(token), body=body)


class Access:
    """Everyone who may come in."""

    def __init__(self, things: Iterable[Thing]) -> None:
        self._known = {thing.name: _who(thing.body) for thing in things}
        self._queues: Mapping[str, Queue] = {}
        self._owned: Mapping[str, frozenset[str]] = {}

    def who(self, token: str, queues: Mapping[str, Queue]) -> Who | None:
        """Whose token that is, if anyone's; with those of the queues that they own."""
        who = self._known.get(digest(token))
        if who is None:
            return None
        if queues is not self._queues:  # which is replaced when a queue changes
            self._owned, self._queues = _owned(queues), queues
        owns = self._owned.get(who.name)
        return replace(who, owns=owns) if owns else who

    def is_known(self, hashed: str) -> bool:
        """Whether that is the hash of a token of someone."""
        return hashed in self._known

    def add(self, thing: Thing) -> None:
        """A token was made."""
        self._known[thing.name] = _who(thing.body)

    def names(self) -> dict[str, Who]:
        """Everyone by the first letters of their token's hash."""
        return {hashed[:12]: who for hashed, who in self._known.items()}

    def hash_of(self, short: str) -> str | None:
        """The hash that begins with these letters, if there is such a one."""
        return next((hashed for hashed in self._known if hashed.startswith(short)), None)

    def remove(self, hashed: str) -> None:
        """A token was taken back."""
        self._known.pop(hashed, None)


def _owned(queues: Mapping[str, Queue]) -> dict[str, frozenset[str]]:
    """The queues of each owner."""
    owned: dict[str, set[str]] = {}
    for queue in queues.values():
        for owner in queue.owners:
            owned.setdefault(owner, set()).add(queue.name)
    return {owner: frozenset(names) for owner, names in owned.items()}


def _who(body: Mapping[str, Any]) -> Who:
    queues = {queue: tuple(rights) for queue, rights in body["queues"].items()}
    return Who(name=body["name"], is_admin=body["admin"], queues=queues, cluster=body["cluster"])
