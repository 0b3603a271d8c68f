"""kill -9 of a process that writes: what it was told is durable is there, and no batch is there in part."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from muster.store.store import Store

# Each batch brings three jobs with leases, changes the three before, and is printed when it is durable.
WRITE = """
import sys
sys.path.insert(0, sys.argv[2])
from store_rows import a_lease, submitted
from muster.store.rows import JobChange
from muster.store.store import Store
from muster.store.writer import Writer

store = Store.open(sys.argv[1])
store.write_apart()
writer = Writer(store)
waiting = []
for number in range(int(sys.argv[3]), 1_000_000):
    ids = [f"{number}-{place}" for place in range(3)]
    before = [JobChange(id=f"{number - 1}-{place}", state="failed", end_ms=number) for place in range(3)]
    waiting.append((number, writer.put(submitted(*ids, changes=before, leases=[a_lease(job) for job in ids]))))
    if len(waiting) == 5:
        for written, future in waiting:
            future.result()
            print(written, flush=True)
        waiting = []
"""


def written_until_killed(url, start, lines):
    """Have a process write from batch `start` on, and kill it after so many lines; the last batch it called durable."""
    command = [sys.executable, "-c", WRITE, url, str(Path(__file__).parents[1]), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        last = None
        for _ in range(lines):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")  # what it could still say, without half a line
        last = int(rest[-2]) if len(rest) > 1 else last
        assert process.wait() == -signal.SIGKILL
    return last


@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_survives_and_nothing_is_there_in_part(url, seed):
    start = 0
    for lines in Random(seed).sample(range(1, 60), 3):
        acknowledged = written_until_killed(url, start, lines)

        store = Store.open(url)
        events = store.events(0, 100_000)
        batches = len(events) // 3
        assert acknowledged < batches  # nothing was lost; a few may be there that nobody was told about
        assert [event.job for event in events] == [f"{batch}-{place}" for batch in range(batches) for place in range(3)]
        assert [event.seq for event in events] == list(range(1, 3 * batches + 1))
        assert [job.id for job in store.unfinished()] == [f"{batches - 1}-{place}" for place in range(3)]
        assert len(store.leases()) == 3 * batches
        assert store.check() == []
        store.close()
        start = batches
