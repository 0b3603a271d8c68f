"""What the hollow nodes of a cluster are like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Hollow:
    """The nodes of a cluster, all alike, and how their kubelets behave."""

    nodes: int = 0  # node-0, node-1, …
    cpu: str = "32"
    memory: str = "256Gi"
    gpus: int = 0
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    run_s: float | None = None  # how long a container runs whose command does not say; None: until its pod is deleted
    exit_code: int = 0  # and how it exits
    start_s: float = 0.0  # from bound to running
    stop_s: float = 0.0  # how long containers take to end when they are told to; at most their grace
    heartbeat_s: float = 10.0  # a node that is silent for five times as long is lost
