"""The two faces of a kernel: which one is taken, that they agree, and what a cache of machine code must not do.

Stories run in processes of their own, on a small package of kernels written into a folder of the test.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import pytest

from muster.engine import kernels
from muster.engine.kernels import jit
from muster.engine.kernels.jit import KEPT, WORTH_COMPILING, WORTH_LOADING
from muster.model.errors import InvalidValue
from muster.sim.scenario.loader import load
from muster.sim.simulate import Simulation

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"

P = ParamSpec("P")
R = TypeVar("R")

AMOUNTS = """
PER_TASK = 3
"""

TAKING = """
from typing import NamedTuple
import numpy as np
from muster.engine.kernels.jit import kernel
from tiny.amounts import PER_TASK

class Board(NamedTuple):
    free: np.ndarray
    last: int

@kernel
def amount(tasks):
    return tasks * PER_TASK

@kernel
def taken(board, node, tasks):
    board.free[node] -= amount(tasks)
    return Board(board.free, node)
"""

PLACING = """
from muster.engine.kernels.jit import kernel
from tiny.taking import Board, amount, taken

@kernel
def place(board, tasks):
    for node in range(len(board.free)):
        if board.free[node] >= amount(tasks):
            return taken(board, node, tasks).last
    return board.last

@kernel
def rest(board):
    return Board(board.free[1:], board.last)
"""

PLACE = """
import json, sys
import numpy as np
from muster.engine import kernels
from tiny.placing import Board, place

def told(face):
    chosen = face(place)
    board = Board(np.array([5, 7, 9]), -1)
    node = chosen(board, 2)
    assert board.free[node] != [5, 7, 9][node]
    stats = getattr(chosen, "stats", None)
    return {
        "free": board.free.tolist(),
        "with_numba": "numba" in sys.modules,
        "hits": sum(stats.cache_hits.values()) if stats else 0,
        "compiled": sum(stats.cache_misses.values()) if stats else 0,
    }

print(json.dumps([told(getattr(kernels, name)) for name in sys.argv[1:]]))
"""

AS_WRITTEN = {"free": [5, 1, 9], "with_numba": False, "hits": 0, "compiled": 0}
JUST_COMPILED = {"free": [5, 1, 9], "with_numba": True, "hits": 0, "compiled": 1}
FROM_CACHE = {"free": [5, 1, 9], "with_numba": True, "hits": 1, "compiled": 0}


@dataclass(frozen=True)
class Tiny:
    """A package of three modules: a constant, a kernel that uses it, and a kernel that calls that one."""

    folder: Path

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def machine_code(self) -> list[Path]:
        return sorted(self.cache.rglob("*.nb[ci]"))

    def write(self, module: str, source: str) -> None:
        path = self.folder / "tiny" / f"{module}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, encoding="utf-8")

    def start(self, *faces: str, script: str = PLACE, cache: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, *faces],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(self.folder), *sys.path]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "XDG_CACHE_HOME": str(cache or self.cache),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tell(self, *faces: str, script: str = PLACE, cache: Path | None = None) -> list[dict[str, object]]:
        """What the given faces answer, one after the other in a new process."""
        return answer(self.start(*faces, script=script, cache=cache))


def answer(process: subprocess.Popen[str]) -> list[dict[str, object]]:
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return json.loads(out)


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    package = Tiny(tmp_path)
    for module, source in (("amounts", AMOUNTS), ("taking", TAKING), ("placing", PLACING)):
        package.write(module, source)
    return package


def test_both_faces_agree_in_one_process_and_the_plain_one_needs_no_numba(tiny: Tiny):
    assert tiny.tell("plain", "compiled", "plain") == [AS_WRITTEN, JUST_COMPILED, {**AS_WRITTEN, "with_numba": True}]


def test_another_process_takes_the_machine_code_from_the_cache_and_need_not_wait_for_a_compiler(tiny: Tiny):
    assert tiny.tell("compiled_if_cached") == [AS_WRITTEN]
    assert tiny.machine_code() == []

    both_at_once = [tiny.start("compiled"), tiny.start("compiled")]
    for process in both_at_once:
        assert answer(process)[0]["free"] == AS_WRITTEN["free"]

    assert tiny.tell("compiled_if_cached") == [FROM_CACHE]


def test_an_edit_in_a_module_far_from_the_kernel_is_seen_with_a_warm_cache(tiny: Tiny):
    assert tiny.tell("compiled") == [JUST_COMPILED]

    tiny.write("amounts", "PER_TASK = 4")
    # While this process runs the next edit is made: it must not leave its old code under the newest sources.
    edit = "import pathlib, tiny.placing; pathlib.Path(tiny.amounts.__file__).write_text('PER_TASK = 1')\n"
    assert tiny.tell("compiled", script=edit + PLACE) == [{**JUST_COMPILED, "free": [5, 7, 1]}]

    assert tiny.tell("compiled") == [{**JUST_COMPILED, "free": [3, 7, 9]}]


def test_without_a_place_to_write_it_compiles_in_memory(tiny: Tiny):
    # Root may write into any folder, but not below a file.
    assert tiny.tell("compiled", cache=Path("/dev/null")) == [JUST_COMPILED]
    assert list(tiny.folder.rglob("__pycache__")) == []


def test_a_broken_cache_is_written_anew(tiny: Tiny):
    tiny.tell("compiled")
    for file in tiny.machine_code():
        file.write_bytes(file.read_bytes()[:7])

    assert tiny.tell("compiled") == [JUST_COMPILED]
    assert tiny.tell("compiled") == [FROM_CACHE]


def test_a_new_folder_removes_all_but_those_used_last(tiny: Tiny):
    folders = tiny.cache / "muster" / "kernels"
    for age in range(1, KEPT + 3):
        old = folders / f"used-{age:02}-days-ago"
        (old / "inner").mkdir(parents=True)
        used = time.time() - age * 86_400
        os.utime(old, (used, used))

    tiny.tell("compiled")

    kept = sorted(folder.name for folder in folders.iterdir())
    assert len(kept) == KEPT
    assert kept[1:] == [f"used-{age:02}-days-ago" for age in range(1, KEPT)]


WORDS = """
import json
import numpy as np
from muster.engine import kernels
from muster.engine.kernels import words

