"""What the documentation says is true: every example runs and shows what its comment claims, the README's output is
real, every reason has its section, every command an example."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from muster.cli.main import app
from muster.model.reasons import Reason
from muster.sim.checker import check
from muster.sim.lines import dumps, lines
from muster.sim.scenario.loader import load, parse
from muster.sim.scenario.script import ACTIONS
from muster.sim.scenario.world import QUEUE_KEYS
from muster.sim.simulate import Simulation

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "scenarios").glob("*.yaml"))


# --- an example, told -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What an example did: its log, and what the checker had to say about it."""

    log: list[dict[str, Any]]
    violations: list[str]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == event]


@cache
def told(name: str) -> Told:
    simulation = Simulation(load(str(ROOT / "examples" / "scenarios" / f"{name}.yaml")))
    violations: list[str] = []
    simulation.run.watch = lambda snapshot, plan: violations.extend(check(snapshot, plan))
    return Told(log=[line for tick in simulation for line in lines(tick)], violations=violations)


Question = Callable[[Told], Any]


def starts(job: str) -> Question:
    """When each attempt of the job started, in minutes."""
    return lambda it: [line["t"] / 60 for line in it.of("started") if line["job"] == job]


def ends(job: str) -> Question:
    """How each attempt of the job ended, and when, in minutes."""
    over = ("requeued", "succeeded", "failed", "cancelled")
    return lambda it: [
        (line["event"], line["t"] / 60) for line in it.log if line["job"] == job and line["event"] in over
    ]


def reasons(job: str) -> Question:
    """The reasons the job had, in order."""
    return lambda it: [line["reason"] for line in it.of("waiting") if line["job"] == job]


def first_reason(job: str) -> Question:
    """The reason the job had first."""
    return lambda it: reasons(job)(it)[0]


def fact(job: str, name: str) -> Question:
    """A fact of the job's first reason."""
    return lambda it: next(line["facts"][name] for line in it.of("waiting") if line["job"] == job)


def nodes(job: str) -> Question:
    """Where the job ran at last."""
    return lambda it: sorted(set([line["tasks"] for line in it.of("started") if line["job"] == job][-1].values()))


def started_at(minute: float) -> Question:
    """How many jobs of each entry started at that moment."""
    return lambda it: dict(
        Counter(line["job"].rpartition("-")[0] or line["job"] for line in it.of("started") if line["t"] == minute * 60)
    )


def won(job: str) -> Question:
    """Which cluster won the race of the job, and when, in minutes."""
    return lambda it: [(line["cluster"], line["t"] / 60) for line in it.of("won") if line["job"] == job]


def widths(job: str) -> Question:
    """The first three changes of the job's width: when, in minutes, and to how many tasks."""
    return lambda it: [(line["t"] / 60, line["to"]) for line in it.of("resized") if line["job"] == job][:3]


def borrowed_at(minute: float) -> Question:
    """How many jobs started at that moment on nodes of each pool that lends."""
    return lambda it: dict(Counter(line["pool"] for line in it.of("borrowed") if line["t"] == minute * 60))


def evictions(it: Told) -> list[tuple[str, str, str]]:
    """(who, for whom, by which rule) of every preemption, in order."""
    return [(line["job"], line["by"], line["rule"]) for line in it.of("preempted")]


# --- every example runs, and says what its comment claims -------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_opens_with_what_to_look_at(path):
    comment = [*takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())]

    assert 3 <= len(comment) <= 6
    assert "Look at" in " ".join(comment)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_keeps_every_rule(path):
    assert told(path.stem).log
    assert told(path.stem).violations == []


