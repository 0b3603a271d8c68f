"""Options that belong together are declared once, as a group; a command takes the whole group as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, get_type_hints

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer is to see it: in the place of every group the options that it consists of.

    A group is a NamedTuple whose fields are annotated like parameters of a command. Its options are listed after those
    of the command itself.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if hasattr(hint, "_fields")}
    signature = inspect.signature(command)
    own = [it.replace(annotation=hints[name]) for name, it in signature.parameters.items() if name not in groups]
    parameters = [it.replace(kind=_KEYWORD) for it in own]
    parameters += [option for group in groups.values() for option in _options(group)]

    @wraps(command)
    def whole(**said: Any) -> None:
        parts = {name: group(**{field: said.pop(field) for field in group._fields}) for name, group in groups.items()}
        command(**said, **parts)

    whole.__annotations__ = {it.name: it.annotation for it in parameters}
    vars(whole)["__signature__"] = signature.replace(parameters=parameters)
    return whole


def _options(group: Any) -> Iterator[inspect.Parameter]:
    """The options of a group, in the order in which it declares them."""
    hints = get_type_hints(group, include_extras=True)
    for name in group._fields:
        default = group._field_defaults.get(name, inspect.Parameter.empty)
        yield inspect.Parameter(name, _KEYWORD, default=default, annotation=hints[name])
