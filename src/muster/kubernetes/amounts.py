"""How much a pod asks of its node, and how much a node has: as Kubernetes counts it.

Each quantity is rounded up to base units before it is added. The API server keeps no finer cpu than that; of memory in
thousandths of bytes we count at most a byte for each container too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from muster.kubernetes.objects import Container, PodSpec
from muster.model.errors import InvalidValue
from muster.model.nodes import Request
from muster.model.resources import CPU, MEMORY, Resources, parse_amount

Amounts: TypeAlias = dict[str, int]
Quantities: TypeAlias = Mapping[str, str | int | float]

PLACE_APART = Resources.of({"muster.dev/place-apart": 1})
"""What each node has one of, for gangs whose pods may not meet: two pods of such gangs are never on one node."""

_SIDECAR = "Always"
_HUGE_PAGES = "hugepages-"


def request_of(spec: PodSpec) -> Request:
    """What a pod asks of its node, whichever of its containers run at a time."""
    asked = _largest(_together(spec), _while_starting(spec.init_containers))
    if spec.resources is not None:
        own = _amounts_of(spec.resources.requests, "spec.resources.requests")
        asked = asked | {name: amount for name, amount in own.items() if _is_for_whole_pods(name)}
    return Request.of(_sum(asked, _amounts_of(spec.overhead, "spec.overhead")))


def kept_apart(request: Request) -> Request:
    """The same, for a pod that may share no node with others of its gang."""
    return replace(request, resources=request.resources + PLACE_APART)


def is_sidecar(container: Container) -> bool:
    """Whether an init container runs as long as the pod does."""
    return container.restart_policy == _SIDECAR


def resources_of(quantities: Quantities) -> Resources:
    """What a node has. Of what cannot be read there is nothing: one odd number must not stop all others."""
    amounts: Amounts = {}
    for name, value in quantities.items():
        with suppress(InvalidValue):
            amounts[name] = _amount(name, value)
    return Resources.of(amounts)


def _amounts_of(quantities: Quantities, path: str) -> Amounts:
    """Base units of each; errors name the field below `path`."""
    try:
        return {name: _amount(name, value) for name, value in quantities.items()}
    except InvalidValue as err:
        raise err.inside(path) from None


def _together(spec: PodSpec) -> Amounts:
    """What runs at the same time once the pod has started."""
    asked: Amounts = {}
    for index, container in enumerate(spec.containers):
        asked = _sum(asked, _asked_by(container, f"containers[{index}]"))
    for index, container in enumerate(spec.init_containers):
        if is_sidecar(container):
            asked = _sum(asked, _asked_by(container, f"initContainers[{index}]"))
    return asked


def _while_starting(init_containers: Iterable[Container]) -> Amounts:
    """The most that runs at the same time before: each one that ends, beside the sidecars that began before it."""
    most: Amounts = {}
    sidecars: Amounts = {}
    for index, container in enumerate(init_containers):
        beside = _sum(sidecars, _asked_by(container, f"initContainers[{index}]"))
        most = _largest(most, beside)
        if is_sidecar(container):
            sidecars = beside
    return most


def _asked_by(container: Container, path: str) -> Amounts:
    return _amounts_of(container.resources.requests, f"spec.{path}.resources.requests")


def _is_for_whole_pods(name: str) -> bool:
    """Whether what a pod states itself counts instead of what its containers do."""
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return one | {name: one.get(name, 0) + amount for name, amount in other.items()}


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return one | {name: max(one.get(name, 0), amount) for name, amount in other.items()}


@lru_cache(maxsize=4096)  # pods of one template, and most others, write the same few
def _amount(name: str, value: str | int | float) -> int:
    return parse_amount(name, value)