CLAIMS = [
    pytest.param("ageing", starts("report"), [240], id="after twice agingAfter a job starts ahead of a higher class"),
    pytest.param("ageing", starts("afternoon-2"), [270], id="the urgent job behind it comes next"),
    pytest.param("backfill", starts("train"), [60], id="the gang starts when it was promised"),
    pytest.param("backfill", starts("short"), [3], id="a job that ends in time slips by"),
    pytest.param("backfill", starts("capped"), [4], id="so does one whose time limit ends in time"),
    pytest.param("backfill", starts("spare"), [5], id="so does one that needs only cores the gang leaves"),
    pytest.param("backfill", first_reason("long"), "WOULD_DELAY", id="a long one would delay the gang"),
    pytest.param("budget", started_at(0), {"serve": 19, "train": 20}, id="1.2 shares, and a share plus the budget"),
    pytest.param("budget", reasons("serve-19"), ["OVER_SHARE"], id="beyond 1.2 shares a job needs a lifetime"),
    pytest.param("budget", reasons("train-20"), ["BUDGET"], id="beyond the budget a job waits"),
    pytest.param("budget", started_at(5), {"run": 8}, id="newcomers find room at once"),
    pytest.param("clusters", nodes("free"), ["e-0"], id="without a wish the preferred cluster"),
    pytest.param("clusters", nodes("picky"), ["w"], id="a job's own preference wins"),
    pytest.param("clusters", reasons("tied"), ["RESERVED"], id="one candidate only: it waits there"),
    pytest.param("clusters", nodes("fallback"), ["e-0"], id="preference does not wait for a cluster"),
    pytest.param("demo", starts("train"), [30], id="the gang waits for the notebook"),
    pytest.param("demo", starts("eval"), [3], id="a short job uses the idle GPUs meanwhile"),
    pytest.param("demo", fact("finetune", "reserved"), ["train"], id="a long one would delay the gang in the demo"),
    pytest.param("demo", lambda it: {rule for _, _, rule in evictions(it)}, {"fair-share"}, id="sweeps give way"),
    pytest.param("demo", fact("giant", "dimension"), "cpu", id="what is larger than any machine never fits"),
    pytest.param("dependencies", starts("train-0"), [10], id="shards start when fetch has succeeded"),
    pytest.param("dependencies", starts("train-1"), [10, 15], id="a failed shard uses its retry"),
    pytest.param("dependencies", starts("merge"), [35], id="merge waits for the last shard"),
    pytest.param("dependencies", starts("publish"), [], id="after a failed job nothing starts"),
    pytest.param("dependencies", ends("mail"), [("cancelled", 5)], id="nor what comes after that"),
    pytest.param("dependencies", starts("alert"), [5], id="but what comes after a failure"),
    pytest.param("dependencies", starts("clean"), [35], id="and what comes after any end, the last of them"),
    pytest.param("hold", starts("digest"), [10], id="others pass a job that is held"),
    pytest.param("hold", starts("report"), [30], id="a held job starts when it is released"),
    pytest.param("hold", reasons("report"), ["RESERVED", "HELD"], id="a held job has no reservation any more"),
    pytest.param("fair-share", started_at(0), {"sweep": 24, "label": 8}, id="weights 3 and 1 share 32 cores"),
    pytest.param("fair-share", started_at(20), {"label": 32}, id="an idle share goes to who can use it"),
    pytest.param("first", reasons("train"), ["RESERVED"], id="the gang of the README has a reservation"),
    pytest.param("first", reasons("long"), ["WOULD_DELAY"], id="the long job of the README would delay it"),
    pytest.param("first", reasons("huge"), ["NEVER_FITS"], id="the huge job of the README never fits"),
    pytest.param("no-nodes", reasons("train"), ["NO_NODES"], id="a job whose pool has no machines yet waits for them"),
    pytest.param("no-nodes", starts("train"), [30], id="and starts when one arrives"),
    pytest.param("no-nodes", started_at(0), {"sweep": 4}, id="it holds back nobody meanwhile"),
    pytest.param("flow", started_at(120), {"early-vision": 4}, id="who used the fleet an hour ago goes second"),
    pytest.param("flow", started_at(360), {"late-research": 2, "late-vision": 2}, id="the memory fades"),
    pytest.param("short-first", starts("check-3"), [183], id="queues of short jobs go first"),
    pytest.param("short-first", starts("analysis-0"), [184], id="and then those of long jobs"),
    pytest.param("gangs", starts("speech-train"), [40], id="the second gang starts whole when the first ends"),
    pytest.param("gangs", reasons("speech-train"), ["RESERVED"], id="until then it holds nothing but a reservation"),
    pytest.param("gangs", starts("probe"), [2], id="a short job uses the machine meanwhile"),
    pytest.param("shared-gpus", starts("train-c-3"), [4], id="whole devices with cores are kept for who needs them"),
    pytest.param("shared-gpus", nodes("share-a-0"), ["small-0"], id="shares go where they are in nobody's way"),
    pytest.param("gpus", starts("whole"), [32], id="parts of different devices do not add up"),
    pytest.param("gpus", nodes("prepare-1"), ["plain"], id="CPU jobs go to the plain machine first"),
    pytest.param("gpus", nodes("prepare-2"), ["gpu"], id="and to the GPU machine when it is full"),
    pytest.param("never-fits", fact("no-gpu", "dimension"), "nvidia.com/gpu", id="a GPU where there is none"),
    pytest.param("never-fits", fact("no-label", "dimension"), "nodeSelector", id="a label no node has"),
    pytest.param("never-fits", fact("not-tolerated", "dimension"), "taint", id="a taint that is not tolerated"),
    pytest.param("never-fits", fact("gang", "placed"), 6, id="6 of 8 tasks fit"),
    pytest.param("never-fits", starts("rescued"), [10], id="a larger machine changes the verdict"),
    pytest.param("node-loss", starts("train"), [0, 10], id="a lost gang starts again, whole"),
    pytest.param(
        "node-loss", ends("train"), [("requeued", 5), ("succeeded", 50)], id="we hear of ends after the silence"
    ),
    pytest.param("node-loss", starts("next"), [50], id="nothing starts in a silent cluster"),
    pytest.param("node-loss", starts("wide"), [70], id="a cordoned node takes nothing new"),
    pytest.param("operations", started_at(0), {"burst": 2}, id="two starts per turn"),
    pytest.param("operations", reasons("late"), ["QUEUE_CORDONED"], id="a cordoned queue starts nothing"),
    pytest.param("operations", ends("burst-9"), [("cancelled", 12)], id="a cancelled job is gone"),
    pytest.param("operations", fact("urgent", "wouldEvict"), ["burst-8"], id="a dry-run says who would be evicted"),
    pytest.param("operations", evictions, [], id="a dry-run evicts nobody"),
    pytest.param(
        "preemption",
        lambda it: sorted(evictions(it)),
        [("large", "serve", "fair-share"), ("small-10", "tune", "fair-share"), ("small-11", "tune", "fair-share")],
        id="one large victim instead of four small ones, and no more than needed",
    ),
    pytest.param("pools-borrow", started_at(0), {"sweep": 8}, id="idle machines of another pool are used"),
    pytest.param("pools-borrow", borrowed_at(0), {"vision": 4}, id="half of the sweeps are at home"),
    pytest.param("pools-borrow", starts("train"), [10], id="who comes home finds room at once"),
    pytest.param(
        "pools-borrow",
        lambda it: [by for _, by, _ in evictions(it)],
        ["train"] * 3,
        id="no more borrowers than needed go",
    ),
    pytest.param("pools-borrow", borrowed_at(20), {"vision": 1}, id="what is left of a pool is lent beside its own"),
    pytest.param("pools-borrow", borrowed_at(40), {"vision": 4}, id="and all of it when it is idle again"),
    pytest.param("preemption", starts("serve"), [10], id="nobody is preempted before the lifetime is over"),
    pytest.param("preemption", starts("more"), [40], id="nobody is pushed below its share"),
    pytest.param(
        "classes",
        lambda it: sorted(evictions(it)),
        [
            *((f"new-{number}", "urgent", "class") for number in range(3)),
            *((f"old-{number}", f"page-{1 - number}", "class") for number in range(2)),
        ],
        id="a higher class takes the newest that violate no budget, and nobody of its own class",
    ),
    pytest.param("classes", starts("late"), [15], id="who is of the lowest class waits"),
    pytest.param("quotas", reasons("model-2"), ["QUOTA"], id="the queue's quota holds back GPU jobs"),
    pytest.param("quotas", starts("prepare"), [1], id="CPU jobs pass GPU jobs at their quota"),
    pytest.param("quotas", reasons("ada-2"), ["USER_QUOTA"], id="the user's quota holds back her jobs"),
    pytest.param("quotas", starts("ben"), [2], id="others pass her"),
    pytest.param("race", won("early"), [("v100", 60)], id="a better cluster that runs it in time wins"),
    pytest.param("race", won("late"), [("k80", 72)], id="unseen time earns no guard, and the deadline comes"),
    pytest.param("race", won("grace"), [("p100", 75)], id="with grace an entry before the deadline is enough"),
    pytest.param("race", ends("refused"), [("failed", 8)], id="when every cluster dropped out the job fails"),
    pytest.param("race", fact("second", "would"), "5", id="a race pays its quota once, at its largest"),
    pytest.param("topology", nodes("near"), ["a-4", "a-5"], id="two hops: both machines of a leaf"),
    pytest.param("topology", nodes("close"), ["b-0", "b-1"], id="prefer close: the nearest that is left"),
    pytest.param("topology", fact("tight", "dimension"), "topology", id="free machines that are too far apart"),
    pytest.param("topology", nodes("loose"), ["a-1", "a-3"], id="four hops may use them"),
    pytest.param("topology", reasons("wide"), ["NEVER_FITS"], id="three machines under a leaf of two never fit"),
    pytest.param("unknown-ends", fact("train", "assumed"), True, id="a start that rests on a guess says so"),
    pytest.param("unknown-ends", first_reason("open"), "WOULD_DELAY", id="no end, no lifetime: no passing"),
    pytest.param(
        "unknown-ends", evictions, [("timed", "train", "reservation")], id="who passed on its lifetime gives way"
    ),
    pytest.param(
        "whatif",
        evictions,
        [("sweep-7", "build", "fair-share"), ("sweep-6", "build", "fair-share")],
        id="the build gets its share",
    ),
    pytest.param("why", reasons("train"), ["GANG_DOES_NOT_FIT", "RESERVED"], id="the training job waits behind eval"),
    pytest.param("why", starts("train"), [90], id="and starts when eval has ended"),
    pytest.param("whole-nodes", fact("bench", "dimension"), "wholeNode", id="no two machines are empty"),
    pytest.param("whole-nodes", starts("bench"), [20], id="whole nodes are kept for the gang"),
    pytest.param("whole-nodes", nodes("filler-1"), ["n-2"], id="nobody is put beside it"),
    pytest.param("widths", lambda it: len(it.of("started")[1]["tasks"]), 4, id="as wide as fits, from min to initial"),
    pytest.param("widths", lambda it: it.of("resized")[0]["to"], 2, id="tasks above min give way, the job goes on"),
    pytest.param("widths", starts("serve"), [20], id="and who waits starts in their place"),
    pytest.param("widths", evictions, [], id="nobody is evicted for it"),
    pytest.param(
        "elastic",
        widths("explore"),
        [(5 / 60, 16), (10, 14), (15, 8)],
        id="grows, shrinks, leaves others their half",
    ),
    pytest.param("elastic", starts("train"), [10], id="a newcomer starts on a full fleet"),
    pytest.param("elastic", starts("service"), [20], id="within their windows they do not shrink"),
    pytest.param("calendar", widths("train"), [(5 / 60, 32), (470, 16), (1200, 12)], id="shrinks ahead of the window"),
    pytest.param("benefit", widths("steep"), [(5 / 60, 7), (120, 6), (125, 3)], id="room goes to who gains from it"),
    pytest.param("benefit", widths("late"), [(125, 4)], id="a newcomer's claim is whole"),
    pytest.param("moves", nodes("picky"), ["f-1"], id="who starts on the slow cluster moves when the fast one is free"),
    pytest.param("moves", starts("keen"), [1, 61 / 60], id="who cares changes places with who does not"),
    pytest.param("calendar", starts("batch"), [1200], id="who needs withheld room starts when the window closes"),
]


