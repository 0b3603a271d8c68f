"""How values are written down: the recorded form of a type follows from its fields and their type hints.

Nothing here knows an event or an action by name, so a new kind of either is recorded without a change. A value becomes
a list of its fields in order, those at the end that have their defaults left out; a record says at its top which fields
and defaults those were, so that both may change. What many jobs share (a profile) is written once and then called by
number.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from muster.model.jobs import Profile
from muster.model.resources import Resources
from muster.state.record.parts import (
    PLAIN,
    REQUIRED,
    Amounts,
    Anything,
    Bare,
    ByName,
    Each,
    Fields,
    Form,
    Json,
    Many,
    Maybe,
    Member,
    Plain,
    Shared,
    Tagged,
    Unreadable,
    named,
)

Schema = dict[str, list[list[Json]]]
"""The fields of each type, in the order in which they are written: [name], or [name, default] where it has one."""

SHARED: tuple[type, ...] = (Profile,)
"""Values that many others have in common."""


class Forms:
    """The forms of one record. `schema`: the fields as the record has them (None: as they are today).

    What is shared gets its number from the order in which it first came, so one Forms writes, or reads, one record.
    """

    def __init__(self, *roots: Any, schema: Schema | None = None) -> None:
        self._schema = schema
        self._named: dict[str, Form] = {}
        self._made: dict[Any, Form] = {}
        self.schema: Schema = {}
        self.roots = [self.of(root) for root in roots]

    def of(self, hint: Any) -> Form:
        """The form of what a type hint allows."""
        if hint not in self._made:
            self._made[hint] = self._make(hint)
        return self._made[hint]

    def named(self, name: str) -> Form:
        """The form of a type by its name."""
        return named(self._named, name)

    def _make(self, hint: Any) -> Form:
        origin, args = get_origin(hint), get_args(hint)
        if hint is Any:
            return Anything(self._named)
        if hint in PLAIN or hint is type(None):
            return Plain((hint,))
        if origin in (Union, types.UnionType):
            return self._one_of(args)
        if origin is tuple and args[1:] != (...,):
            return Each([self.of(arg) for arg in args])
        if origin in (tuple, list, frozenset):
            return Many(self.of(args[0]), origin)
        if origin is Sequence:
            return Many(self.of(args[0]), tuple)
        if origin is Literal:
            return Bare()
        if isinstance(origin, type) and issubclass(origin, Mapping) and args[0] is str:
            return ByName(self.of(args[1]))
        if isinstance(hint, type):
            return self._of_class(hint)
        raise TypeError(f"no recorded form for {hint!r}")

    def _of_class(self, cls: type) -> Form:
        form: Form
        if issubclass(cls, Enum):
            form = Member(cls)
        elif cls is Resources:
            form = Amounts()
        elif is_dataclass(cls) or hasattr(cls, "_fields"):
            form = self._of_fields(cls)
        else:
            raise TypeError(f"no recorded form for {cls!r}")
        self._named[cls.__name__] = form
        return form

    def _of_fields(self, cls: type) -> Form:
        hints, today = get_type_hints(cls), _defaults(cls)
        recorded = None if self._schema is None else self._schema.get(cls.__name__)
        names = list(today) if recorded is None else [name for name, *_ in recorded]
        if unknown := [name for name in names if name not in today]:
            raise Unreadable(f"{cls.__name__} has a field {unknown[0]!r} that this version of Muster does not know")
        forms = {name: self.of(hints[name]) for name in names}
        # The defaults are those of the time of writing: they may have changed since.
        defaults = today if recorded is None else {name: _default(forms[name], rest) for name, *rest in recorded}
        self.schema[cls.__name__] = [
            [name] if defaults[name] is REQUIRED else [name, form.write(defaults[name])] for name, form in forms.items()
        ]
        form = Fields(cls, forms, defaults, required=[name for name in today if today[name] is REQUIRED])
        return Shared(form) if cls in SHARED else form

    def _one_of(self, args: Sequence[Any]) -> Form:
        some = [arg for arg in args if arg is not type(None)]
        if len(some) == 1:
            return Maybe(self.of(some[0]))
        values = [arg for arg in some if isinstance(arg, type) and arg not in PLAIN]
        if not values:
            return Bare()
        if unclear := [arg for arg in some if arg not in values and arg not in PLAIN]:
            raise TypeError(f"no recorded form for a choice between {values} and {unclear}: both are lists")
        tagged = Tagged({value.__name__: self.of(value) for value in values}, tuple(set(some) - set(values)))
        return tagged if len(some) == len(args) else Maybe(tagged)


def _default(form: Form, recorded: list[Json]) -> Any:
    """What a field was when it was left out of a record."""
    return form.read(recorded[0]) if recorded else REQUIRED


def _defaults(cls: type) -> dict[str, Any]:
    """What each field is when it is not given."""
    if not is_dataclass(cls):
        given: dict[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
        return {name: given.get(name, REQUIRED) for name in cls._fields}  # type: ignore[attr-defined]
    found: dict[str, Any] = {}
    for each in fields(cls):
        if each.init:
            made = each.default_factory() if each.default_factory is not MISSING else each.default
            found[each.name] = REQUIRED if made is MISSING else made
    return found
