"""What an API server says, read: pages of lists, and lines of watches."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic

import msgspec

from muster.kubernetes.errors import Status, refused
from muster.kubernetes.kinds import Kind, T
from muster.kubernetes.objects import Plain

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list: the version that the whole list is of, where it goes on, and how many are still to come."""

    items: tuple[T, ...]
    version: str
    proceed: str
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Told(Generic[T]):
    """What a watch tells of one object: it is there and looks like this, or it is gone and looked like that."""

    object: T
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Heard(Generic[T]):
    """Some lines of a watch, in order, and the version that the watch has come to."""

    told: list[Told[T]]
    version: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    proceed: str = msgspec.field(name="continue", default="")
    remaining_item_count: int = 0


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_raw_list = msgspec.json.Decoder(_RawList)
_line = msgspec.json.Decoder(_Line)
_status = msgspec.json.Decoder(Status)
_plain = msgspec.json.Decoder(Plain)


@cache
def _list_decoder(of: type[Any]) -> msgspec.json.Decoder[Any]:
    items: Any = tuple.__class_getitem__((of, ...)) | None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [("metadata", _ListMeta), ("items", items, None)]
    return msgspec.json.Decoder(msgspec.defstruct(f"{of.__name__}List", fields))


@cache
def _decoder(of: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(of)


def read_object(kind: Kind[T], content: bytes) -> T:
    """One object."""
    found: T = _decoder(kind.type).decode(content)
    return found


def read_page(kind: Kind[T], content: bytes) -> Page[T]:
    """A page of a list."""
    try:
        page = _list_decoder(kind.type).decode(content)
        items = page.items or ()
    except msgspec.ValidationError:
        page = _raw_list.decode(content)
        items = tuple(_readable(kind, page.items or ()))
    meta = page.metadata
    return Page(items, meta.resource_version, meta.proceed, meta.remaining_item_count)


def _readable(kind: Kind[T], items: Iterable[msgspec.Raw]) -> Iterable[T]:
    """One object that is not as its kind should be must not keep us from all others."""
    for raw in items:
        try:
            yield read_object(kind, bytes(raw))
        except msgspec.ValidationError as err:
            _complain(kind, bytes(raw), err)


def _complain(kind: Kind[Any], raw: bytes, err: Exception) -> None:
    meta = _plain.decode(raw).metadata
    log.warning("%s %s/%s is left out, since it cannot be read: %s", kind.plural, meta.namespace, meta.name, err)


def read_lines(kind: Kind[T], lines: Iterable[bytes], version: str) -> Heard[T]:
    """Lines of a watch. Raises what the server says went wrong with it."""
    told: list[Told[T]] = []
    decode = _decoder(kind.type).decode
    for line in lines:
        if not line:
            continue
        said = _line.decode(line)
        if said.type == "ERROR":
            # What came before it is told again by the next watch, or by the list.
            raise refused(_status.decode(said.object))
        if said.type == "BOOKMARK":
            version = _plain.decode(said.object).metadata.resource_version or version
            continue
        try:
            found: T = decode(said.object)
        except msgspec.ValidationError as err:
            _complain(kind, bytes(said.object), err)
            meta = _plain.decode(said.object).metadata
            version = meta.resource_version
            continue
        version = found.metadata.resource_version
        told.append(Told(found, said.type == "DELETED"))
    return Heard(told, version)
