"""How fast this machine is, by fixed loops, so that absolute numbers can be compared."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit

from bench.measuring import timed

PYTHON_ROUNDS = 3_000_000
COMPILED_ROUNDS = 200_000_000


def calibration() -> str:
    """Seconds of a fixed piece of plain Python, and of a fixed compiled one."""
    _, python_s = timed(_count)
    mix: Callable[[int], int] = njit(_mix)
    mix(1)  # compiles it
    _, compiled_s = timed(lambda: mix(COMPILED_ROUNDS))
    return (
        f"A fixed loop of plain Python took {python_s:.2f} s of CPU, "
        f"a fixed loop compiled by Numba {compiled_s:.2f} s (compiling not counted)."
    )


def compiled_loop() -> Callable[[], int]:
    """The fixed compiled loop, letting go of the interpreter as kernels do."""
    mix: Callable[[int], int] = njit(nogil=True)(_mix)
    mix(1)  # compiles it
    return lambda: mix(COMPILED_ROUNDS // 2)


def _count() -> None:
    counts: dict[int, int] = {}
    for number in range(PYTHON_ROUNDS):
        counts[number % 1009] = counts.get(number % 1009, 0) + number


def _mix(rounds: int) -> int:
    """Each step shifts what the one before it left and goes by it, so that none can be folded into another.

    A mere product and sum can: compilers then take several steps at once, and the time says little.
    """
    number, odd = 88_172_645_463_325_252, 0
    for _ in range(rounds):
        number ^= (number << 13) & 0x7FFFFFFFFFFFFFFF
        number ^= number >> 7
        number ^= (number << 17) & 0x7FFFFFFFFFFFFFFF
        if number & 1:
            odd += number >> 60
    return odd
