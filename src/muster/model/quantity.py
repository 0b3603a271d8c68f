"""Kubernetes quantities, read and written exactly.

The grammar is that of k8s.io/apimachinery's resource.Quantity: a decimal number and one suffix
(n u m, none, k M G T P E; Ki Mi Gi Ti Pi Ei; or an exponent, "12e6"). "1E" is exa, "1e" is nothing.

Two things Kubernetes does silently are errors here: a value of 2^63 or more (it caps "8Ei" and wraps
larger decimals), and a number without a digit (it reads "+" as 0). Finer than nano is kept; since all
that follows rounds up, the outcome is the one of Kubernetes, which rounds up to nano first.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from muster.model.errors import InvalidValue

LIMIT = 1 << 63  # quantities and amounts stay below this: they are int64 in Kubernetes

# Checked before anything is computed: "1e999999999" must not cost time or memory.
_LONGEST = 64
_LARGEST_EXPONENT = 100

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)
PATTERN = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"  # for JSON Schema
LONGEST = _LONGEST
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTOR = {suffix: Fraction(1000) ** (power - 3) for power, suffix in enumerate(_DECIMAL)} | {
    suffix: Fraction(1024**power) for power, suffix in enumerate(_BINARY)
}
_FIRST_DECIMAL = {1: 3, 10**3: 2, 10**6: 1, 10**9: 0}  # units per one -> where they stand in _DECIMAL

_ALLOWED = (
    "must be a quantity: a number of zero or more with an optional suffix "
    "(n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei) or exponent (e3)"
)
_OVERFLOW = "overflow: quantities must be below 2^63"


def parse(text: object) -> Fraction:
    """The exact value of a quantity given as str, int, float (0.1 is one tenth) or Decimal."""
    if isinstance(text, int) and not isinstance(text, bool):
        return _bounded(Fraction(text), text)
    written = _written(text)
    match = _QUANTITY.fullmatch(written) if len(written) <= _LONGEST else None
    if match is None:
        raise InvalidValue(text, _ALLOWED)
    whole, part = match["whole"], match["part"] or ""
    if not whole and not part:
        raise InvalidValue(text, _ALLOWED)
    magnitude = Fraction(int(whole + part), 10 ** len(part)) * _scale(match, text)
    return _bounded(-magnitude if match["sign"] == "-" else magnitude, text)


def to_units(text: object, *, per: int = 1) -> int:
    """The quantity in units of which `per` make one (1000 for milli), rounded up as Kubernetes does."""
    value = parse(text)
    units = -(-value.numerator * per // value.denominator)
    if units >= LIMIT:
        raise InvalidValue(text, _OVERFLOW if per == 1 else f"{_OVERFLOW} ÷ {per}")
    return units


def format_units(units: int, *, per: int = 1, binary: bool = False) -> str:
    """The canonical quantity of `units` (Kubernetes' form: no fraction, the largest suffix); parses back to them."""
    if units < 0 or units >= LIMIT:
        raise InvalidValue(units, "must be from 0 to 2^63 - 1")
    if per not in _FIRST_DECIMAL:
        raise InvalidValue(per, f"must be one of {', '.join(map(str, _FIRST_DECIMAL))}")
    if units == 0:
        return "0"
    # Below 1024 Kubernetes writes decimal even when asked for binary.
    if binary and units % per == 0 and units // per >= 1024:
        return _with_suffix(units // per, 1024, _BINARY)
    return _with_suffix(units, 1000, _DECIMAL[_FIRST_DECIMAL[per] :])


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float.__repr__(value)  # the shortest text that means this float: what the person wrote
    if isinstance(value, Decimal):
        return str(value)
    raise InvalidValue(value, _ALLOWED)


def _scale(match: re.Match[str], text: object) -> Fraction:
    if match["exponent"] is None:
        return _FACTOR[match["suffix"] or ""]
    exponent = int(match["exponent"])
    if exponent > _LARGEST_EXPONENT:
        raise InvalidValue(text, _OVERFLOW)
    if exponent < -_LARGEST_EXPONENT:
        raise InvalidValue(text, f"too small: the exponent must be at least -{_LARGEST_EXPONENT}")
    return Fraction(10) ** exponent


def _bounded(value: Fraction, text: object) -> Fraction:
    if value < 0:
        raise InvalidValue(text, _ALLOWED)
    if value >= LIMIT:
        raise InvalidValue(text, _OVERFLOW)
    return value


def _with_suffix(number: int, step: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while number % step == 0 and power < len(suffixes) - 1:
        number //= step
        power += 1
    return f"{number}{suffixes[power]}"
