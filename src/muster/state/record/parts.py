"""The forms of single types: each writes its values as json knows them, and reads exactly those back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, Protocol

from muster.model.errors import InvalidValue
from muster.model.resources import Resources

Json = Any
"""What json reads and writes: None, bool, int, float, str, and lists and dicts of these."""

PLAIN = (bool, int, float, str)
REQUIRED = object()
"""Stands where a field has no default."""


class Unreadable(ValueError):
    """What stands in a record is not the form of what should be there."""


class Form(Protocol):
    """How one type is written and read."""

    def write(self, value: Any) -> Json:
        """The recorded form of a value."""

    def read(self, data: Json) -> Any:
        """The value of a recorded form; raises Unreadable."""


class Plain:
    """A number, a text, a truth or nothing: itself."""

    def __init__(self, allowed: tuple[type, ...]) -> None:
        self.allowed = (*allowed, int) if float in allowed else allowed

    def write(self, value: Any) -> Json:
        return value

    def read(self, data: Json) -> Any:
        if type(data) not in self.allowed:
            raise Unreadable(f"{shown_briefly(data)} is not of type {self.allowed[0].__name__}")
        return data


class Bare:
    """One of several things that json knows by itself."""

    def write(self, value: Any) -> Json:
        return value

    def read(self, data: Json) -> Any:
        return data


class Maybe:
    """Something or None."""

    def __init__(self, form: Form) -> None:
        self.form = form

    def write(self, value: Any) -> Json:
        return None if value is None else self.form.write(value)

    def read(self, data: Json) -> Any:
        return None if data is None else self.form.read(data)


class Many:
    """Any number of one kind; sets in order, so that the same set is the same bytes."""

    def __init__(self, form: Form, make: Callable[[list[Any]], Any]) -> None:
        self.form = form
        self.make = make

    def write(self, value: Any) -> Json:
        written = [self.form.write(each) for each in value]
        return sorted(written, key=repr) if self.make is frozenset else written

    def read(self, data: Json) -> Any:
        return self.make([self.form.read(each) for each in _listed(data)])


class Each:
    """A tuple of known length."""

    def __init__(self, forms: list[Form]) -> None:
        self.forms = forms

    def write(self, value: Any) -> Json:
        return [form.write(each) for form, each in zip(self.forms, value, strict=True)]

    def read(self, data: Json) -> Any:
        if len(_listed(data)) != len(self.forms):
            raise Unreadable(f"{len(data)} values where {len(self.forms)} belong")
        return tuple(form.read(each) for form, each in zip(self.forms, data, strict=True))


class ByName:
    """Values by name."""

    def __init__(self, form: Form) -> None:
        self.form = form

    def write(self, value: Any) -> Json:
        return {name: self.form.write(each) for name, each in value.items()}

    def read(self, data: Json) -> Any:
        if type(data) is not dict:
            raise Unreadable(f"{shown_briefly(data)} is not a mapping")
        return {name: self.form.read(each) for name, each in data.items()}


class Member:
    """One of a fixed set, by the name it has in the code: words for people may change."""

    def __init__(self, members: type[Enum]) -> None:
        self.members = members

    def write(self, value: Any) -> Json:
        return value.name

    def read(self, data: Json) -> Any:
        if type(data) is not str or data not in self.members.__members__:
            raise Unreadable(
                f"{shown_briefly(data)} is not a {self.members.__name__} that this version of Muster knows"
            )
        return self.members[data]


class Amounts:
    """Amounts of resources, in base units."""

    def write(self, value: Any) -> Json:
        return dict(value.items())

    def read(self, data: Json) -> Any:
        if type(data) is not dict:
            raise Unreadable(f"{shown_briefly(data)} are not amounts by name")
        try:
            return Resources.of(data)
        except InvalidValue as err:
            raise Unreadable(str(err)) from None


class Fields:
    """A value with fields: a list of them, without those at the end that have their defaults."""

    def __init__(
        self, cls: type, forms: Mapping[str, Form], defaults: Mapping[str, Any], *, required: list[str]
    ) -> None:
        self.cls = cls
        self.names = names = list(forms)
        self.forms = list(forms.values())
        self.defaults = [defaults[name] for name in names]
        self._get = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
        self.required = required

    def write(self, value: Any) -> Json:
        given, count = self._get(value), len(self.names)
        while count and self.defaults[count - 1] == given[count - 1]:
            count -= 1
        return [form.write(each) for form, each in zip(self.forms, given[:count], strict=False)]

    def read(self, data: Json) -> Any:
        if len(_listed(data)) > len(self.names):
            raise Unreadable(f"{self.cls.__name__} has {len(self.names)} fields, not {len(data)}")
        given = {}
        for name, form, each in zip(self.names, self.forms, data, strict=False):
            try:
                given[name] = form.read(each)
            except Unreadable as err:
                raise Unreadable(f"{self.cls.__name__}.{name}: {err}") from None
        left = zip(self.names[len(data) :], self.defaults[len(data) :], strict=True)
        given |= {name: default for name, default in left if default is not REQUIRED}
        if missing := [name for name in self.required if name not in given]:
            raise Unreadable(f"{self.cls.__name__} lacks {missing[0]}")
        return self.cls(**given)


class Shared:
    """The value itself when it first comes, its number from then on."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.numbers: dict[Any, int] = {}
        self.values: list[Any] = []

    def write(self, value: Any) -> Json:
        number = self.numbers.get(value)
        if number is None:
            written = self.form.write(value)
            self.numbers[value] = len(self.numbers)
            return written
        return number

    def read(self, data: Json) -> Any:
        if type(data) is not int:
            self.values.append(self.form.read(data))
            return self.values[-1]
        if not 0 <= data < len(self.values):
            raise Unreadable(f"{data} is not the number of anything before it")
        return self.values[data]


