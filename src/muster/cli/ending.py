"""How commands end: exit codes that scripts can trust, and nothing on the screen that nobody can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

BAD_INPUT = 2
INTERRUPTED = 130


def ending_well(command: Callable[[], int]) -> int:
    """The exit code of a command; also when someone stops it, or stops reading."""
    try:
        return command()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
