"""How `make docs` builds these pages: Markdown in, plain HTML out, nothing fetched from the network.

A page appears by itself: every file here is in the navigation, every folder is a section of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import muster

HERE = Path(__file__).parent

project = "Muster"
author = "the Muster authors"
copyright = author
version = release = muster.__version__

extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # a shortened example is not a broken page

html_theme = "furo"
html_title = f"Muster {release}"
html_show_sphinx = False

SECTION_TITLES = {"adr": "Decisions", "concepts": "Concepts"}


def section(pattern: str, caption: str = "") -> str:
    """A hidden table of contents over `pattern`, as Markdown."""
    title = f":caption: {caption}\n" if caption else ""
    return f"\n\n```{{toctree}}\n:hidden:\n:glob:\n{title}\n{pattern}\n```\n"


def add_navigation(app: Any, docname: str, source: list[str]) -> None:
    """Append one section for the pages beside the index and one for each folder of pages."""
    if docname != "index":
        return
    if len(list(HERE.glob("*.md"))) > 1:
        source[0] += section("*")
    for folder in sorted({page.relative_to(HERE).parts[0] for page in HERE.glob("*/**/*.md")}):
        source[0] += section(f"{folder}/**", SECTION_TITLES.get(folder, folder.replace("-", " ").capitalize()))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
