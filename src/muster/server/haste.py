"""Small answers beside big work: while someone waits for one, threads give way to each other much sooner.

Python runs one thread at a time, and lets it go on for a while before another may; an answer is made in several steps,
in several threads, and would wait for that while at each. To switch often costs big work a little, so threads do it
only then.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

USUAL_S, SHORT_S = 0.001, 0.0001  # for which a thread may keep others waiting
LONGEST_S = 0.25  # who waits for longer than that waits for something else


class Haste:
    """Switches often while anyone is in a hurry. Only for the thread of the event loop."""

    def __init__(self) -> None:
        self._hurried = 0

    def begin(self) -> Callable[[], None]:
        """Someone waits; call what is given once they do not any more."""
        self._hurried += 1
        if self._hurried == 1:
            sys.setswitchinterval(SHORT_S)
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timer.cancel()
                self._end()

        timer = asyncio.get_running_loop().call_later(LONGEST_S, end)
        return end

    def _end(self) -> None:
        self._hurried -= 1
        if not self._hurried:
            sys.setswitchinterval(USUAL_S)
