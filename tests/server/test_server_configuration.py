"""`muster server --config FILE`: what it says is done, options win over it, and what is wrong is named."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from serving import MUSTER, PATIENCE_S, Site

from muster.documents.problems import DocumentError
from muster.server.configuration import Configuration, read_configuration

DOCUMENTED = Path(__file__).parents[2] / "docs" / "server.md"


def written(folder: Path, text: str) -> str:
    """The path of a file with this text."""
    path = folder / "server.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def example() -> str:
    """The configuration that the documentation shows."""
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCUMENTED.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(text)


def test_the_documented_example_runs_and_options_win_over_it(tmp_path: Path) -> None:
    path = written(tmp_path, example())
    read = read_configuration(path)

    record = str(tmp_path / "record")
    with Site(
        tmp_path, "", "--config", path, "--most-queued", "2", "--record", record
    ) as site:  # and --port 0, --db and --token-file
        assert read.port != 0
        assert site.ask("GET", "/status")["preemption"] == read.policy.preemption.value == "dry-run"
        site.queue("a")
        job = {"name": "x", "queue": "a", "cpu": 1}
        site.submit(job, job)
        assert "2 is the most it takes" in site.ask("POST", "/jobs", {"jobs": [job]}, status=429)["error"]["message"]


def test_every_key_of_the_example_is_read(tmp_path: Path) -> None:
    read, default = read_configuration(written(tmp_path, example())), Configuration()

    assert all(getattr(read, name) != getattr(default, name) for name in ("database", "token_file", "record"))
    assert read.limits.keep_ms == 3 * 24 * 3_600_000
    for limit in (
        "most_queued",
        "most_jobs",
        "most_bytes",
        "most_requests",
        "most_strangers",
        "most_record",
        "silent_ms",
        "lost_ms",
    ):
        assert getattr(read.limits, limit) != getattr(default.limits, limit), limit
    assert (read.policy.over_share, read.policy.order.is_by_arrival) == (None, False)


def test_nothing_said_is_everything_as_it_is_without_a_file(tmp_path: Path) -> None:
    assert read_configuration(written(tmp_path, "{}")) == Configuration()


@pytest.mark.parametrize(
    "text, says",
    [
        pytest.param("prot: 1", "line 1: prot: the key 'prot' is not allowed: did you mean port?", id="a misspelt key"),
        pytest.param("port: 70000", "port: '70000' is not allowed: a whole number from 0 to 65535", id="no port"),
        pytest.param("\nhost: [a]", "line 2: host: a list is not allowed: an address", id="two hosts"),
        pytest.param("keep: 1y", "keep: '1y' is not allowed: a duration", id="a year is no unit"),
        pytest.param("keep: 0", "keep: '0' is not allowed: a duration", id="nothing is kept"),
        pytest.param("limits: {mostQueued: 0}", "limits.mostQueued: '0' is not allowed: a whole number", id="no jobs"),
        pytest.param("limits: 5", "limits: '5' is not allowed: a mapping", id="a limit of everything"),
        pytest.param("lostAfter: 1s", "lostAfter: '1s' is not allowed: at least silentAfter, which is 30s", id="lost"),
        pytest.param("policy: {overShare: 0}", "policy.overShare: '0' is not allowed: a number above 0", id="policy"),
        pytest.param("policy: {preemptoin: off}", "did you mean preemption?", id="a misspelt key of the policy"),
        pytest.param("- a", "a list is not allowed: a mapping", id="a list is none"),
        pytest.param("a: b: c", "not YAML", id="what is not YAML"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DocumentError) as wrong:
        read_configuration(written(tmp_path, text))

    assert says in str(wrong.value)


@pytest.mark.parametrize(
    "options, says",
    [
        pytest.param(["--config", "nowhere.yaml"], "nowhere.yaml: 'nowhere.yaml' cannot be read", id="no such file"),
        pytest.param(["--keep", "1y"], "--keep 1y: not a duration", id="a year is no unit"),
        pytest.param(["--lost-after", "1s"], "--lost-after 1s: not allowed: at least --silent-after", id="too soon"),
    ],
)
def test_a_server_that_cannot_be_configured_does_not_start(tmp_path: Path, options: list[str], says: str) -> None:
    ran = subprocess.run(
        [*MUSTER, "server", *options], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S, check=False
    )

    assert ran.returncode == 2
    assert says in ran.stderr
