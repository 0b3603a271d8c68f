"""The services and ingresses of a job: made before its tasks start, and removed with it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from muster.documents.fields import Fields
from muster.documents.shapes import NAME, Schema, choice, integer, list_of, mapping, mapping_of, said
from muster.documents.storable import STORABLE, is_storable
from muster.documents.values import List, Scalar, shown

KINDS = ("service", "ingress")
MOST_OBJECTS = 100
MOST_PORTS = 100

_LAST_PORT = 65535
_PORT = f"a port from 1 to {_LAST_PORT}"
_PORTS = f"from 1 to {MOST_PORTS} ports such as [8080]"
_OBJECT_NAME = re.compile("[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_NAMED = "a name of at most 63 small letters, digits and '-' that begins with a letter and ends with a letter or digit"
_TEXTS: Schema = mapping_of({"type": "string", "pattern": "^[^\\u0000]*$"})

SCHEMA: Schema = said(
    list_of(
        mapping(
            {
                "kind": said(choice(KINDS), "What it is."),
                "name": said(
                    {"type": "string", "pattern": f"^{_OBJECT_NAME.pattern}$"}, "Unique among those of its kind."
                ),
                "group": said(NAME, "The group whose tasks it leads to. Default: the only one."),
                "ports": said(list_of(integer(1, _LAST_PORT), least=1, most=MOST_PORTS), "The ports of the tasks."),
                "labels": said(_TEXTS, "Kubernetes' labels."),
                "annotations": said(_TEXTS, "Kubernetes' annotations."),
            },
            required=("kind", "name", "ports"),
        ),
        most=MOST_OBJECTS,
    ),
    "Services and ingresses that come and go with the job.",
    examples=[[{"kind": "service", "name": "web", "ports": [8080]}]],
)


def read_objects(job: Fields, groups: Collection[str]) -> list[dict[str, Any]]:
    """The key `objects` of a job with these groups."""
    if len(job.items("objects")) > MOST_OBJECTS:
        job.add("objects", f"at most {MOST_OBJECTS} are allowed")
        return []
    objects: dict[tuple[str, str], dict[str, Any]] = {}
    for fields in job.entries("objects", "object"):
        one = _read_object(fields, groups)
        key = (one["kind"], one["name"])
        if all(key) and key in objects:
            fields.refuse("name", f"another {one['kind']} of this job has that name: names are unique")
        objects[key] = one
    return list(objects.values())


def _read_object(fields: Fields, groups: Collection[str]) -> dict[str, Any]:
    kind = fields.choice("kind", {kind: kind for kind in KINDS}, "")
    if not fields.has("kind"):
        fields.missing("kind", f"one of {', '.join(KINDS)}")
    one: dict[str, Any] = {
        "kind": kind,
        "name": _read_name(fields),
        "group": _read_group(fields, groups),
        "ports": _read_ports(fields),
    }
    for key in ("labels", "annotations"):
        texts = fields.texts(key)
        if not all(is_storable(text) for pair in texts.items() for text in pair):
            fields.refuse(key, STORABLE)
        if texts:
            one[key] = texts
    fields.close()
    return one


def _read_name(fields: Fields) -> str:
    name = fields.required_name("name", _NAMED)
    if name is not None and not _OBJECT_NAME.fullmatch(name):
        fields.refuse("name", _NAMED)
    return name or ""


def _read_group(fields: Fields, groups: Collection[str]) -> str:
    """The group that it leads to; a job of one group need not name it."""
    name, allowed = fields.name("group"), f"a group of this job: {', '.join(sorted(groups))}"
    if not fields.has("group") and len(groups) > 1:
        fields.missing("group", allowed)
    elif name is not None and name not in groups:
        fields.refuse("group", allowed)
    return name or next(iter(groups), "")


def _read_ports(fields: Fields) -> list[int]:
    items = fields.items("ports")
    if not fields.has("ports"):
        fields.missing("ports", _PORTS)
    elif isinstance(fields.get("ports"), List) and not 1 <= len(items) <= MOST_PORTS:
        fields.refuse("ports", _PORTS)
    ports: dict[int, None] = {}
    for item, path in items[:MOST_PORTS]:
        port = item.value if isinstance(item, Scalar) else None
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= _LAST_PORT:
            fields.problems.refuse(path, item.line, shown(item), _PORT)
        elif port in ports:
            fields.problems.refuse(path, item.line, shown(item), "each port once")
        else:
            ports[port] = None
    return list(ports)
