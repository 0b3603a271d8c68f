"""Columns that grow together: what is kept of many things of one kind, one row for each."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from muster.engine.columns.arrays import Ints

NONE = -1
_ROWS = 16  # at first

_Column = npt.NDArray[np.int64] | npt.NDArray[np.int32]


class Table:
    """Columns of one length. What is not written yet reads as none. `narrow` ones hold numbers of rows and the like.

    Where rows come in any order, and who reads one cell of a row reads others too, wide cells lie `side_by_side`.
    `cells` are the columns to read and write number by number, which is faster than in arrays; each is only good until
    the next row is made.
    """

    def __init__(self, *wide: str, narrow: tuple[str, ...] = (), side_by_side: bool = False) -> None:
        # A row of eight cells never lies in more than two lines of the processor's cache.
        shape = (_ROWS, max(len(wide), 8)) if side_by_side else (len(wide), _ROWS)
        self._wide = np.full(shape, NONE, np.int64)
        self._narrow = np.full((len(narrow), _ROWS), NONE, np.int32)
        self._names = (wide, narrow)
        self._is_side_by_side = side_by_side
        self._size = 0
        self._room = _ROWS
        self.epoch = 0  # changes when columns are other arrays than before
        self._open()

    def _open(self) -> None:
        self.epoch += 1
        wide, narrow = self._names
        columns = self._wide.T if self._is_side_by_side else self._wide
        self._columns: dict[str, _Column] = dict(zip(wide, columns, strict=False))
        self._columns |= dict(zip(narrow, self._narrow, strict=True))
        self.cells: dict[str, memoryview[int]] = {
            name: memoryview(cast(Any, column)) for name, column in self._columns.items()
        }

    def __len__(self) -> int:
        return self._size

    def array(self, name: str) -> Ints:
        """A wide column as an array."""
        return cast(Ints, self._columns[name])

    def grow(self, rows: int = 1) -> int:
        """New rows at the end; the number of the first."""
        first, self._size = self._size, self._size + rows
        if self._size > self._room:
            old = self._columns
            while self._size > self._room:
                self._room *= 2
            wide, narrow = self._wide.shape, self._narrow.shape
            many = (self._room, wide[1]) if self._is_side_by_side else (wide[0], self._room)
            self._wide = np.full(many, NONE, np.int64)
            self._narrow = np.full((narrow[0], self._room), NONE, np.int32)
            self._open()
            for name, column in old.items():
                self._columns[name][:first] = column[:first]
        return first

    def copy(self) -> Table:
        """The same columns, to go on by themselves."""
        wide, narrow = self._names
        other = Table(*wide, narrow=narrow, side_by_side=self._is_side_by_side)
        other._wide, other._narrow = self._wide.copy(), self._narrow.copy()
        other._size, other._room = self._size, self._room
        other._open()
        return other
