"""Which nodes a task admits: Kubernetes' node selector, required node affinity, taints and tolerations.

Parsing takes Kubernetes' own shapes as YAML gives them and refuses what Kubernetes would refuse, and
also what Muster would not honour: an ignored wish is worse than an error. Errors name the sub-field.
Matching is then plain: a node's name, labels and taints in, an answer out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from muster.model.errors import InvalidValue

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME = "metadata.name"

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_INTEGER = re.compile(r"[+-]?[0-9]{1,62}")  # a label value has at most 63 characters
_INT64 = 1 << 63

_LETTERS = "letters, digits, '-', '_', '.', beginning and ending with a letter or digit"
_LABEL_KEY = f"must be a label key: at most 63 {_LETTERS}, with an optional domain and '/' before"
_LABEL_VALUE = f"must be a label value: empty, or at most 63 {_LETTERS}"

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A mark on a node that keeps away tasks that do not tolerate it."""

    key: str
    value: str = ""
    effect: str

    @classmethod
    def parse(cls, text: object) -> Taint:
        """A taint written as kubectl does: "gpu=yes:NoSchedule" or "key:NoExecute"."""
        allowed = f"must be key=value:effect or key:effect, effect one of {', '.join(EFFECTS)}"
        if not isinstance(text, str):
            raise InvalidValue(text, allowed)
        pair, _, effect = text.partition(":")
        key, _, value = pair.partition("=")
        if effect not in EFFECTS:
            raise InvalidValue(text, allowed)
        return cls(key=_label_key(key, "key"), value=_label_value(value, "value"), effect=effect)

    @property
    def is_hard(self) -> bool:
        """Whether the taint forbids, rather than discourages."""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Taints a task puts up with. An empty key (with Exists) is every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    @classmethod
    def parse(cls, shape: object) -> Toleration:
        """A toleration from Kubernetes' shape. tolerationSeconds is checked, then left to Kubernetes."""
        given = _mapping(shape, "", ("key", "operator", "value", "effect", "tolerationSeconds"))
        key = _text(given.get("key"), "key")
        value = _text(given.get("value"), "value")
        effect = _text(given.get("effect"), "effect")
        operator = _text(given.get("operator"), "operator") or "Equal"
        if operator in ("Lt", "Gt"):
            raise InvalidValue(operator, "numeric tolerations are not supported: use Equal or Exists", "operator")
        if operator not in ("Equal", "Exists"):
            raise InvalidValue(operator, "must be Equal or Exists", "operator")
        if key:
            _label_key(key, "key")
        elif operator != "Exists":
            raise InvalidValue(operator, "must be Exists when key is empty, which tolerates everything", "operator")
        if operator == "Exists" and value:
            raise InvalidValue(value, "must be empty when operator is Exists", "value")
        if effect and effect not in EFFECTS:
            raise InvalidValue(effect, f"must be empty or one of {', '.join(EFFECTS)}", "effect")
        _check_seconds(given.get("tolerationSeconds"), effect)
        return cls(key=key, operator=operator, value=_label_value(value, "value"), effect=effect)

    def tolerates(self, taint: Taint) -> bool:
        """Whether this taint is put up with."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


def tolerates(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first hard taint (NoSchedule, NoExecute) that no toleration puts up with; None when all are tolerated."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.is_hard and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One demand on one label (or on the node's name)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    _values: frozenset[str] = field(init=False, repr=False, compare=False)  # there may be one for each node

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", frozenset(self.values))

    @classmethod
    def parse(cls, shape: object) -> Expression:
        """A demand on a label from Kubernetes' shape {key, operator, values}."""
        key, operator, values = _key_operator_values(shape)
        _label_key(key, "key")
        if operator not in OPERATORS:
            raise InvalidValue(operator, f"must be one of {', '.join(OPERATORS)}", "operator")
        if operator in ("In", "NotIn") and not values:
            raise InvalidValue(list(values), f"must have at least one value when operator is {operator}", "values")
        if operator in ("Exists", "DoesNotExist") and values:
            raise InvalidValue(list(values), f"must be empty when operator is {operator}", "values")
        if operator in ("Gt", "Lt") and len(values) != 1:
            raise InvalidValue(list(values), f"must be exactly one integer when operator is {operator}", "values")
        for index, value in enumerate(values):
            if operator in ("Gt", "Lt") and _integer(value) is None:
                raise InvalidValue(value, f"must be an integer when operator is {operator}", f"values[{index}]")
            # Also for Gt and Lt, and so no signs: "-3" cannot be a label's value.
            _label_value(value, f"values[{index}]")
        return cls(key=key, operator=operator, values=tuple(sorted(set(values))))

    @classmethod
    def parse_field(cls, shape: object) -> Expression:
        """A demand on the node's name: {key: metadata.name, operator: In or NotIn, values: [one name]}."""
        key, operator, values = _key_operator_values(shape)
        if key != _NODE_NAME:
            raise InvalidValue(key, f"must be {_NODE_NAME}", "key")
        if operator not in ("In", "NotIn"):
            raise InvalidValue(operator, "must be In or NotIn", "operator")
        if len(values) != 1:
            raise InvalidValue(list(values), "must be exactly one node name", "values")
        return cls(key=key, operator=operator, values=values)

    def admits(self, value: str | None) -> bool:
        """Whether the label may have this value; None is a node without the label."""
        match self.operator:
            case "In":
                return value in self._values
            case "NotIn":
                return value not in self._values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        number, bound = _integer(value), _integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Demands that must all hold. No demand at all matches no node, as in Kubernetes."""

    expressions: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()

    @classmethod
    def parse(cls, shape: object) -> Term:
        """A term from Kubernetes' shape {matchExpressions, matchFields}."""
        given = _mapping(shape, "", ("matchExpressions", "matchFields"))
        return cls(
            expressions=_each(given.get("matchExpressions"), "matchExpressions", Expression.parse),
            fields=_each(given.get("matchFields"), "matchFields", Expression.parse_field),
        )

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name with these labels meets every demand."""
        for expression in self.expressions:
            if not expression.admits(labels.get(expression.key)):
                return False
        for expression in self.fields:
            if not expression.admits(name):
                return False
        return bool(self.expressions or self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity:
    """Terms of which one must match."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, shape: object) -> NodeAffinity | None:
        """The required node affinity in Kubernetes' `affinity` shape; None when it demands nothing."""
        only = f"only required node affinity is honoured (nodeAffinity.{_REQUIRED})"
        given = _mapping(shape, "", ("nodeAffinity", "podAffinity", "podAntiAffinity"))
        for name in ("podAffinity", "podAntiAffinity"):
            if given.get(name):
                raise InvalidValue(given[name], f"{name} is refused: {only}", name)
        node = _mapping(given.get("nodeAffinity"), "nodeAffinity", (_REQUIRED, _PREFERRED))
        if node.get(_PREFERRED):
            raise InvalidValue(node[_PREFERRED], f"{_PREFERRED} is refused: {only}", f"nodeAffinity.{_PREFERRED}")
        if node.get(_REQUIRED) is None:
            return None
        path = f"nodeAffinity.{_REQUIRED}"
        required = _mapping(node[_REQUIRED], path, ("nodeSelectorTerms",))
        terms = _each(required.get("nodeSelectorTerms"), f"{path}.nodeSelectorTerms", Term.parse)
        if not terms:
            raise InvalidValue([], "must have at least one term", f"{path}.nodeSelectorTerms")
        return cls(terms=terms)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether some term matches a node of this name with these labels."""
        return any(term.matches(name, labels) for term in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Everything a task demands of a node besides room. Equal constraints admit the same nodes."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Once: constraints are dictionary keys in the engine, and their parts go deep.
        object.__setattr__(self, "_hash", hash((self.selector, self.affinity, self.tolerations)))

    @classmethod
    def parse(cls, *, selector: object = None, affinity: object = None, tolerations: object = None) -> Constraint:
        """A constraint from a pod's nodeSelector, affinity and tolerations, in Kubernetes' shapes."""
        try:
            parsed = NodeAffinity.parse(affinity)
        except InvalidValue as err:
            raise err.inside("affinity") from None
        return cls(
            selector=parse_selector(selector, path="nodeSelector"),
            affinity=parsed,
            tolerations=parse_tolerations(tolerations, path="tolerations"),
        )

    @property
    def is_lenient(self) -> bool:
        """Whether only a taint can keep a task off a node."""
        return not self.selector and self.affinity is None

    def refuses(self, name: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> str | None:
        """What keeps a task off this node: "nodeSelector", "affinity" or "taint"; None when it is admitted."""
        for key, value in self.selector:
            if labels.get(key) != value:
                return "nodeSelector"
        if self.affinity is not None and not self.affinity.matches(name, labels):
            return "affinity"
        if taints and tolerates(taints, self.tolerations) is not None:
            return "taint"
        return None

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Callable[..., Constraint], tuple[object, ...]]:
        # The hash stays behind: hashes of text differ between processes.
        return _constraint, (self.selector, self.affinity, self.tolerations)


def _constraint(
    selector: tuple[tuple[str, str], ...], affinity: NodeAffinity | None, tolerations: tuple[Toleration, ...]
) -> Constraint:
    return Constraint(selector=selector, affinity=affinity, tolerations=tolerations)


ANYWHERE = Constraint()


def parse_selector(shape: object, *, path: str = "") -> tuple[tuple[str, str], ...]:
    """The labels a node must have, from Kubernetes' nodeSelector, in order of key."""
    try:
        return tuple(
            sorted((_label_key(key, ""), _label_value(value, key)) for key, value in _mapping(shape, "").items())
        )
    except InvalidValue as err:
        raise err.inside(path) from None


