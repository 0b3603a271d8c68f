"""A simulation as one HTML file (design.md 9)."""

from __future__ import annotations

from muster.sim.report.page import page

__all__ = ["page"]
