"""`<% $mcc.name %>` replaced by the value that a cluster has for `name` (openpai-multi-cluster.md).

A value that is nothing but a placeholder becomes the parameter itself: a number stays a number, a list a list. Inside
a longer text only scalars can stand. All other templates (`$parameters`, `$secrets` …) are for the cluster to resolve.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.documents.problems import Problems, joined, quoted
from muster.documents.values import List, Map, Scalar, Value

_PLACEHOLDER = re.compile(r"<%\s*\$mcc\.([^\s%<>]+)\s*%>")
_ANY = re.compile(r"<%[^%]*\$mcc\b[^%]*%>")
_SECRET = re.compile(r"<%\s*\$secrets\.([^\s%<>]+)\s*%>")
_BOOLEANS = {"true": True, "false": False}


def as_written(value: Value) -> object:
    """The value as OpenPAI's own reader sees it: `on` and `yes` are text there, not booleans."""
    if isinstance(value, Map):
        return {key: as_written(item) for key, item in value.values.items()}
    if isinstance(value, List):
        return [as_written(item) for item in value.items]
    if isinstance(value.value, bool):
        return _BOOLEANS.get(value.text.lower(), value.text)
    return value.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What stands for each parameter in one cluster, and the secrets that no job may refer to."""

    alias: str
    params: Mapping[str, Map]
    tokens: frozenset[str]
    problems: Problems

    def filled(self, value: Value, path: str) -> object:
        """The value with every placeholder replaced."""
        if isinstance(value, Map):
            return {
                self.key(value, key, path): self.filled(item, joined(path, key)) for key, item in value.values.items()
            }
        if isinstance(value, List):
            return [self.filled(item, f"{path}[{place}]") for place, item in enumerate(value.items)]
        if not isinstance(value.value, str) or "<%" not in value.value:
            return as_written(value)
        return self._text(value, value.value, path)

    def key(self, mapping: Map, key: str, path: str) -> str:
        """A key as it is; one with a placeholder in it is noted."""
        if _ANY.search(key):
            allowed = "a parameter stands for a value, not for a key"
            self.problems.refuse(joined(path, key), mapping.lines[key], f"the key {quoted(key)}", allowed)
        return key

    def _text(self, scalar: Scalar, text: str, path: str) -> object:
        for found in _SECRET.finditer(text):
            if found[1] in self.tokens:
                allowed = "tokens of clusters are taken out of every job: use a secret of another name"
                self.problems.refuse(path, scalar.line, quoted(found[0]), allowed)
        whole = _PLACEHOLDER.fullmatch(text.strip())
        if whole is not None:
            value = self._value(whole[1], scalar.line, path)
            return None if value is None else as_written(value)
        filled = _PLACEHOLDER.sub(lambda found: self._inside(found, scalar.line, path), text)
        if (odd := _ANY.search(filled)) is not None:
            self.problems.refuse(path, scalar.line, quoted(odd[0]), "a parameter is written <% $mcc.name %>")
        return filled

    def _inside(self, found: re.Match[str], line: int, path: str) -> str:
        value = self._value(found[1], line, path)
        if value is None:
            return ""
        if isinstance(value, Scalar) and value.value is not None:
            return value.text
        what = f"{quoted(found[0])} inside of a text"
        self.problems.refuse(path, line, what, f"{found[1]} is no text or number for cluster {quoted(self.alias)}")
        return ""

    def _value(self, name: str, line: int, path: str) -> Value | None:
        """What stands for a parameter here; None, with a problem noted, where there is nothing."""
        if name not in self.params:
            known = ", ".join(sorted(self.params)) or "it has none"
            self.problems.refuse(path, line, quoted(f"$mcc.{name}"), f"a parameter of this file: {known}")
            return None
        value = self.params[name].values.get(self.alias)
        if value is None:
            self.problems.add(
                path, line, f"missing: the parameter {name} has no value for cluster {quoted(self.alias)}"
            )
        return value
