"""What a scheduler has compiled before it leads is all that its turns need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubeworld import Told

from muster.engine.kernels import jit
from muster.kubernetes.warming import is_worth_it, warm_up
from muster.kubernetes.world import World
from muster.model.policy import Policy

POLICY = Policy(over_share=None)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the kernels that would have been compiled by now; they run as they are written."""
    names: set[str] = set()

    def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            names.add(kernel.__name__)
            return kernel(*args)

        return call

    monkeypatch.setattr(jit, "compiled", compiled)
    monkeypatch.setenv("MUSTER_KERNELS", "compiled")
    return names


def busy_turns() -> None:
    """Pods of all kinds come, wait, start and give way."""
    told = Told()
    told.world = World(POLICY)
    for number in range(12):
        told.node(f"n{number}", cpu=8, gpus=2)
    for number in range(70):
        told.pod(f"p{number}", cpu=1)
    told.turn()
    told.spec("train", 4)
    told.gang("train", *(f"g{number}" for number in range(4)), cpu=4, priority=100)
    for number in range(20):
        told.pod(f"q{number}", cpu=4, priority=10, requests={"nvidia.com/gpu": "1"})
        told.pod(f"r{number}", cpu=3, priority=1000)
    for _ in range(4):
        told.turn(1)
        told.reasons()
        told.ends(next(name for name, pod in told.pods.items() if pod.spec.node_name and not pod.is_over))


def test_no_kernel_is_left_to_be_compiled_in_a_turn(called: set[str]) -> None:
    warm_up(POLICY)
    before = set(called)
    busy_turns()

    assert len(before) > 10
    assert called == before


@pytest.mark.parametrize(
    "nodes, pods, worth",
    [
        pytest.param(10, 300, False, id="a small cluster is planned in plain Python"),
        pytest.param(100, 0, True, id="many nodes"),
        pytest.param(4, 5000, True, id="many pods"),
    ],
)
def test_only_clusters_whose_turns_use_compiled_kernels_are_worth_it(nodes: int, pods: int, worth: bool) -> None:
    assert is_worth_it(nodes, pods) is worth