def parse_tolerations(shape: object, *, path: str = "") -> tuple[Toleration, ...]:
    """The tolerations of Kubernetes' list."""
    return _each(shape, path, Toleration.parse)


def _key_operator_values(shape: object) -> tuple[str, str, tuple[str, ...]]:
    given = _mapping(shape, "", ("key", "operator", "values"))
    values = _each(given.get("values"), "values", lambda value: _string(value, ""))
    return _text(given.get("key"), "key"), _text(given.get("operator"), "operator"), values


def _check_seconds(seconds: object, effect: str) -> None:
    if seconds is None:
        return
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise InvalidValue(seconds, "must be a whole number of seconds", "tolerationSeconds")
    if effect != NO_EXECUTE:
        raise InvalidValue(effect, "must be NoExecute when tolerationSeconds is set", "effect")


def _label_key(key: object, path: str) -> str:
    text = _string(key, path)
    prefix, slash, name = text.rpartition("/")
    if len(name) > 63 or not _NAME.fullmatch(name):
        raise InvalidValue(key, _LABEL_KEY, path)
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        raise InvalidValue(key, _LABEL_KEY, path)
    return text


def _label_value(value: object, path: str) -> str:
    text = _string(value, path)
    if text and (len(text) > 63 or not _NAME.fullmatch(text)):
        raise InvalidValue(value, _LABEL_VALUE, path)
    return text


