"""Takes the picture of a report that docs/report.md shows: `make plots`. Needs Chromium, as the tests do."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import open_browser  # noqa: E402

from muster.sim.measures import Gauge  # noqa: E402
from muster.sim.report import page  # noqa: E402
from muster.sim.scenario.loader import load  # noqa: E402
from muster.sim.simulate import Simulation  # noqa: E402

SCENARIO = "demo.yaml"
SIZE = {"width": 1280, "height": 1660}


def main() -> None:
    """Simulate, open, take the picture."""
    scenario = load(str(ROOT / "examples" / "scenarios" / SCENARIO))
    simulation = Simulation(scenario, estimates=False)
    gauge = Gauge(simulation)
    for tick in simulation:
        gauge.add(tick)
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        report = Path(folder) / "report.html"
        report.write_text(page(scenario, gauge.result(), SCENARIO), encoding="utf-8")
        shown = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        shown.goto(report.as_uri())
        shown.screenshot(path=HERE / "report.png")
    sys.stdout.write("plots: docs/report.png\n")


if __name__ == "__main__":
    main()
