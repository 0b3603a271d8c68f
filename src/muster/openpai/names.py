"""Names of the jobs that clusters get: legal for OpenPAI, unique for each alias, and the same after a restart.

An alias is often a URI, which may not stand in a name. What had to be changed or cut carries a mark made from the
whole, so that `a.b` and `a-b` stay apart, whatever other clusters the file names.
"""

from __future__ import annotations

import re
from hashlib import sha256

MOST_NAME = 255
LEGAL = re.compile(r"[a-zA-Z0-9_-]+")

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")
_MARK = 8  # characters: aliases of one file do not meet by chance


def slug(alias: str) -> str:
    """The alias with every run of other characters made a hyphen; one that is legal stays as it is."""
    if LEGAL.fullmatch(alias):
        return alias
    readable = _ILLEGAL.sub("-", alias).strip("-")
    return f"{readable}-{_mark(alias)}" if readable else _mark(alias)


def child_name(name: str, alias: str, attempt: int = 1) -> str:
    """The name of a job's copy in a cluster. Later attempts need names of their own: clusters remember old jobs."""
    child = f"{name}-{slug(alias)}"
    if attempt > 1:
        child = f"{child}-{attempt}-{_mark(name, alias, str(attempt))}"
    if len(child) <= MOST_NAME:
        return child
    mark = _mark(name, alias, str(attempt))
    return f"{child[: MOST_NAME - len(mark) - 1].rstrip('-')}-{mark}"


def _mark(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
