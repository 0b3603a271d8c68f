"""A real browser for tests of what people see: Chromium, from the system's packages (scripts/setup installs it)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Where it is."""
    found = os.environ.get("MUSTER_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    assert found, "no Chromium was found: `make setup` says how to install it, or name one with MUSTER_CHROMIUM"
    return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser without a window. In a container, as root, its sandbox does not work."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