SETS = [0, 1, 0b1000, 0xDEADBEEF00, 1 << 63, (1 << 64) - 1]

def told(face):
    pairs = [(np.uint64(left), np.uint64(right)) for left in SETS for right in SETS]
    wrapping = (words.wrapping_sum, words.wrapping_difference, words.wrapping_product)
    return [
        [face(words.bit_count)(np.uint64(word)) for word in SETS],
        [face(words.lowest_bit)(np.uint64(word)) for word in SETS],
        *([int(face(kernel)(*pair)) for pair in pairs] for kernel in wrapping),
    ]

expected = [
    [word.bit_count() for word in SETS],
    [(word & -word).bit_length() - 1 if word else 64 for word in SETS],
    *([operation(left, right) % (1 << 64) for left in SETS for right in SETS]
      for operation in (int.__add__, int.__sub__, int.__mul__)),
]
print(json.dumps([told(kernels.plain) == expected, told(kernels.compiled) == expected]))
"""


def test_words_wrap_around_without_a_warning_and_alike_in_both_faces(tiny: Tiny):
    assert tiny.tell(script=WORDS) == [True, True]


@pytest.fixture
def a_full_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_is_any_cached", lambda: True)


@pytest.mark.usefixtures("a_full_cache")
@pytest.mark.parametrize(
    "forced, size, face",
    [
        pytest.param("", 0, kernels.plain, id="few: as it is written"),
        pytest.param("auto", WORTH_LOADING - 1, kernels.plain, id="auto is the default"),
        pytest.param("auto", WORTH_LOADING, kernels.compiled_if_cached, id="some: the cache decides"),
        pytest.param("auto", WORTH_COMPILING - 1, kernels.compiled_if_cached, id="many: still the cache"),
        pytest.param("auto", WORTH_COMPILING, kernels.compiled, id="very many: compiling pays"),
        pytest.param("plain", WORTH_COMPILING, kernels.plain, id="forced to be plain"),
        pytest.param("compiled", 0, kernels.compiled, id="forced to be compiled"),
    ],
)
def test_the_face_suited_to_a_size(monkeypatch: pytest.MonkeyPatch, forced: str, size: int, face: kernels.Face):
    monkeypatch.setenv("MUSTER_KERNELS", forced)

    assert kernels.suited_to(size) is face


def test_with_nothing_in_the_cache_some_tasks_are_placed_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("MUSTER_KERNELS", "auto")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for known in (jit._is_any_cached, jit._folder_for):
        known.cache_clear()
    try:
        assert kernels.suited_to(WORTH_LOADING) is kernels.plain
        assert kernels.suited_to(WORTH_COMPILING) is kernels.compiled
    finally:
        for known in (jit._is_any_cached, jit._folder_for):
            known.cache_clear()


def test_where_others_make_machine_code_nobody_waits_and_it_is_used_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
):
    is_made = [False, False, True]
    monkeypatch.setenv("MUSTER_KERNELS", "auto")
    monkeypatch.setattr(jit, "_makers", [])
    kernels.have_made_by(lambda: is_made.pop(0))

    faces = [kernels.suited_to(size) for size in (0, WORTH_LOADING, *[WORTH_COMPILING] * 4)]

    assert kernels.compiled not in faces[:4]
    assert faces[4:] == [kernels.compiled, kernels.compiled]
    assert is_made == []  # it is asked when it is worth it, until it is done


@pytest.mark.parametrize(
    "looks, size",
    [
        pytest.param(0, 0, id="nothing was looked at"),
        pytest.param(jit.LOOKS_WORTH_LOADING - 1, 0, id="little: as it is written"),
        pytest.param(jit.LOOKS_WORTH_LOADING, WORTH_LOADING, id="much: from the cache"),
        pytest.param(jit.LOOKS_WORTH_COMPILING, WORTH_COMPILING, id="very much: compiling pays"),
    ],
)
def test_what_took_long_may_go_on_for_as_long(looks: int, size: int):
    assert kernels.size_after(looks) == size


def test_a_kernel_that_is_not_in_the_cache_answers_with_numbers_of_python(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jit, "_is_cached", lambda _: False)

    answer = kernels.compiled_if_cached(lambda cells: (cells[0], cells[1] > 0))(np.array([7, 1]))

    assert answer == (7, True)
    assert [type(part) for part in answer] == [int, bool]


@pytest.mark.parametrize("name", ["backfill", "demo", "preemption", "shared-gpus", "unknown-ends"])
def test_kernels_as_they_are_written_decide_the_same_over_arrays(monkeypatch: pytest.MonkeyPatch, name: str):
    scenario = load(str(EXAMPLES / f"{name}.yaml"))
    over_lists = [tick.moment for tick in Simulation(scenario)]

    def not_in_the_cache(kernel: Callable[P, R]) -> Callable[P, R]:
        return jit._on_arrays(kernel)

    monkeypatch.setattr("muster.engine.opening.suited_to", lambda _: not_in_the_cache)
    assert [tick.moment.events for tick in Simulation(scenario)] == [moment.events for moment in over_lists]


def test_a_face_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MUSTER_KERNELS", "fast")

    with pytest.raises(InvalidValue, match=r"^MUSTER_KERNELS: 'fast': must be plain, compiled or auto$"):
        kernels.suited_to(0)


def test_only_kernels_are_compiled():
    with pytest.raises(TypeError, match="is not marked @kernel"):
        kernels.compiled(len)


RETURN_AN_ARRAY = """
import json
import numpy as np
from muster.engine import kernels
from tiny.placing import Board, rest

