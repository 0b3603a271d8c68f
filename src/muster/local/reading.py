"""Pieces of logs: what a task wrote, from an offset on."""

from __future__ import annotations

import os
from pathlib import Path

from muster.agent.protocol import MOST_PIECE, Piece, Read
from muster.local import records, sheets
from muster.local.environment import ranked
from muster.local.sheets import Sheet, TaskOf


def piece(folder: Path, asked: Read) -> Piece:
    """A piece of what a task of the attempt in a folder wrote."""
    sheet = sheets.load(folder)
    task = None if sheet is None else _meant(sheet, asked)
    if sheet is None or task is None:
        return Piece(number=asked.number, is_over=True, problem=_no_such_task(sheet, asked))
    path = folder / task.folder
    ends = (path / records.END, folder / sheets.REPORT)  # a task that never began has no end of its own
    was_over = any(end.exists() for end in ends)  # before it is read: what came until then is complete
    data = _read(path / (records.OUT if asked.stream == "out" else records.ERR), asked.offset)
    return Piece(number=asked.number, data=data, is_over=was_over and len(data) < MOST_PIECE)


def _meant(sheet: Sheet, asked: Read) -> TaskOf | None:
    """The task that is asked for; the first one where none is named."""
    return next((task for task in ranked(sheet) if not asked.group or (task.group, task.index) == _named(asked)), None)


def _named(asked: Read) -> tuple[str, int]:
    return (asked.group, asked.index)


def _no_such_task(sheet: Sheet | None, asked: Read) -> str:
    there = [] if sheet is None else [task.name for task in ranked(sheet)]
    return f"there is no task {asked.group}/{asked.index}: there are {', '.join(there)}"


def _read(path: Path, offset: int) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(file, MOST_PIECE, offset)
    finally:
        os.close(file)
