"""The engine and the model know no clock, no chance, no threads, no files, no network and no store."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import muster

SOURCE = Path(muster.__file__).parent
IMPURE = {
    "aiohttp",
    "asyncio",
    "concurrent",
    "datetime",
    "httpx",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "psycopg",
    "random",
    "requests",
    "secrets",
    "select",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}
BUILTINS = {"open", "input", "print", "exec", "eval", "__import__", "breakpoint", "id", "hash"}
# Machine code of kernels is kept in files; nothing a decision rests on passes through them.
# Pools are decided beside each other, each by itself.
ALLOWED = {
    SOURCE / "engine" / "kernels" / "jit.py": {"os", "pathlib", "sys", "tempfile"},
    SOURCE / "engine" / "kernels" / "beside.py": {"os", "concurrent"},
}
MODULES = sorted(path for name in ("engine", "model") for path in (SOURCE / name).rglob("*.py"))


def imported_by(path: Path) -> set[str]:
    """The full names of all modules a file imports, wherever in the file it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_property_pure_modules_import_nothing_impure(path: Path) -> None:
    imported = imported_by(path)
    assert not {name.partition(".")[0] for name in imported} & (IMPURE - ALLOWED.get(path, set()))
    assert all(name.startswith(("muster.model", "muster.engine")) for name in imported if name.startswith("muster"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_property_pure_modules_call_nothing_impure(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {func.id for func in calls if isinstance(func, ast.Name)}
    # Hashes are kept for dictionaries only; no order may rest on them, which the determinism properties watch.
    assert not names & (BUILTINS - {"hash"})


def test_property_the_engine_loads_no_clock_network_or_store_of_its_own() -> None:
    """In a fresh interpreter: what comes with the engine beyond what its own few standard modules and numpy bring."""
    script = (
        "import sys, dataclasses, enum, functools, heapq, math, re, bisect, itertools, collections, fractions, typing\n"
        "import numpy, pathlib\n"
        "before = set(sys.modules)\n"
        "import muster.engine, muster.engine.kernels\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "muster" in loaded
    assert not loaded & IMPURE