try:
    kernels.compiled(rest)(Board(np.array([5, 7, 9]), -1))
except TypeError as error:
    print(json.dumps([str(error)]))
"""


def test_compiled_kernels_return_no_arrays_for_nobody_counts_references(tiny: Tiny):
    assert tiny.tell(script=RETURN_AN_ARRAY) == ["rest returns an array: to Python, kernels return numbers only"]
    assert tiny.machine_code() == []


PRINTING = """
from muster.engine.kernels.jit import kernel

@kernel
def look_at(amount):
    print(amount)
    return amount

@kernel
def look(amount):
    return look_at(amount)
"""


def test_who_looks_for_a_bug_may_print_in_a_kernel_that_is_called_by_another(tiny: Tiny):
    tiny.write("printing", PRINTING)
    script = "from muster.engine import kernels; from tiny.printing import look; kernels.compiled(look)(7)"

    assert [tiny.tell(script=script), tiny.tell(script=script)] == [7, 7]  # compiled, and from the cache


def kernel_modules() -> list[Path]:
    return sorted(path for path in Path(kernels.__file__).parent.glob("*.py") if path.name != "jit.py")


@pytest.mark.parametrize("path", kernel_modules(), ids=lambda path: path.name)
def test_kernels_import_nothing_of_muster_but_one_another(path: Path):
    """A constant from elsewhere would be compiled in, and the cache would not see it change."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert all(name.startswith("muster.engine.kernels") for name in names if name.startswith("muster"))


def test_the_engine_starts_without_numba():
    script = "import sys, muster.engine, muster.engine.kernels; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
