"""Which server a command asks, and how it prints the answer: what the options of the command line come to."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Format(StrEnum):
    """How to print an answer."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class Where(NamedTuple):
    """Which server is meant, as far as the command line says, and how to print its answer."""

    output: Format = Format.TABLE
    server: str = ""
    token_file: str = ""
    context: str = ""
