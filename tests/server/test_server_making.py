"""Machine code is made beside the server: jobs start meanwhile, and who makes it does not outlive the server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
from serving import Process, Site

from muster.engine.kernels import jit
from muster.server.making import make
from muster.sim.scenario.loader import load
from muster.sim.simulate import Simulation

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))
MANY = "400xcpu=8,memory=32Gi"  # nodes: enough that compiled kernels are worth it

P = ParamSpec("P")
R = TypeVar("R")


def test_jobs_start_on_many_nodes_while_the_engine_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MUSTER_KERNELS", "auto")
    with Site(tmp_path) as site:
        site.queue("a")
        site.agent(nodes=MANY)
        (job,) = site.submit({"queue": "a", "cpu": 1, "command": ["true"]})
        site.wait([job], "succeeded")
        assert "compiling the engine beside the turns" in site.server.log()
        makers = children(site.server)
        assert site.server.end() == 0

    assert [maker for maker in makers if maker.exists()] == []


def children(process: Process) -> list[Path]:
    """The processes that one started, as folders of /proc."""
    assert process.process is not None
    tasks = Path(f"/proc/{process.process.pid}/task").glob("*/children")
    return [Path("/proc") / child for task in tasks for child in task.read_text().split()]


def test_what_is_made_is_all_that_turns_use(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()

    def noted(kernel: Callable[P, R]) -> Callable[P, R]:
        on_arrays = jit._on_arrays(kernel)

        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            used.add(f"{kernel.__module__}.{kernel.__name__}")
            return on_arrays(*args, **kwargs)

        return called

    monkeypatch.setattr("muster.engine.opening.suited_to", lambda _: noted)
    make()
    made = frozenset(used)
    for example in EXAMPLES:
        for _ in Simulation(load(str(example))):
            pass

    assert used == made