@pytest.mark.parametrize("name, question, answer", CLAIMS)
def test_an_example_shows_what_it_claims(name, question, answer):
    assert question(told(name)) == answer


def test_without_short_first_the_checks_of_that_example_wait_for_analysis():
    text = (ROOT / "examples" / "scenarios" / "short-first.yaml").read_text(encoding="utf-8")
    without = text.replace("shortFirst: 0.5", "fairBy: flow")

    log = [line for tick in Simulation(parse(without)) for line in lines(tick)]

    assert starts("check-0")(Told(log=log, violations=[])) == [280]


def test_every_example_is_held_to_a_claim():
    assert {path.stem for path in EXAMPLES} == {claim.values[0] for claim in CLAIMS}


def test_every_reason_is_shown_by_some_example():
    shown = {line["reason"] for path in EXAMPLES for line in told(path.stem).of("waiting")}

    # BEHIND are those a turn did not look at; a simulation takes no second turn at the moment of an eviction.
    assert shown == {reason.name for reason in Reason} - {"BEHIND", "JUST_EVICTED"}


# --- the README -------------------------------------------------------------------------------------------


def _fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_shows_real_output(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (block,) = _fenced("README.md", "console")
    command, _, printed = block.partition("\n")
    file = ROOT / command.removeprefix("$ .venv/bin/muster simulate ")

    ran = CliRunner().invoke(app, ["simulate", str(file)])

    output = "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())
    assert ran.exit_code == 0
    assert printed == output, f"paste what `{command}` prints into README.md"
    assert _fenced("README.md", "yaml") == [re.sub(r"\A(#.*\n)+", "", file.read_text())]


@pytest.mark.parametrize("page, count", [("races", 2), ("pools", 1), ("queues", 1)])
def test_a_page_shows_real_output(page, count, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    blocks = _fenced(f"docs/concepts/{page}.md", "console")

    assert len(blocks) == count
    for block in blocks:
        command, _, printed = block.partition("\n")
        words = command.removeprefix("$ .venv/bin/muster ").split()
        ran = CliRunner().invoke(app, [str(ROOT / word) if word.startswith("examples/") else word for word in words])
        output = "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())
        assert (ran.exit_code, printed) == (0, output), f"paste what `{command}` prints"


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/index.md",
        "docs/tutorial.md",
        "docs/scenarios.md",
        "docs/job-file.md",
        "docs/reasons.md",
        "docs/concepts/queues.md",
        "docs/concepts/flow.md",
        "docs/concepts/budgets.md",
        "docs/concepts/gangs.md",
        "docs/concepts/pools.md",
        "docs/concepts/races.md",
        "docs/concepts/width.md",
        "docs/explain.md",
        "docs/whatif.md",
        "docs/replay.md",
    ],
)
def test_links_and_paths_lead_somewhere(page):
    text = (ROOT / page).read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in link]
    files = re.findall(r"examples/[a-z]+/[a-z-]+\.yaml", text)

    missing = [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]
    assert [*missing, *(file for file in files if not (ROOT / file).exists())] == []


