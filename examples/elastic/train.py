"""A job of one to four workers that follows its own width: `muster submit examples/elastic/job.yaml`.

Work is cut into pieces, and a worker takes those that fall to its rank. When the width changes, Muster sends WINCH
(which hurts nobody who does not listen) and has written the new width into the file that MUSTER_WORLD names. A worker
that must leave, and all of them when the job is preempted, get TERM and find the reason in the file that MUSTER_NOTICE
names.
"""

import json
import os
import signal
import sys
import time

PIECES = int(os.environ.get("PIECES", "200"))
SECONDS = float(os.environ.get("SECONDS_EACH", "0.1"))
ME = (os.environ["MUSTER_GROUP"], int(os.environ["MUSTER_INDEX"]))

has_changed = True


def width_changed(*_):
    global has_changed
    has_changed = True


def must_end(*_):
    with open(os.environ["MUSTER_NOTICE"]) as file:
        print("leaving:", json.load(file)["reason"], flush=True)
    sys.exit(0)


def rank_and_size():
    """Which of how many this worker is now; None once it is no part of the job any more."""
    with open(os.environ["MUSTER_WORLD"]) as file:
        world = json.load(file)
    ranks = [task["rank"] for task in world["tasks"] if (task["group"], task["index"]) == ME]
    return (ranks[0], world["size"]) if ranks else None


signal.signal(signal.SIGWINCH, width_changed)  # before the file is read, so that no change is missed
signal.signal(signal.SIGTERM, must_end)
rank, size = 0, 1
for piece in range(PIECES):
    if has_changed:
        has_changed = False
        rank, size = rank_and_size() or (rank, size)
        print(f"at piece {piece}: worker {rank} of {size}", flush=True)
    if piece % size == rank:
        time.sleep(SECONDS)  # the work
