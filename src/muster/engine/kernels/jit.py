"""Which face of a kernel runs: plain Python, or machine code made from the same source by numba.

A kernel is an ordinary function over arrays, numbers and named tuples of arrays, marked `@kernel`. The
marked function is its own plain face. The compiled face is a twin: the same code, in a copy of its
module's names in which every kernel is the compiled one, so that inner calls are compiled as well, into one piece
with it (whole.py). Both faces share constants and named tuples and give equal results; only the waiting differs.
To Python a kernel returns numbers.

Machine code is kept in the user's cache folder, under a name that covers all sources of the package and
all that made the code: numba's own cache does not see an edit in another module. Only machine code is
read and written there, never anything a decision rests on, and the engine works as well without it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from muster.model.errors import InvalidValue

VARIABLE = "MUSTER_KERNELS"

# In tasks to place, again and again: a simulation of so many jobs takes thousands of turns. Loading numba with its
# machine code takes half a second, and compiling all kernels up to half a minute (docs/engine.md).
WORTH_LOADING = 1_000
WORTH_COMPILING = 5_000
LOOKS_WORTH_LOADING = 20_000
LOOKS_WORTH_COMPILING = 1_200_000

KEPT = 8  # folders of machine code: other versions, checkouts and machines may share this home

P = ParamSpec("P")
R = TypeVar("R")

_marked: set[object] = set()
_makers: list[Callable[[], bool]] = []  # at most one


class Face(Protocol):
    """Given a kernel, what to call in its place. It takes the same and gives the same."""

    def __call__(self, kernel: Callable[P, R], /) -> Callable[P, R]: ...


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function of a module as a kernel.

    A kernel calls other kernels by names of its module (`from ... import fill`, then `fill(...)`).
    """
    # Read now: were the files edited before the first call, old code would be kept as that of the new sources.
    _digest_of(_sources_of(function))
    _marked.add(function)
    return function


def suited_to(size: int) -> Face:
    """The face for about `size` tasks to place, such that nobody waits for a compiler in vain.

    MUSTER_KERNELS=plain or compiled forces a face; auto, the default, decides by size.
    """
    forced = os.environ.get(VARIABLE) or "auto"
    if forced not in ("plain", "compiled", "auto"):
        raise InvalidValue(forced, "must be plain, compiled or auto", VARIABLE)
    if forced == "plain" or (forced == "auto" and size < WORTH_LOADING):
        return plain
    if forced == "compiled" or (size >= WORTH_COMPILING and not _is_being_made()):
        return compiled
    return compiled_if_cached if _is_any_cached() else plain


def have_made_by(maker: Callable[[], bool]) -> None:
    """Machine code is made by someone else, who is asked whether that is done when it is first worth it. Until then
    nobody waits for a compiler: what is not in the cache runs as it is written."""
    _makers[:] = [maker]


def _is_being_made() -> bool:
    if _makers and _makers[0]():
        _makers.clear()
        _is_any_cached.cache_clear()
        _is_cached.cache_clear()
    return bool(_makers)


def size_after(looks: int) -> int:
    """So many tasks to place are worth the same face as turns that go on after so many looks at waiting jobs: what took
    long so far may go on for as long. A look takes about 50 us as it is written; a second is lost by loading machine
    code, and a minute by making it."""
    if looks >= LOOKS_WORTH_COMPILING:
        return WORTH_COMPILING
    return WORTH_LOADING if looks >= LOOKS_WORTH_LOADING else 0


def plain(kernel: Callable[P, R], /) -> Callable[P, R]:
    """The kernel as it is written."""
    return kernel


def compiled(kernel: Callable[P, R], /) -> Callable[P, R]:
    """The kernel as machine code, made on its first call unless it is in the cache."""
    if kernel not in _marked:
        raise TypeError(f"{kernel!r} is not marked @kernel")
    twin: Callable[P, R] = _entry(kernel)
    return twin


def compiled_if_cached(kernel: Callable[P, R], /) -> Callable[P, R]:
    """The kernel as machine code if that is in the cache, and as it is written if it would have to be made."""
    return compiled(kernel) if _is_cached(kernel) else _on_arrays(kernel)


@cache
def _on_arrays(kernel: Callable[P, R]) -> Callable[P, R]:
    """The kernel as it is written, for arrays: like machine code it answers with numbers of Python's, not numpy's."""

    @wraps(kernel)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        answer: Any = kernel(*args, **kwargs)
        return cast(R, tuple(map(_of_python, answer)) if isinstance(answer, tuple) else _of_python(answer))

    return called


def _of_python(answer: Any) -> Any:
    return answer.item() if isinstance(answer, np.generic) else answer


# --- twins --------------------------------------------------------------------------------------


