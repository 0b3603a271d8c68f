"""`muster agent` finds its server and token as other commands do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import MUSTER, PATIENCE_S, Process, Site

NODES = ["--nodes", "1xcpu=1,memory=1Gi"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        yield running


def at_home(folder: Path) -> dict[str, str]:
    """The environment of somebody who keeps everything in one folder."""
    names = dict.fromkeys((name for name in os.environ if name.startswith("MUSTER_")), "")
    return {**names, "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder)}


def written(folder: Path, site: Site, current: str = "lab") -> None:
    """A context called lab that leads to the server."""
    path = folder / "muster" / "contexts.yaml"
    path.parent.mkdir()
    lab = f"  lab: {{server: '{site.url}', tokenFile: '{site.token_file}'}}\n"
    path.write_text(f"current: {current}\ncontexts:\n{lab}", encoding="utf-8")


@pytest.mark.parametrize(
    "options, current, variables",
    [
        pytest.param([], "lab", {}, id="the context in use"),
        pytest.param(["--context", "lab"], "null", {"MUSTER_SERVER": "http://127.0.0.1:1"}, id="a context by its name"),
        pytest.param([], "null", {"MUSTER_CONTEXT": "lab"}, id="a context that the environment names"),
    ],
)
def test_an_agent_calls_the_server_of(
    site: Site, tmp_path: Path, options: list[str], current: str, variables: dict[str, str]
) -> None:
    written(tmp_path, site, current)
    agent = Process(
        ["agent", "--cluster", "c", *NODES, *options],
        f"is connected to {site.url}",
        tmp_path / "log",
        {**at_home(tmp_path), **variables},
    )
    agent.start()

    assert agent.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    "options, code, says",
    [
        pytest.param(["--context", "nowhere"], 2, "there is no context 'nowhere'", id="no such context"),
        pytest.param(["--server", "nonsense"], 2, "an address such as", id="what is no address"),
        pytest.param(["--token-file", "nothing"], 2, "'nothing' cannot be read", id="no such file"),
        pytest.param(["--nodes", "many"], 2, "--nodes many: ", id="nodes that are none"),
    ],
)
def test_an_agent_that_cannot_know_its_server_says_why(
    site: Site, tmp_path: Path, options: list[str], code: int, says: str
) -> None:
    written(tmp_path, site)
    ran = subprocess.run(
        [*MUSTER, "agent", *NODES, *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **at_home(tmp_path)},
        timeout=PATIENCE_S,
        check=False,
    )

    assert (ran.returncode, says in ran.stderr) == (code, True), ran.stderr
