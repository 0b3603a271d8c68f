"""A proxy in front of a server that loses answers when it is told to."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class Cutting:
    """Passes bytes on. With `cut_next`, the next answer is swallowed and its connection cut, once.

    `served` counts the connections that were made through it.
    """

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.served = 0
        self._is_to_cut = threading.Event()
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self) -> None:
        """Lose the next answer."""
        self._is_to_cut.set()

    def cut_all(self) -> None:
        """Cut every connection that is open now."""
        with self._lock:
            cut, self._open = self._open, []
        for side in cut:
            _close(side)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # the end
                return
            far = socket.create_connection(self._target)
            self.served += 1
            with self._lock:
                self._open += [near, far]
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while chunk := source.recv(65536):
                if is_answer and self._is_to_cut.is_set():
                    self._is_to_cut.clear()
                    break
                target.sendall(chunk)
        except OSError:
            pass
        _close(source)
        _close(target)

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
