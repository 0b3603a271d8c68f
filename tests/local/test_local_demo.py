"""`make run`: a small mixed workload on this machine runs to its end and is explained; the server stays till Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from serving import MUSTER, PATIENCE_S

JOBS = {"background", "elastic", "urgent", "gang", *(f"lesson-{number}" for number in range(1, 5))}


def test_the_demo_runs_to_its_end_says_what_happened_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "PYTHONUNBUFFERED": "1"}
    command = [*MUSTER, "up", "--demo", "--nodes", "2", "--port", "0", "--data", str(tmp_path / "data")]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as demo:
        assert demo.stdout is not None
        said = []
        for line in demo.stdout:
            said.append(line)
            if "stays up at" in line:
                break
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
        code = demo.wait(PATIENCE_S)

    text = "".join(said)
    story = text.partition("What happened")[2]
    ended = dict(re.findall(r"^([a-z0-9-]+)-[a-z]{11} (succeeded|failed|cancelled)$", story, re.MULTILINE))
    assert code == 0
    assert ended == dict.fromkeys(JOBS, "succeeded")
    assert re.search(r"preempted for urgent-[a-z]{11}\n  started on \S+ \(attempt 2\)", story)
    assert re.search(r"worker: from 1 to [234] tasks", story)
    assert re.search(r"waited: [A-Z_]+: .", story)
    still = [path for path in Path("/proc").glob("[0-9]*/environ") if str(tmp_path).encode() in _read(path)]
    assert still == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended, or is not ours
        return b""
