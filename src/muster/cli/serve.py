"""`muster server`: the process that stays."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli.ending import BAD_INPUT

if TYPE_CHECKING:
    from muster.server.configuration import Configuration
    from muster.server.limits import Limits

FAILED = 1

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATIONS = {"keep_ms": "--keep", "silent_ms": "--silent-after", "lost_ms": "--lost-after"}


def state_folder() -> Path:
    """Where this user's server keeps its database and its first token."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "muster"


def log_to_stderr(level: int) -> None:
    """What a process that stays has to say beside its output."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def run_server(*, config: str | None, limits: Mapping[str, int | str | None], **said: str | int | None) -> int:
    """Run until interrupted; the exit code. What is said here wins over the configuration."""
    from muster.model.errors import MusterError
    from muster.server.configuration import Configuration, read_configuration

    log_to_stderr(logging.INFO)
    try:
        read = read_configuration(config) if config else Configuration()
        changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        read = replace(read, **changes, limits=_limited(read.limits, limits))
    except (MusterError, Wrong) as err:
        print(f"{config}: {err}" if isinstance(err, MusterError) else err, file=sys.stderr)
        return BAD_INPUT
    from muster.server.serving import serve  # what is wrong is said at once, before anything heavy is loaded

    try:
        serve(_at_home(read))
    except (MusterError, OSError) as err:
        print(f"the server cannot run: {err}", file=sys.stderr)
        return FAILED
    return 0


class Wrong(Exception):
    """An option that cannot be used, and why."""


def _limited(limits: Limits, said: Mapping[str, int | str | None]) -> Limits:
    """The limits, with those changed that are given as options."""
    changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    for name, value in changes.items():
        if isinstance(value, str):
            changes[name] = duration_ms(_DURATIONS[name], value)
    changed = replace(limits, **changes)
    if changed.lost_ms < changed.silent_ms:
        raise Wrong(
            f"--lost-after {changed.lost_ms / 1000:g}s: not allowed: at least --silent-after, "
            f"which is {changed.silent_ms / 1000:g}s"
        )
    return changed


def duration_ms(option: str, text: str) -> int:
    """The duration that an option says; raises Wrong."""
    read = _DURATION.fullmatch(text)
    if read is None:
        raise Wrong(f"{option} {text}: not a duration such as 7d, 12h or 60s")
    return int(float(read[1]) * _SECONDS[read[2]] * 1000)


def _at_home(configuration: Configuration) -> Configuration:
    """With this user's own files where none are named."""
    folder = state_folder()
    if not configuration.database:
        folder.mkdir(parents=True, exist_ok=True)
    return replace(
        configuration,
        database=configuration.database or f"sqlite:///{folder / 'muster.db'}",
        token_file=configuration.token_file or str(folder / "token"),
    )
