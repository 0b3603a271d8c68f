"""Pools on the command line: the table that `--pools` prints, and what the summary says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.cli.main import app

TWO = """
clusters:
  - {name: east, nodes: [{name: a, cpu: 4, memory: 8Gi, pods: 110, labels: {pool: a}}, {name: b, cpu: 8, gpu: 2}]}
pools: [{name: a, nodeSelector: {pool: a}, disableSharing: true}]
jobs:
  - {name: mine, pool: a, cpu: 4, memory: 2Gi, runtime: 30}
  - {name: wide, pool: a, count: 2, cpu: 4, at: 60, runtime: 30}
until: 80
"""
GONE = TWO.replace("until: 80", "events: [{at: 40, deletePool: a}]\nuntil: 50")


def muster(tmp_path: Path, text: str, *flags: str) -> str:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    done = CliRunner().invoke(app, ["simulate", str(path), *flags])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_table_of_pools_is_that_of_the_document(tmp_path: Path) -> None:
    printed = muster(tmp_path, TWO, "--pools").splitlines()

    assert [line.rstrip() for line in printed[-11:]] == [
        "pool     p  b  s  resource  capacity  allocatable  used  shared  borrowed  pending  total",
        "default  ✓  ✓  ✓  cpu       8         8            4     4       0         0        12",
        "                  gpu       2         2            0     0       0         0        2",
        "                  memory    0         0            0     0       0         0        8Gi",
        "                  nodes     1         1            1     1       0         0        2",
        "                  pods      no limit  no limit     1     1       0         0        no limit",
        "a        ✓  ✓  x  cpu       4         4            4     0       4         0        12",
        "                  gpu       0         0            0     0       0         0        2",
        "                  memory    8Gi       8Gi          0     0       0         0        8Gi",
        "                  nodes     1         1            1     0       1         0        2",
        "                  pods      110       110          1     0       1         0        no limit",
    ]


def test_a_world_without_pools_is_shown_as_the_default_pool(tmp_path: Path) -> None:
    printed = muster(tmp_path, "clusters: [{name: east, nodes: [{name: n, cpu: 4}]}]\nuntil: 1", "--pools")

    assert "default  ✓  ✓  ✓  cpu       4         4            0     0       0         0        4" in printed


def test_the_summary_tells_of_pools(tmp_path: Path) -> None:
    pools = json.loads(muster(tmp_path, TWO, "-o", "summary"))["pools"]

    assert list(pools) == ["default", "a"]
    assert pools["default"]["utilisation"] == {"cpu": 0.125, "nvidia.com/gpu": 0.0}
    assert pools["a"]["utilisation"] == {"cpu": 0.625, "memory": 0.09375, "pods": 0.005682}
    assert [pools["a"][switch] for switch in ("preemption", "borrowing", "sharing")] == [True, True, False]
    assert pools["a"]["resources"]["cpu"] == {
        "capacity": "4", "allocatable": "4", "used": "4", "shared": "0", "borrowed": "4", "pending": "0", "total": "12"
    }  # fmt: skip


def test_a_pool_that_is_gone_was_still_used(tmp_path: Path) -> None:
    pools = json.loads(muster(tmp_path, GONE, "-o", "summary"))["pools"]

    used = {"cpu": 0.75, "memory": 0.1875, "pods": 0.006818}
    assert pools["a"] == {"utilisation": used, "goodput": used}


@pytest.mark.parametrize(
    "flags, says",
    [
        pytest.param(["-o", "jsonl"], "which prints events and nothing else", id="beside events"),
        pytest.param(["--why", "mine"], "it stops at the moment in question", id="beside a question"),
    ],
)
def test_what_pools_do_not_go_with(tmp_path: Path, flags: list[str], says: str) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(TWO)
    done = CliRunner().invoke(app, ["simulate", str(path), "--pools", *flags])

    assert done.exit_code == 2
    assert says in done.stderr
