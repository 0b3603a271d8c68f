"""The readers over one mapping of a scenario: those of any document."""

from __future__ import annotations

from muster.documents.fields import Fields

__all__ = ["Fields"]
