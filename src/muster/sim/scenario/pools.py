"""Pools: the key `pools`, what `setPool` changes, and every mention of a pool by its name.

A pool may be made by an entry or, later, by an event; so names are held against all of them once both were read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muster.documents.fields import Fields
from muster.documents.problems import Problems, quoted
from muster.documents.scalars import as_name
from muster.documents.values import Map
from muster.model.errors import InvalidValue
from muster.model.labels import parse_selector
from muster.model.names import name_key
from muster.model.pools import DEFAULT_NAME, Pool, as_pool

_SWITCHES = {"disableSharing": "shares", "disableBorrowing": "borrows", "disablePreemption": "preempts"}
_LABELS = "matchLabels"


@dataclass(frozen=True, slots=True)
class Mention:
    """A pool that is named somewhere, and must be made somewhere else."""

    name: str
    line: int
    path: str
    problems: Problems


@dataclass(slots=True)
class Pools:
    """Every pool of the file: those there from the beginning, and the names of all that are ever made."""

    first: dict[str, Pool] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    where: str = "this file"
    _mentions: list[Mention] = field(default_factory=list)

    def read(self, top: Fields) -> None:
        """Take in the key `pools`."""
        lines: dict[str, int] = {}
        for fields in top.entries("pools", "pool"):
            name, changes = self.changes(fields)
            if name in lines:
                fields.refuse("name", f"a pool of that name is on line {lines[name]}: names are unique")
            elif name is not None:
                lines[name] = fields.line
                self.first[name] = Pool(name=name, **changes)

    def changes(self, fields: Fields) -> tuple[str | None, dict[str, Any]]:
        """The pool that an entry is about, which it makes if there is none, and what it says of its settings."""
        name = fields.required_name("name")
        if name is not None and name != DEFAULT_NAME:
            self.names.add(name)
        given: dict[str, Any] = {}
        is_given = fields.get("nodeSelector") is not None
        if is_given and name == DEFAULT_NAME:
            fields.refuse("nodeSelector", "no selector: the default pool has the nodes that no other has for itself")
        elif is_given:
            given["selector"] = _selector(fields)
        for key, setting in _SWITCHES.items():
            is_disabled = fields.boolean(key, False)
            if fields.has(key):
                given[setting] = not is_disabled
        lenders, keep = self._lenders(fields), fields.quota("keep")
        if fields.has("borrowingPools"):
            given["borrows_from"] = lenders
        if fields.has("keep"):
            given["keep"] = keep
        fields.close()
        return None if name is None else as_pool(name), given

    def named(self, fields: Fields, key: str) -> str | None:
        """The pool under a key, which must be made somewhere; None when it is absent or wrong."""
        value = fields.get(key)
        if value is None:
            return None
        name = fields.name(key)
        if name is not None:
            self._mentions.append(Mention(name, value.line, fields.path_of(key), fields.problems))
        return None if name is None else as_pool(name)

    def check(self) -> None:
        """Note every name that no pool ever has."""
        for mention in self._mentions:
            if mention.name != DEFAULT_NAME and mention.name not in self.names:
                mention.problems.refuse(mention.path, mention.line, quoted(mention.name), self.allowed())

    def allowed(self) -> str:
        """What is allowed where a pool belongs."""
        return f"a pool of {self.where}: {', '.join([DEFAULT_NAME, *sorted(self.names, key=name_key)])}"

    def _lenders(self, fields: Fields) -> tuple[str, ...]:
        names = set()
        for item, path in fields.items("borrowingPools"):
            name = as_name(item, path, fields.problems)
            if name is not None:
                names.add(as_pool(name))
                self._mentions.append(Mention(name, item.line, path, fields.problems))
        return tuple(sorted(names, key=name_key))


def _selector(fields: Fields) -> dict[str, str]:
    """Labels, as Kubernetes' `{matchLabels: {…}}` or in short."""
    value = fields.get("nodeSelector")
    if not isinstance(value, Map) or not isinstance(value.values.get(_LABELS), Map):
        return _labels(fields, "nodeSelector")
    inner = fields.mapping("nodeSelector", "nodeSelector")
    labels = _labels(inner, _LABELS)
    inner.close()
    return labels


def _labels(fields: Fields, key: str) -> dict[str, str]:
    labels = fields.texts(key)
    for name, value in labels.items():
        try:
            parse_selector({name: value}, path=key)
        except InvalidValue as err:
            fields.refuse_invalid(err)
    return labels
