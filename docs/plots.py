"""Draws the plots of docs/concepts/ from real simulations: `make plots`.

Each is what an example under examples/scenarios/ does, moment by moment, read from the state of the simulation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from muster.model.placement import Placement, PlacementRule
from muster.model.resources import CPU, GPU, MICRO
from muster.sim.lines import lines
from muster.sim.scenario.loader import load
from muster.sim.simulate import Simulation
from muster.state.pools import pool_table
from muster.state.state import State

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples" / "scenarios"
MINUTE_MS = 60_000

Series = dict[str, list[float]]
Read = Callable[[State], Mapping[str, float]]


def followed(name: str, read: Read, until_min: float) -> tuple[list[float], Series]:
    """What a simulation's state says after every moment: minutes, and a series for each name."""
    simulation = Simulation(load(str(EXAMPLES / f"{name}.yaml")), skips_turns=False, estimates=False)
    minutes: list[float] = []
    seen: list[Mapping[str, float]] = []
    for _ in simulation:
        state = simulation.state
        if state.now_ms > until_min * MINUTE_MS:
            break
        minutes.append(state.now_ms / MINUTE_MS)
        seen.append(read(state))
    last = len(seen) - 1
    keep = [place for place in range(len(seen)) if place in (0, last) or seen[place] != seen[place - 1]]
    names = sorted({name for one in seen for name in one})
    return [minutes[at] for at in keep], {name: [seen[at].get(name, 0.0) for at in keep] for name in names}


def cores_by_queue(state: State) -> dict[str, float]:
    """Cores that run for each queue."""
    return _summed((run.job.queue, run.resources.get(CPU) / 1000) for run in state.running.values())


def cores_by_job(state: State) -> dict[str, float]:
    """Cores that run for each job."""
    return _summed((run.job.id, run.resources.get(CPU) / 1000) for run in state.running.values())


def tasks_by_job(state: State) -> dict[str, float]:
    """How wide each job runs."""
    return {run.job.id: len(run.tasks) for run in state.running.values()}


def flow_by_queue(state: State) -> dict[str, float]:
    """The flow of each queue, and of one its usage."""
    now_ms, half_ms = state.now_ms, state.policy.half_time_ms
    accounts = {it.queue.name: it.account for it in state.freeze(now_ms).queues}
    flows = {f"flow of {name}": account.flow_at(now_ms, half_ms) / MICRO for name, account in accounts.items()}
    return flows | {"usage of research": accounts["research"].usage / MICRO}


def cores_of_vision(state: State) -> dict[str, float]:
    """Cores of the pool vision that its own jobs hold, and that it lends."""
    standing = pool_table(state.freeze(state.now_ms)).standings["vision"]
    own = standing.used.get(CPU) - standing.shared.get(CPU)
    return {"own jobs of vision": own / 1000, "sweeps that borrow": standing.shared.get(CPU) / 1000}


def _summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, amount in pairs:
        sums[name] = sums.get(name, 0.0) + amount
    return sums


def _stack(axes: Axes, minutes: list[float], series: Series) -> None:
    axes.stackplot(minutes, list(series.values()), labels=list(series), step="post", alpha=0.8)


def _steps(axes: Axes, minutes: list[float], series: Series) -> None:
    for name, values in series.items():
        axes.step(minutes, values, where="post", label=name, linestyle=":" if name.startswith("usage") else "-")


def _level(axes: Axes, at: float, label: str) -> None:
    axes.axhline(at, color="black", linewidth=0.8, linestyle="--", label=label)


def queues(axes: Axes) -> str:
    """Two queues of different weight share 32 cores."""
    _stack(axes, *followed("fair-share", cores_by_queue, 40))
    _level(axes, 24, "3/4 of the fleet")
    return "cores in use"


def flow(axes: Axes) -> str:
    """A night's work fades."""
    _steps(axes, *followed("flow", flow_by_queue, 420))
    return "usage (cores and their memory)"


def budgets(axes: Axes) -> str:
    """A queue above its nominal share spends its excess budget."""
    _steps(axes, *followed("budget", cores_by_queue, 90))
    _level(axes, 16, "nominal share of each")
    return "cores in use"


def gangs(axes: Axes) -> str:
    """A gang waits whole; a short job passes it without delaying it."""
    _stack(axes, *followed("gangs", cores_by_job, 90))
    _level(axes, 64, "the fleet")
    return "cores in use"


def pools(axes: Axes) -> str:
    """A pool lends what it does not need, and takes it back."""
    _stack(axes, *followed("pools-borrow", cores_of_vision, 50))
    _level(axes, 16, "the pool vision")
    return "cores in use"


def width(axes: Axes) -> str:
    """Elastic jobs grow, shrink and even out."""
    _steps(axes, *followed("elastic", tasks_by_job, 120))
    return "tasks"


def races(axes: Axes) -> str:
    """What became of each copy in two of the races."""
    simulation = Simulation(load(str(EXAMPLES / "race.yaml")), estimates=False)
    sent: dict[tuple[str, str], float] = {}
    ends: dict[tuple[str, str], tuple[float, str]] = {}
    for line in (line for tick in simulation for line in lines(tick)):
        key, minute = (line["job"], line.get("cluster", "")), line["t"] / 60
        if line["event"] == "submitted_to":
            sent[key] = minute
        elif line["event"] in ("won", "cancelled_at"):
            ends.setdefault(key, (minute, line["event"]))
    for what, told, colour in (("won", "won after", "tab:green"), ("cancelled_at", "cancelled after", "tab:red")):
        copies = [key for key in ends if key[0] in ("early", "late") and ends[key][1] == what]
        names = [f"{job} on {cluster}" for job, cluster in copies]
        axes.barh(names, [ends[key][0] - sent[key] for key in copies], color=colour, alpha=0.7, label=told)
    return ""


def placement(axes: Axes) -> str:
    """GPUs in use where small shares come before jobs that need many cores, by four rules."""
    scenario = load(str(EXAMPLES / "shared-gpus.yaml"))
    for rule in (PlacementRule.FRAGMENTATION, PlacementRule.TIGHTEST, PlacementRule.PACKING, PlacementRule.RANDOM):
        policy = replace(scenario.policy, placement=Placement(rule=rule))
        simulation = Simulation(replace(scenario, policy=policy), estimates=False)
        minutes, in_use = [0.0], [0.0]
        for _ in simulation:
            minutes.append(simulation.state.now_ms / MINUTE_MS)
            in_use.append(sum(run.resources.get(GPU) for run in simulation.state.running.values()) / 1000)
        axes.step(minutes, in_use, where="post", label=rule.value)
    return "GPUs in use"


PLOTS = {
    "queues": queues,
    "flow": flow,
    "budgets": budgets,
    "gangs": gangs,
    "pools": pools,
    "width": width,
    "races": races,
    "placement": placement,
}


def main() -> None:
    """Draw them all."""
    plt.rcParams |= {"svg.hashsalt": "muster", "svg.fonttype": "none", "figure.figsize": (8, 3), "font.size": 9}
    for name, draw in PLOTS.items():
        figure, axes = plt.subplots(layout="constrained")
        axes.set_ylabel(draw(axes))
        axes.set_xlabel("minutes")
        if name != "races":
            axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
        figure.savefig(HERE / "concepts" / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
        sys.stdout.write(f"plots: docs/concepts/{name}.svg\n")


if __name__ == "__main__":
    main()
