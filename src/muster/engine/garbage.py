"""The collector of garbage, kept away from very many things."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_one_go() -> Iterator[None]:
    """For making very many small things: the collector would walk through them over and over."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def collect_seldom(new_objects: int = 50_000) -> None:
    """For processes that keep very many things: what there is stays and is not walked through over and over, and the
    collector looks after so many new objects."""
    gc.freeze()
    gc.set_threshold(new_objects, 20, 50)