def _integer(text: str) -> int | None:
    """What Go's ParseInt(text, 10, 64) reads, None where it fails."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


def _string(value: object, path: str) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, list | tuple | Mapping):
        raise InvalidValue(value, "must be a string", path)
    # YAML made a number, a date or (of yes, no, on, off) a boolean of it; what was written is gone.
    raise InvalidValue(value, "must be a string: put quotes around it", path)


def _text(value: object, path: str) -> str:
    """A string that may be left out."""
    return "" if value is None else _string(value, path)


def _list(value: object, path: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise InvalidValue(value, "must be a list", path)
    return list(value)


def _each(value: object, path: str, parse: Callable[[object], _Parsed]) -> tuple[_Parsed, ...]:
    """Every item of a list, parsed; errors get the item's path in front."""
    parsed = []
    for index, item in enumerate(_list(value, path)):
        try:
            parsed.append(parse(item))
        except InvalidValue as err:
            raise err.inside(f"{path}[{index}]") from None
    return tuple(parsed)


def _mapping(value: object, path: str, known: tuple[str, ...] = ()) -> dict[str, object]:
    """A mapping that may be left out; with `known`, one without other keys."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidValue(value, "must be a mapping", path)
    for key in value:
        if known and key not in known:
            raise InvalidValue(key, f"unknown field: must be one of {', '.join(known)}", str(key)).inside(path)
    return dict(value)
