"""Values from a YAML parser's events, one at a time.

Whatever could hurt (depth, aliases that multiply or contain themselves, sheer number) is refused where it
begins, and nothing here recurses. Aliases share what they repeat, so they cost memory once; the values they
stand for are counted in full, because everything behind this reads them in full.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import yaml

from muster.documents.problems import Problems, joined, quoted
from muster.documents.values import MOST_DEPTH, TAG, List, Map, Plain, Scalar, Value, resolved

MOST_VALUES = 3_000_000  # scalars, lists and mappings, each alias counted as all that it repeats; 20 s, 0.7 GB
MOST_REPEATED = 10  # times as many values from aliases as the file itself holds …
FREELY_REPEATED = 100_000  # … beyond these

_TEXT_PER_VALUE = 64  # characters: a longer text counts as several values

_TEXT_TAGS = ("!", f"{TAG}str")
_TYPES: dict[str, tuple[type, ...]] = {
    f"{TAG}bool": (bool,),
    f"{TAG}int": (int,),
    f"{TAG}float": (int, float),
    f"{TAG}null": (type(None),),
}


class _Key(NamedTuple):
    text: str
    line: int
    is_merge: bool = False
    is_refused: bool = False


class _Frame:
    """A list or mapping that is still open. While a mapping has no key, its next value is the key."""

    __slots__ = ("anchor", "height", "key", "merged", "size", "value")

    def __init__(self, value: List | Map, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: _Key | None = None
        self.merged: list[Map] = []
        self.size = 1  # values in it, itself included
        self.height = 1


class _Anchor(NamedTuple):
    value: Value
    size: int
    height: int


class Building:
    """Events in, values out. `what` says what kind of thing was expected, `is_stream` whether there may be several."""

    def __init__(self, problems: Problems, what: str, *, is_stream: bool = False) -> None:
        self.problems = problems
        self.what = what
        self.is_stream = is_stream
        self.roots: list[Value] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, _Anchor | None] = {}  # None: still open
        self.documents = 0
        self.own = 0
        self.repeated = 0

    def take(self, event: yaml.Event) -> None:
        """Build on with the next event."""
        match event:
            case yaml.ScalarEvent():
                self._take_scalar(event)
            case yaml.MappingStartEvent():
                self._open(event, Map(_line(event), {}, {}), "map")
            case yaml.SequenceStartEvent():
                self._open(event, List(_line(event), []), "seq")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case yaml.AliasEvent():
                self._take_alias(event.anchor or "", _line(event))
            case yaml.DocumentStartEvent():
                self.documents += 1
                self.anchors = {}  # an alias repeats what stands in its own document
                if self.documents > 1 and not self.is_stream:
                    self.problems.stop("", _line(event), "a second document begins: only one is allowed")

    def finished(self) -> list[Value]:
        """The documents that say something, at least one, once all events are in."""
        said = [root for root in self.roots if not isinstance(root, Scalar) or root.value is not None]
        if not said:
            self.problems.stop("", 1, f"the file is empty: {self.what}")
        if self.repeated > MOST_REPEATED * self.own + FREELY_REPEATED:
            self.problems.stop("", 0, f"aliases repeat {self.repeated} values, the file itself holds only {self.own}")
        return said

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        text, line = event.value, _line(event)
        is_plain = event.implicit[0] and event.tag is None
        size = 1 + len(text) // _TEXT_PER_VALUE
        self._count(size, line)
        if is_plain and text == "<<" and self._expects_key():
            self.stack[-1].key = _Key("<<", line, is_merge=True)
            return
        value = Scalar(line, resolved(text) if is_plain else self._tagged(event.tag, text, line), text)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchor(value, size, 0)
        self._put(value, size, 0)

    def _tagged(self, tag: str | None, text: str, line: int) -> Plain:
        if tag is None or tag in _TEXT_TAGS:
            return text
        if tag not in _TYPES:
            self._refuse_tag(tag, line)
            return text
        value = resolved(text)
        if type(value) not in _TYPES[tag]:
            self.problems.refuse(self._path(), line, quoted(text), f"its tag says !!{tag.removeprefix(TAG)}")
        return value

    def _take_alias(self, name: str, line: int) -> None:
        if name not in self.anchors:
            self.problems.stop(self._path(), line, f"the alias {quoted('*' + name)} has no anchor before it")
        anchor = self.anchors[name]
        if anchor is None:
            self.problems.stop(self._path(), line, f"the alias {quoted('*' + name)} stands inside of what it repeats")
        if len(self.stack) + anchor.height > MOST_DEPTH:
            self._stop_too_deep(line)
        self.repeated += anchor.size
        self._count(0, line)
        self._put(anchor.value, anchor.size, anchor.height)

    def _open(self, event: yaml.CollectionStartEvent, value: List | Map, kind: str) -> None:
        self._count(1, value.line)
        if len(self.stack) >= MOST_DEPTH:
            self._stop_too_deep(value.line)
        if event.tag not in (None, "!", f"{TAG}{kind}"):
            self._refuse_tag(event.tag, value.line)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Frame(value, event.anchor))

    def _close(self) -> None:
        frame = self.stack.pop()
        if isinstance(frame.value, Map):
            _merge(frame.value, frame.merged)
        if frame.anchor is not None:
            self.anchors[frame.anchor] = _Anchor(frame.value, frame.size, frame.height)
        self._put(frame.value, frame.size, frame.height)

    def _put(self, value: Value, size: int, height: int) -> None:
        """A value is complete: give it to what surrounds it."""
        if not self.stack:
            self.roots.append(value)
            return
        frame = self.stack[-1]
        frame.size += size
        frame.height = max(frame.height, height + 1)
        if isinstance(frame.value, List):
            frame.value.items.append(value)
        elif frame.key is None:
            frame.key = self._as_key(value)
        else:
            self._put_keyed(frame.value, frame.key, value)
            frame.key = None

    def _put_keyed(self, mapping: Map, key: _Key, value: Value) -> None:
        first = mapping.lines.get(key.text)
        if key.is_refused:
            return
        if first is not None:
            message = f"the key {quoted(key.text)} stands on line {first} and on line {key.line}: once is allowed"
            self.problems.add(self._path(), key.line, message)
        elif key.is_merge:
            mapping.lines[key.text] = key.line
            self._put_merge(key.line, value)
        else:
            mapping.lines[key.text] = key.line
            mapping.values[key.text] = value

    def _put_merge(self, line: int, value: Value) -> None:
        for source in value.items if isinstance(value, List) else [value]:
            if isinstance(source, Map):
                self.stack[-1].merged.append(source)
            else:
                self.problems.add(self._path(), line, "<< takes a mapping or a list of mappings")

    def _as_key(self, value: Value) -> _Key:
        if isinstance(value, Scalar) and value.value is not None:
            return _Key(value.text, value.line)
        self.problems.add(self._path(), value.line, "a key must be text: not nothing, a list or a mapping")
        return _Key("?", value.line, is_refused=True)

    def _expects_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, Map) and self.stack[-1].key is None

    def _count(self, size: int, line: int) -> None:
        self.own += size
        if self.own + self.repeated > MOST_VALUES:
            message = f"more than {MOST_VALUES} values, aliases expanded: use count for many nodes or jobs"
            self.problems.stop("", line, message)

    def _stop_too_deep(self, line: int) -> NoReturn:
        self.problems.stop("", line, f"nested too deeply: at most {MOST_DEPTH} levels are allowed")

    def _refuse_tag(self, tag: str | None, line: int) -> None:
        allowed = "tags other than !!str, !!int, !!float, !!bool, !!null, !!map and !!seq mean nothing here"
        self.problems.refuse(self._path(), line, f"the tag {quoted(tag or '')}", allowed)

    def _path(self) -> str:
        path = ""
        for frame in self.stack:
            if isinstance(frame.value, List):
                path = f"{path}[{len(frame.value.items)}]"
            elif frame.key is not None:
                path = joined(path, frame.key.text)
        return path


def _merge(mapping: Map, sources: list[Map]) -> None:
    """YAML's merge key: what the mapping does not say itself comes from the first source that says it."""
    for source in sources:
        for key, value in source.values.items():
            if key not in mapping.values:
                mapping.values[key] = value
                mapping.lines[key] = source.lines[key]


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0
