"""Columns that grow together: what is kept of many things of one kind, one row for each."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from muster.engine.shapes import Ints

NONE = -1
_ROWS = 16  # at first

_Column = npt.NDArray[np.int64] | npt.NDArray[np.int32]


class Table:
    """Columns of one length. What is not written yet reads as none. `narrow` ones hold numbers of rows and the like.

    `cells` are the columns to read and write number by number, which is faster than in arrays; each is only good until
    the next row is made.
    """

    def __init__(self, *wide: str, narrow: tuple[str, ...] = ()) -> None:
        self._columns: dict[str, _Column] = {name: np.full(_ROWS, NONE, np.int64) for name in wide}
        self._columns |= {name: np.full(_ROWS, NONE, np.int32) for name in narrow}
        self._size = 0
        self._room = _ROWS
        self.cells: dict[str, memoryview[int]] = {}
        self._open()

    def _open(self) -> None:
        for name, column in self._columns.items():
            self.cells[name] = memoryview(cast(Any, column))

    def __len__(self) -> int:
        return self._size

    def array(self, name: str) -> Ints:
        """A wide column as an array."""
        return cast(Ints, self._columns[name])

    def grow(self) -> int:
        """A new row at the end."""
        if self._size == self._room:
            self._room *= 2
            for name, column in self._columns.items():
                self._columns[name] = np.full(self._room, NONE, column.dtype)
                self._columns[name][: self._size] = column
            self._open()
        self._size += 1
        return self._size - 1

    def copy(self) -> Table:
        """The same columns, to go on by themselves."""
        other = Table()
        other._columns = {name: column.copy() for name, column in self._columns.items()}
        other._size, other._room = self._size, self._room
        other._open()
        return other
