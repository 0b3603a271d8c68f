"""Machine code for the engine's kernels, made by a process beside the server: no turn waits for a compiler.

Compiling takes up to a minute, once for each version of Muster on a machine. Meanwhile kernels run as they are written:
slower, but jobs start.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from threading import Lock

from muster.engine import kernels
from muster.engine.kernels.jit import VARIABLE
from muster.model.placement import Placement, PlacementRule

log = logging.getLogger(__name__)

_MADE = "made"  # a file beside the machine code: all of it is there
_NICENESS = 10  # whoever decides and answers comes first


class Making:
    """Asked whether machine code is made, it has that done; the first time someone asks, it is worth it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def __call__(self) -> bool:
        """Whether it is done. Where it cannot be kept, or comes to nothing, turns see to it themselves."""
        with self._lock:
            if self._process is None:
                folder = kernels.kept_in()
                if folder is None or (folder / _MADE).exists():
                    return True
                log.info("compiling the engine beside the turns: once for this version, up to a minute")
                command, quiet = [sys.executable, "-m", "muster.server.making"], subprocess.DEVNULL
                self._process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
            code = self._process.poll()
        if code is not None:
            log.info("the engine is compiled" if code == 0 else f"compiling it came to nothing: exit code {code}")
        return code is not None

    def stop(self) -> None:
        """Whoever still compiles need not go on."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()


def make() -> None:
    """Compile what turns need: those of a made-up fleet go through it."""
    from muster.sim.scenario.loader import load
    from muster.sim.simulate import Simulation

    with resources.as_file(resources.files("muster.server") / "made_up.yaml") as path:
        scenario = load(str(path))
    for rule in (PlacementRule.TIGHTEST, PlacementRule.FRAGMENTATION):
        policy = replace(scenario.policy, placement=Placement(rule=rule))
        for _ in Simulation(replace(scenario, policy=policy)):
            pass


def _main() -> None:
    if sys.platform != "win32":
        os.nice(_NICENESS)
    os.environ[VARIABLE] = "compiled"
    make()
    if (folder := kernels.kept_in()) is not None:
        (folder / _MADE).touch()


if __name__ == "__main__":
    _main()
