"""The pages on `why`, `whatif` and `replay` show what those commands print."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("explain", "whatif", "replay")
MUSTER = [sys.executable, "-c", "from muster.cli.main import main; main()"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place to run commands from, with the examples in it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def printed(command: str, folder: Path) -> str:
    """What a command of a page prints, on either stream."""
    if command.startswith("muster "):
        run = subprocess.run(
            [*MUSTER, *shlex.split(command)[1:]], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
    else:
        run = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return "".join(f"{line.rstrip()}\n" for line in (run.stdout + run.stderr).splitlines())


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what the page says that it prints."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_real_output(page: str, folder: Path) -> None:
    shown = [one for block in blocks(page, "console") for one in commands(block)]

    assert shown
    for command, output in shown:
        assert printed(command, folder) == output, f"paste what `{command}` prints into docs/{page}.md"


def test_the_page_on_replay_shows_a_real_difference(folder: Path) -> None:
    printed("muster simulate examples/scenarios/gangs.yaml --record turns.muster", folder)
    body, _, end = gzip.decompress((folder / "turns.muster").read_bytes()).rpartition(b'["end"')
    lines = [json.loads(line) for line in body.splitlines()]
    start = next(
        action for line in lines[1:] if line[0] == "actions" for action in line[1] if action[1][0] == "speech-train"
        if action[0] == "Start"
    )  # fmt: skip
    start[1][4][0][2] = "n-9"
    body = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    turns = json.loads(b'["end"' + end)[1]
    forged = json.dumps(["end", turns, hashlib.sha256(body).hexdigest()], separators=(",", ":")).encode()
    (folder / "turns.muster").write_bytes(gzip.compress(body + forged + b"\n"))

    assert blocks("replay", "text") == [printed("muster replay turns.muster", folder)]
