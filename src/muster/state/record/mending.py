"""A record that breaks off, because its writer was killed or has not come to its end yet: the whole turns of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator

from muster.state.record.lines import LONGEST_LINE, dumps

_TURN, _END = b'["turn",', b'["end",'


def mended(data: bytes) -> bytes | None:
    """The same record with an end after its last whole turn; None if it has none. A whole record stays as it is."""
    lines = list(_whole_lines(data))
    if lines and lines[-1].startswith(_END):
        return data
    turns = [place for place, line in enumerate(lines) if line.startswith(_TURN)]
    if not turns:
        return None
    kept = lines[: turns[-1] + 1]
    digest = hashlib.sha256(b"".join(kept)).hexdigest()
    return gzip.compress(b"".join([*kept, dumps(["end", len(turns), digest])]), compresslevel=6, mtime=0)


def _whole_lines(data: bytes) -> Iterator[bytes]:
    """The lines that can be read."""
    with gzip.GzipFile(fileobj=io.BytesIO(data), mode="rb") as file:
        try:
            while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return
