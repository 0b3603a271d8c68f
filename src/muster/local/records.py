"""What is on disk of a task, so that whoever is killed, the next one knows what happened.

A task has a folder. The agent puts its order there (`task.json`). Its supervisor claims it by making `record.json`,
which only one can do, before the task's program runs; and puts `end.json` there once all of its processes are gone. A
task with a record and without an end runs if its supervisor lives, and is lost if not. Files are whole whenever they
are there: they are written beside their place and put there in one step. That survives kill -9. A power cut may cost
the last of them; after one nothing runs, and what has no end is lost.

Standard library only.
"""

from __future__ import annotations

import json
import os
from typing import Any

ORDER, RECORD, END = "task.json", "record.json", "end.json"
STOP, NOTICE = "stop.json", "notice.json"
OUT, ERR = "out", "err"

Body = dict[str, Any]

MOST_PLAIN = 180  # letters of a name of a folder: a file system allows 255, and more is put around it


def read(folder: str, name: str) -> Body | None:
    """A file of a task; None if it is not there."""
    try:
        found = json.loads(read_bytes(f"{folder}/{name}"))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a power cut left it without its content
        return None
    return found if isinstance(found, dict) else None


def read_bytes(path: str) -> bytes:
    """All of a small file. Python's own files cost a freshly forked process more than the reading itself."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def write(folder: str, name: str, body: Body) -> None:
    """Put a file there, or another in its place, in one step."""
    draft = _drafted(folder, name, body)
    os.rename(draft, f"{folder}/{name}")


def claim(folder: str, name: str, body: Body) -> bool:
    """Put a file there unless there is one, with all that is in it, in one step; whether it was us."""
    draft = _drafted(folder, name, body)
    try:
        os.link(draft, f"{folder}/{name}")
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True


def _drafted(folder: str, name: str, body: Body) -> str:
    draft = f"{folder}/.{name}.{os.getpid()}"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(json.dumps(body).encode())
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)
    return draft


def folder_name(*parts: str | int) -> str:
    """A name for the folder of this, and of nothing else. Names of jobs may be longer than those of files."""
    plain = ".".join(map(str, parts))
    if len(plain) <= MOST_PLAIN:
        return plain
    import hashlib  # not in what supervisors are forked from: a fork would cost a fifth more

    return f"{plain[:MOST_PLAIN]}.{hashlib.sha256(plain.encode()).hexdigest()[:16]}"
