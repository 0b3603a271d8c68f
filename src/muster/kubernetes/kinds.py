"""Kinds of objects: where an API server serves them, and what we read of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from muster.kubernetes.objects import Meta, Node, Plain, Pod
from muster.kubernetes.storage import CsiDriver, CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass


class Object(Protocol):
    """Whatever has a name."""

    @property
    def metadata(self) -> Meta:
        """Who it is."""


T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """A kind, and the type that its objects are read as: fields that the type has not are never decoded."""

    type: type[T]
    plural: str
    version: str
    group: str = ""
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where one object is, or all of a namespace, or all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if namespace and self.is_namespaced else ""
        below = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{inside}/{self.plural}{below}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which objects of a kind: of a namespace, with certain labels, with certain fields. All, unless said."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """As a list and a watch are asked."""
        asked = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {key: value for key, value in asked.items() if value}


EVERYTHING = Scope()

PODS = Kind(type=Pod, plural="pods", version="v1")
NODES = Kind(type=Node, plural="nodes", version="v1", is_namespaced=False)
NAMESPACES = Kind(type=Plain, plural="namespaces", version="v1", is_namespaced=False)
CLAIMS = Kind(type=PersistentVolumeClaim, plural="persistentvolumeclaims", version="v1")
VOLUMES = Kind(type=PersistentVolume, plural="persistentvolumes", version="v1", is_namespaced=False)
STORAGE_CLASSES = Kind(
    type=StorageClass, plural="storageclasses", version="v1", group="storage.k8s.io", is_namespaced=False
)
CSI_NODES = Kind(type=CsiNode, plural="csinodes", version="v1", group="storage.k8s.io", is_namespaced=False)
CSI_DRIVERS = Kind(type=CsiDriver, plural="csidrivers", version="v1", group="storage.k8s.io", is_namespaced=False)