# --- reasons, scenario files, commands --------------------------------------------------------------------


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_every_reason_has_a_section_with_its_facts_and_what_changes_it(reason):
    sections = re.split(r"^## ", (ROOT / "docs" / "reasons.md").read_text(), flags=re.MULTILINE)
    text = next((" ".join(section.split()) for section in sections if section.startswith(f"{reason.name}\n")), "")

    names = {name for _, name, _, _ in Formatter().parse(reason.sentence) if name}
    common = {"dimension", "short", "matching", "placed", "needed"} if "As for NO_ROOM" in text else set()
    assert text, f"docs/reasons.md has no section {reason.name}"
    assert {name for name in names - common if f"`{name}`" not in text} == set()
    assert {happening.value for happening in reason.until if happening.value not in text} == set()


def test_the_page_on_scenarios_names_every_event():
    text = (ROOT / "docs" / "scenarios.md").read_text()

    assert [name for name in (*ACTIONS, *QUEUE_KEYS) if f"`{name}" not in text] == []


def test_pages_quote_lines_that_examples_print():
    printed = {dumps(line) for path in EXAMPLES for line in told(path.stem).log}
    pages = ("docs/scenarios.md", "docs/concepts/pools.md", "docs/concepts/width.md")
    quoted = [line for page in pages for block in _fenced(page, "json") for line in block.splitlines()]

    assert {json.loads(line)["event"] for line in quoted} >= {"submitted", "started", "waiting", "preempted", "resized"}
    assert [line for line in quoted if line not in printed] == []


def test_every_command_has_an_example_in_its_help():
    def leaves(group, path):
        for name, command in group.commands.items():
            yield from (
                leaves(command, f"{path} {name}") if hasattr(command, "commands") else [(f"{path} {name}", command)]
            )

    commands = dict(leaves(typer.main.get_command(app), "muster"))
    assert "muster queue set" in commands
    assert [name for name, command in commands.items() if f"Example: {name}" not in (command.help or "")] == []
