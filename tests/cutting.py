"""A proxy in front of a server that loses answers when it is told to, or breaks connections at random."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from types import TracebackType

TROUBLES = ("cut", "cut in the middle", "delay", "half-close")
LONGEST_DELAY_S = 0.2


class Cutting:
    """Passes bytes on. With `cut_next`, the next answer is swallowed and its connection cut, once.

    With `chance`, one in `every` pieces that pass meets trouble, of each kind in turn: the connection is cut before it
    or in the middle of it, or it comes late, or nothing more comes from that side while the other may go on. `served`
    counts the connections that were made through it, `met` the troubles.
    """

    def __init__(self, url: str, chance: Random | None = None, every: int = 10) -> None:
        self._chance, self._every = chance, every
        self.met: Counter[str] = Counter()
        scheme, _, place = url.partition("://")
        host, _, port = place.partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.served = 0
        self._is_to_cut = threading.Event()
        self._may_answer = threading.Event()
        self._may_answer.set()
        self._is_refusing = False
        self._open: list[socket.socket] = []
        self._callers: list[threading.Thread] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self) -> None:
        """Lose the next answer."""
        self._is_to_cut.set()

    def have_all_left(self, within_s: float = 10.0) -> bool:
        """Whether everybody who came has closed their side, after a while at most."""
        until = time.monotonic() + within_s
        for caller in self._callers:
            caller.join(max(until - time.monotonic(), 0.0))
        return not any(caller.is_alive() for caller in self._callers)

    def cut_all(self) -> None:
        """Cut every connection that is open now."""
        with self._lock:
            cut, self._open = self._open, []
        for side in cut:
            _close(side)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Answers do not get through meanwhile; nobody is told so."""
        self._may_answer.clear()
        try:
            yield
        finally:
            self._may_answer.set()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Cut every connection, and let nobody through meanwhile."""
        self._is_refusing = True
        self.cut_all()
        try:
            yield
        finally:
            self._is_refusing = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # the end
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                _close(near)
                continue
            with self._lock:
                if self._is_refusing:
                    _close(near)
                    _close(far)
                    continue
                self._open += [near, far]
            self.served += 1
            self._callers.append(threading.Thread(target=self._pass, args=(near, far, False), daemon=True))
            self._callers[-1].start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while chunk := source.recv(65536):
                if is_answer:
                    self._may_answer.wait()
                if is_answer and self._is_to_cut.is_set():
                    self._is_to_cut.clear()
                    break
                trouble = self._trouble()
                if trouble == "delay":
                    time.sleep(LONGEST_DELAY_S * len(chunk) / 65536 + 0.02)
                elif trouble == "half-close":
                    target.shutdown(socket.SHUT_WR)
                    return  # the other direction goes on until its own end
                elif trouble:
                    target.sendall(chunk[: len(chunk) // 2] if trouble == "cut in the middle" else b"")
                    break
                target.sendall(chunk)
        except OSError:
            pass
        _close(source)
        _close(target)

    def _trouble(self) -> str:
        """What befalls the next piece; mostly nothing."""
        with self._lock:
            if self._chance is None or self._chance.randrange(self._every):
                return ""
            trouble = TROUBLES[self.met.total() % len(TROUBLES)]
            self.met[trouble] += 1
            return trouble

    def __enter__(self) -> Cutting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        _close(self._listener)
        self.cut_all()


def _close(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
