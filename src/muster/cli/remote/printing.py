"""`muster logs`: what a task wrote, as it comes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Literal

from muster.cli.remote.asking import PATIENCE_S, client, ended
from muster.cli.remote.listing import FOLLOWING_PATIENCE_S
from muster.cli.remote.options import Where
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
                _print(to, job_id, one, which)
        return 0

    return ended(run)


def _streams(stream: Literal["both"] | Stream) -> tuple[Stream, ...]:
    return ("out", "err") if stream == "both" else (stream,)


def _follow_both(to: Client, job_id: str, which: Mapping[str, Any]) -> None:
    with ThreadPoolExecutor(2) as following:
        for done in [following.submit(_print, to, job_id, one, which) for one in _streams("both")]:
            done.result()


def _print(to: Client, job_id: str, stream: Stream, which: Mapping[str, Any]) -> None:
    target: IO[str] = sys.stdout if stream == "out" else sys.stderr
    for text in to.logs(job_id, stream=stream, **which):
        target.write(text)
        target.flush()
