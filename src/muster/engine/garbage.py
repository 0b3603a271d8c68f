"""The collector of garbage, kept away while many small things are made."""

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
