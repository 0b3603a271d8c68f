"""What a task is told about itself and its peers: environment variables, and a file that follows its width.

A group is a world of its own to programs that know torchrun's names; each task is like a node with one process, because
it sees its own devices only. The whole job is known by Muster's names. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.local.processes import MARK
from muster.local.records import folder_name
from muster.local.sheets import Sheet, TaskOf

HOST = "127.0.0.1"


def ranked(sheet: Sheet) -> list[TaskOf]:
    """The tasks that an attempt has now, by rank."""
    return sorted(sheet.tasks, key=sheet.order)


def address(task: TaskOf) -> str:
    """Where a task may listen for its peers; "" if it has none."""
    return f"{HOST}:{task.port}" if task.port else ""


def world(sheet: Sheet) -> dict[str, object]:
    """What the file says that a task finds by MUSTER_WORLD."""
    tasks = [
        {"group": task.group, "index": task.index, "rank": rank, "node": task.node, "address": address(task)}
        for rank, task in enumerate(ranked(sheet))
    ]
    return {"revision": sheet.revision, "size": len(tasks), "tasks": tasks}


def variables(sheet: Sheet, task: TaskOf, *, files: Mapping[str, str], devices: Sequence[str] | None) -> dict[str, str]:
    """What is added to the environment of a task: torchrun's names, what the job says, what Muster says.

    `files` are variables that name files. `devices`: the GPUs that it may see; None where there are none to hide.
    """
    said = sheet.launch.get("groups", {}).get(task.group, {}).get("env", {})
    seen = {} if devices is None else {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
    return {**seen, **_of_torchrun(sheet, task), **said, **_of_muster(sheet, task), **files}


def _of_muster(sheet: Sheet, task: TaskOf) -> dict[str, str]:
    peers = ranked(sheet)
    return {
        "MUSTER_JOB": sheet.job,
        "MUSTER_ATTEMPT": str(sheet.attempt),
        "MUSTER_QUEUE": sheet.queue,
        "MUSTER_GROUP": task.group,
        "MUSTER_INDEX": str(task.index),
        "MUSTER_NODE": task.node,
        "MUSTER_RANK": str(peers.index(task)),
        "MUSTER_WORLD_SIZE": str(len(peers)),
        "MUSTER_PEERS": ",".join(filter(None, map(address, peers))),
        "MUSTER_ADDRESS": address(task),
        MARK: mark(sheet, task),
    }


def _of_torchrun(sheet: Sheet, task: TaskOf) -> dict[str, str]:
    """Names that programs for torchrun look for; a task without peers is given none."""
    if not task.port:
        return {}
    peers = [peer for peer in ranked(sheet) if peer.group == task.group]
    rank = str(peers.index(task))
    return {
        "RANK": rank,
        "WORLD_SIZE": str(len(peers)),
        "GROUP_RANK": rank,
        "GROUP_WORLD_SIZE": str(len(peers)),
        "NODE_RANK": rank,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(peers[0].port),
    }


def mark(sheet: Sheet, task: TaskOf) -> str:
    """What this task is known by, and no other on this machine."""
    return folder_name(sheet.job, sheet.attempt, task.folder)