@cache
def _compiled_names(module: str) -> dict[str, Any]:
    """The names of a module as its compiled kernels see them."""
    from muster.engine.kernels import whole

    written = vars(importlib.import_module(module))
    names = dict(written)
    for name, value in written.items():
        if not isinstance(value, FunctionType) or value not in _marked:
            continue
        if value.__module__ == module:
            names[name] = whole.part(_twin(value, names))
        else:
            names[name] = _compiled_names(value.__module__)[value.__name__]
    return names


def _twin(function: Any, names: dict[str, Any]) -> FunctionType:
    """The function, with the given names instead of those of its module."""
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


@cache
def _entry(kernel: Callable[..., object]) -> Any:
    """The kernel as Python calls it compiled."""
    import numba
    from numba.core.compiler_lock import global_compiler_lock

    from muster.engine.kernels import whole

    twin = _twin(kernel, _compiled_names(kernel.__module__))
    folder = _ready_folder(_sources_of(kernel))
    with global_compiler_lock:  # CACHE_DIR is of the whole process and is read while decorating
        others, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder or "")
        try:
            dispatcher = whole.entry(twin, cache=folder is not None)
        finally:
            numba.config.CACHE_DIR = others
    if hasattr(dispatcher, "_cache"):  # with NUMBA_DISABLE_JIT it is a mere function
        dispatcher._cache = _Forgiving(dispatcher._cache)
    return dispatcher


class _Forgiving:
    """Numba's cache of one function. A full disk or a broken file costs time, never the answer."""

    def __init__(self, strict: Any) -> None:
        self._strict = strict

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strict, name)

    def load_overload(self, *args: Any) -> Any:
        try:
            return self._strict.load_overload(*args)
        except Exception:  # unpickling a broken file may raise anything
            with suppress(OSError):
                self._strict.flush()
            return None

    def save_overload(self, *args: Any) -> None:
        with suppress(Exception):
            self._strict.save_overload(*args)


# --- the cache ----------------------------------------------------------------------------------


def kept_in() -> Path | None:
    """The folder in which the machine code of our kernels is kept; None where nothing can be written."""
    return _ready_folder(Path(__file__).parent)


@cache
def _is_any_cached() -> bool:
    """Whether machine code of any kernel of ours is kept. If not, arrays would only make what is written slower."""
    return _is_kept(Path(__file__).parent, "*.nbc")


@cache
def _is_cached(kernel: Callable[..., object]) -> bool:
    """Whether machine code of the kernel is kept, for whatever types of arguments."""
    code = kernel.__code__
    named = f"{Path(code.co_filename).stem}.{kernel.__qualname__}-{code.co_firstlineno}.*.nbc"  # by numba
    return _is_kept(_sources_of(kernel), named)


def _is_kept(sources: Path, named: str) -> bool:
    """Whether machine code of the sources is kept in a file that is named like this."""
    folder = _folder_for(sources)
    try:
        return folder is not None and any(folder.glob(f"*/{named}"))
    except OSError:  # a folder that may not be read holds nothing for us
        return False


@cache
def _ready_folder(sources: Path) -> Path | None:
    """The folder for machine code of the sources, made if need be; None where nothing can be written."""
    import tempfile

    folder = _folder_for(sources)
    if folder is None:
        return None
    try:
        is_new = not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.touch()  # who was used last is seen by its time
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    if is_new:
        _remove_old(folder.parent)
    return folder


def _remove_old(folders: Path) -> None:
    """Keep the folders used last. Another process may do the same at this moment: what is gone is gone."""
    import shutil

    with suppress(OSError):
        by_last_use = sorted(folders.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for old in by_last_use[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)


@cache
def _folder_for(sources: Path) -> Path | None:
    """Where machine code of the sources belongs, by all that has a part in it; None if there is no such place."""
    from importlib.metadata import version

    import llvmlite.binding

    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():  # then it does not count, says the XDG specification
        home = Path(os.path.expanduser("~/.cache"))
    digest = _digest_of(sources)
    if not digest or not home.is_absolute():
        return None
    made_by = [
        digest,
        str(sources),
        version("numba"),
        version("numpy"),
        sys.version,
        str(sys.flags.optimize),
        llvmlite.binding.get_host_cpu_name(),
        *sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_")),
    ]
    return home / "muster" / "kernels" / hashlib.sha256("\0".join(made_by).encode()).hexdigest()[:32]


@cache
def _digest_of(sources: Path) -> str:
    """A name for the bytes of all sources as they were when first asked for; empty if they are no files."""
    files = sorted(file for file in sources.glob("*.py") if file.is_file())  # an editor's lock is none
    contents = [hashlib.sha256(file.name.encode() + b"\0" + file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("".join(contents).encode()).hexdigest() if files else ""


def _sources_of(kernel: Callable[..., object]) -> Path:
    """The folder of the package a kernel is written in."""
    return Path(kernel.__code__.co_filename).parent
