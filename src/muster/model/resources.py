"""Amounts of resources: a map of name to whole base units, and what they weigh.

Base units: cpu in millicores, GPUs in milli-devices (1000 = one device), everything else in units
(bytes, pieces). A name that is absent and an amount of zero are the same thing.

Two Resources are never larger or smaller than each other: `covers` compares the dimensions a request
names, and only those.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field

from muster.model import quantity
from muster.model.errors import InvalidValue

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
GPU = "nvidia.com/gpu"

MILLI = 1000
GIB = 1 << 30
MICRO = 1_000_000
MOST_WEIGHT = 1_000_000

_NOT_HASHED = -1  # Python's hash() never answers -1
_new = object.__new__


def parse_amount(name: str, value: object) -> int:
    """The base units of a quantity of resource `name`; GPUs, pods and extended resources come whole."""
    try:
        if _comes_whole(name) and quantity.parse(value).denominator != 1:
            raise InvalidValue(value, "must be a whole number")
        return quantity.to_units(value, per=_units_per_one(name))
    except InvalidValue as err:
        raise err.inside(name) from None


def format_amount(name: str, amount: int) -> str:
    """The Kubernetes quantity of `amount` base units of resource `name`; parts of a GPU as decimals ("1.5")."""
    if name == GPU and amount % MILLI:
        return f"{amount // MILLI}.{amount % MILLI:03}".rstrip("0")
    return quantity.format_units(amount, per=_units_per_one(name), binary=_is_bytes(name))


class Resources:
    """Amounts by name: immutable, hashable, in order of name, without zeros; absent reads as 0."""

    # _amounts is always sorted and free of zeros: equality, hash and iteration rest on it. Nothing guards
    # the slots against assignment: every sum would pay for the guard.
    __slots__ = ("_amounts", "_hash")

    _amounts: dict[str, int]
    _hash: int

    def __init__(self, amounts: Mapping[str, int] | Resources) -> None:
        for name, amount in amounts.items():
            if not _is_amount(amount):
                raise InvalidValue(amount, "must be a whole number of base units, zero or more", name)
        self._amounts = {name: amount for name, amount in sorted(amounts.items()) if amount}
        self._hash = _NOT_HASHED

    @classmethod
    def of(cls, amounts: Mapping[str, int] | Resources) -> Resources:
        """Resources with these amounts in base units."""
        return cls(amounts)

    def __add__(self, other: Resources) -> Resources:
        mine = self._amounts
        theirs = other._amounts
        if not theirs:
            return self
        if not mine:
            return other
        amounts = mine.copy()
        for name, amount in theirs.items():
            amounts[name] = amounts.get(name, 0) + amount
        if len(amounts) != len(mine):
            amounts = dict(sorted(amounts.items()))
        made = _new(Resources)  # _made() written out: a tenth of the time
        made._amounts = amounts
        made._hash = _NOT_HASHED
        return made

    def __sub__(self, other: Resources) -> Resources:
        theirs = other._amounts
        if not theirs:
            return self
        amounts = self._amounts.copy()
        for name, amount in theirs.items():
            left = amounts.get(name, 0) - amount
            if left > 0:
                amounts[name] = left
            elif left == 0:
                del amounts[name]
            else:
                raise ArithmeticError(f"{name} would go below zero: {self} - {other}")
        made = _new(Resources)
        made._amounts = amounts
        made._hash = _NOT_HASHED
        return made

    def __mul__(self, times: int) -> Resources:
        if times < 0:
            raise ArithmeticError(f"amounts would go below zero: {self} * {times}")
        if times == 0:
            return NOTHING
        if times == 1:
            return self
        return _made({name: amount * times for name, amount in self._amounts.items()})

    def covers(self, request: Resources) -> bool:
        """Whether every dimension that `request` names is here in full."""
        mine = self._amounts
        for name, amount in request._amounts.items():  # noqa: SIM110 -- half the time of all()
            if mine.get(name, 0) < amount:
                return False
        return True

    def missing(self, request: Resources) -> dict[str, int]:
        """How much each dimension that `request` names lacks; empty when it is covered."""
        mine = self._amounts
        return {name: lack for name, amount in request._amounts.items() if (lack := amount - mine.get(name, 0)) > 0}

    def capped(self, limit: Mapping[str, int] | Resources) -> Resources:
        """At most `limit` of each name in it, others unchanged. A cap of 0 needs a Mapping: Resources hold none."""
        if not limit:
            return self
        amounts = self._amounts.copy()
        for name, most in limit.items():
            if most < amounts.get(name, 0):
                amounts[name] = most
        return Resources(amounts)

    def lowest(self, other: Resources) -> Resources:
        """The smaller amount of each name; a name that either lacks is gone."""
        theirs = other._amounts
        return _made({name: min(amount, theirs[name]) for name, amount in self._amounts.items() if name in theirs})

    def get(self, name: str) -> int:
        """The amount of `name`, 0 when absent."""
        return self._amounts.get(name, 0)

    def items(self) -> ItemsView[str, int]:
        """Names and amounts, in order of name."""
        return self._amounts.items()

    def keys(self) -> KeysView[str]:
        """The names with an amount, in order."""
        return self._amounts.keys()

    def to_text(self) -> dict[str, str]:
        """The amounts as Kubernetes quantities."""
        return {name: format_amount(name, amount) for name, amount in self._amounts.items()}

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resources):
            return NotImplemented
        return self._amounts == other._amounts

    def __hash__(self) -> int:
        if self._hash == _NOT_HASHED:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __reduce__(self) -> tuple[type[Resources], tuple[dict[str, int]]]:
        # The hash stays behind: hashes of text differ between processes.
        return Resources, (self._amounts,)

    def __repr__(self) -> str:
        return f"Resources({self._amounts!r})"


def counted(amounts: Mapping[str, int]) -> Resources:
    """Resources with these amounts, which were counted: whole numbers, none below zero."""
    return _made({name: amounts[name] for name in sorted(amounts) if amounts[name]})


def total(parts: Iterable[Resources]) -> Resources:
    """The sum of many."""
    amounts: dict[str, int] = {}
    for part in parts:
        for name, amount in part._amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
    return _made(dict(sorted(amounts.items())))


def _made(amounts: dict[str, int]) -> Resources:
    """Resources around amounts known to be sorted and above zero, without looking at them again."""
    made = _new(Resources)
    made._amounts = amounts
    made._hash = _NOT_HASHED
    return made


NOTHING = Resources({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What a unit people think in (core, GiB, GPU, piece) weighs, in micro-units, by resource name."""

    micro: tuple[tuple[str, int], ...]
    _terms: tuple[tuple[str, int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        terms = tuple((name, micro, units_of(name)) for name, micro in self.micro)
        object.__setattr__(self, "_terms", terms)

    @classmethod
    def of(cls, weights: Mapping[str, object]) -> Weights:
        """Weights as people write them: {"cpu": 1, "memory": 0.25, "gpu": 16}; "gpu" is short for nvidia.com/gpu."""
        micro: dict[str, int] = {}
        for written, weight in weights.items():
            name = GPU if written == "gpu" else written
            if name in micro:
                raise InvalidValue(weight, f"{name} has a weight already (gpu is short for it)", written)
            micro[name] = _micro(written, weight)
        return cls(micro=tuple(sorted(micro.items())))

    @property
    def terms(self) -> tuple[tuple[str, int, int], ...]:
        """Of each resource: its name, and what so many base units of it weigh: micro-units, base units."""
        return self._terms

    def each(self, resources: Resources) -> dict[str, int]:
        """What each of the resources weighs that weighs anything, in micro-units."""
        amounts = resources._amounts
        return {
            name: (2 * amounts[name] * micro + units) // (2 * units)
            for name, micro, units in self._terms
            if name in amounts
        }

    def usage(self, resources: Resources) -> int:
        """What the resources weigh together, in micro-units; each name is rounded half up."""
        amounts = resources._amounts
        total = 0
        for name, micro, units in self._terms:
            if name in amounts:
                total += (2 * amounts[name] * micro + units) // (2 * units)
        return total


def _micro(name: str, weight: object) -> int:
    allowed = f"must be a number from 0 to {MOST_WEIGHT} with at most six decimals"
    try:
        micro = quantity.parse(weight) * MICRO
    except InvalidValue:
        raise InvalidValue(weight, allowed, name) from None
    if micro.denominator != 1 or micro > MOST_WEIGHT * MICRO:
        raise InvalidValue(weight, allowed, name)
    return micro.numerator


def _is_amount(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _comes_whole(name: str) -> bool:
    return name == PODS or "/" in name


def _is_bytes(name: str) -> bool:
    return name == MEMORY or name.endswith("storage")


def _units_per_one(name: str) -> int:
    """Base units in a quantity of 1."""
    return MILLI if name in (CPU, GPU) else 1


def units_of(name: str) -> int:
    """Base units in what people count the resource in."""
    return GIB if _is_bytes(name) else _units_per_one(name)


DEFAULT_WEIGHTS = Weights.of({"cpu": 1, "memory": 0.25, "gpu": 16})