class Tagged:
    """One of several types: the name of the type, then its form. Plain values, if there may be any, are themselves."""

    def __init__(self, by_name: dict[str, Form], plain: tuple[type, ...] = ()) -> None:
        self.by_name = by_name
        self.plain = plain

    def write(self, value: Any) -> Json:
        if type(value) in self.plain:
            return value
        name = type(value).__name__
        return [name, self.by_name[name].write(value)]

    def read(self, data: Json) -> Any:
        if type(data) in self.plain:
            return data
        if len(_listed(data)) != 2 or type(data[0]) is not str:
            raise Unreadable(f"{shown_briefly(data)} does not say what it is")
        if data[0] not in self.by_name:
            raise Unreadable(f"{shown_briefly(data[0])} is nothing that this version of Muster knows here")
        return self.by_name[data[0]].read(data[1])


def named(forms: Mapping[str, Form], name: str) -> Form:
    """The form of that name."""
    if name not in forms:
        raise Unreadable(f"{shown_briefly(name)} is nothing that this version of Muster knows")
    return forms[name]


class Anything:
    """A value whose type no hint tells: it says itself what it is."""

    def __init__(self, forms: Mapping[str, Form]) -> None:
        self.forms = forms  # by name; more may come

    def write(self, value: Any) -> Json:
        if value is None or type(value) in PLAIN:
            return value
        if isinstance(value, Mapping):
            return {"map": {name: self.write(each) for name, each in value.items()}}
        if type(value) in (list, tuple):
            return {type(value).__name__: [self.write(each) for each in value]}
        name = type(value).__name__
        return {"value": [name, named(self.forms, name).write(value)]}

    def read(self, data: Json) -> Any:
        match data:
            case {"map": dict(items)}:
                return {name: self.read(each) for name, each in items.items()}
            case {"list": list(items)}:
                return [self.read(each) for each in items]
            case {"tuple": list(items)}:
                return tuple(self.read(each) for each in items)
            case {"value": [str(name), form]}:
                return named(self.forms, name).read(form)
            case None | bool() | int() | float() | str():
                return data
        raise Unreadable(f"{shown_briefly(data)} does not say what it is")


def _listed(data: Json) -> list[Json]:
    if type(data) is not list:
        raise Unreadable(f"{shown_briefly(data)} is not a list")
    return data


def shown_briefly(data: Json) -> str:
    """What stands in a record, as an error may repeat it."""
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."
