"""The hot loops, over arrays: the same source as plain Python and as machine code (jit.py).

    face = kernels.suited_to(len(tasks))
    count = face(gangs.place)(ground, books, ...)

Two families share this folder: placing.py and filling.py say what they work on and which modules they are.
Kernel modules import numpy and one another, nothing else of Muster: their machine code is kept by the
sources of this package alone.
"""

from muster.engine.kernels.jit import (
    Face,
    compiled,
    compiled_if_cached,
    have_made_by,
    kept_in,
    kernel,
    plain,
    size_after,
    suited_to,
)

__all__ = [
    "Face",
    "compiled",
    "compiled_if_cached",
    "have_made_by",
    "kept_in",
    "kernel",
    "plain",
    "size_after",
    "suited_to",
]
