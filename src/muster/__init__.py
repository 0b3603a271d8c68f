"""Muster: one batch scheduler for many clusters.

`muster.Client` and `muster.AsyncClient` ask a server (docs/sdk.md). They are loaded when they are first named, so that
`import muster` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.sdk.aclient import AsyncClient
    from muster.sdk.client import Client
    from muster.sdk.errors import ApiError, Expired, NotFound, Problem, ServerUnreachable, Unauthorized

__version__ = "0.1.0"

_FROM = {
    "ApiError": "muster.sdk.errors",
    "AsyncClient": "muster.sdk.aclient",
    "Client": "muster.sdk.client",
    "Expired": "muster.sdk.errors",
    "NotFound": "muster.sdk.errors",
    "Problem": "muster.sdk.errors",
    "ServerUnreachable": "muster.sdk.errors",
    "Unauthorized": "muster.sdk.errors",
}

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "Expired",
    "NotFound",
    "Problem",
    "ServerUnreachable",
    "Unauthorized",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
