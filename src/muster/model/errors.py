"""What can go wrong, as one tree.

MusterError
└── InvalidValue (also a ValueError)    something given to Muster is not allowed
"""

from __future__ import annotations

_SHOWN = 80  # characters of a refused value that an error repeats


class MusterError(Exception):
    """The root of every error Muster raises on purpose."""


class InvalidValue(MusterError, ValueError):
    """A value that is not allowed: what it was, what is allowed, and where it stood."""

    def __init__(self, value: object, allowed: str, field: str = "") -> None:
        # All three go to Exception, so that the error survives pickling and copying.
        super().__init__(value, allowed, field)
        self.value = value
        self.allowed = allowed
        self.field = field

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{where}{_shown(self.value)}: {self.allowed}"

    def inside(self, path: str) -> InvalidValue:
        """The same error, seen from further out: `path` goes before its field."""
        dot = "." if path and self.field and not self.field.startswith("[") else ""
        return InvalidValue(self.value, self.allowed, f"{path}{dot}{self.field}")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of thousands of digits
        text = "a number too long to print"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
