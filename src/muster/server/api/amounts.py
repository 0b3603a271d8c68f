"""Amounts of resources, as requests give them."""

from __future__ import annotations

from collections.abc import Mapping

from muster.model.errors import InvalidValue
from muster.model.resources import GPU, parse_amount
from muster.server.api.errors import Problem, Refused


def amounts_of(given: Mapping[str, object], field: str) -> dict[str, int]:
    """Base units of amounts under a field, by resource; `gpu` is short for nvidia.com/gpu."""
    amounts, problems = dict[str, int](), []
    for key, amount in given.items():
        name = GPU if key == "gpu" else key
        try:
            amounts[name] = parse_amount(name, amount)
        except InvalidValue as err:
            problems.append(Problem(field=f"{field}.{key}", value=repr(amount), allowed=str(err)))
    if problems:
        raise Refused(422, f"{problems[0].field}: {problems[0].allowed}", problems)
    return amounts
