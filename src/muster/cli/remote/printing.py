"""`muster logs`: what a task wrote, as it comes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, Literal

from muster.cli.remote.asking import PATIENCE_S, client, ended
from muster.cli.remote.listing import FOLLOWING_PATIENCE_S
from muster.cli.remote.where import Where
from muster.sdk.client import Client
from muster.sdk.shapes import Stream


def print_logs(where: Where, job_id: str, stream: Literal["both"] | Stream, which: Mapping[str, Any]) -> int:
    """Print logs; the exit code."""

    def run() -> int:
        with client(where, FOLLOWING_PATIENCE_S if which["follow"] else PATIENCE_S) as to:
            if stream == "both" and which["follow"]:
                _follow_both(to, job_id, which)
                return 0
            for one in _streams(stream):
                for text in to.logs(job_id, stream=one, **which):
                    _print(one, text)
        return 0

    return ended(run)


def _streams(stream: Literal["both"] | Stream) -> tuple[Stream, ...]:
    return ("out", "err") if stream == "both" else (stream,)


def _follow_both(to: Client, job_id: str, which: Mapping[str, Any]) -> None:
    for stream, text in _together({one: to.logs(job_id, stream=one, **which) for one in _streams("both")}):
        _print(stream, text)


def _together(texts: Mapping[Stream, Iterator[str]]) -> Iterator[tuple[Stream, str]]:
    """What comes first, first. Whoever stops listening does not wait for a stream that says nothing."""
    heard: SimpleQueue[tuple[Stream, str | BaseException | None]] = SimpleQueue()

    def listen(stream: Stream) -> None:
        try:
            for text in texts[stream]:
                heard.put((stream, text))
        except BaseException as err:
            heard.put((stream, err))
        else:
            heard.put((stream, None))

    for stream in texts:
        Thread(target=listen, args=(stream,), daemon=True).start()
    left = len(texts)
    while left:
        stream, said = heard.get()
        if isinstance(said, BaseException):
            raise said
        if said is None:
            left -= 1
        else:
            yield stream, said


def _print(stream: Stream, text: str) -> None:
    target: IO[str] = sys.stdout if stream == "out" else sys.stderr
    target.write(text)
    target.flush()
