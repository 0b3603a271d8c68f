"""What is wrong with a scenario file: the problems of any document, raised as ScenarioError."""

from __future__ import annotations

from muster.documents.problems import MOST_PROBLEMS, DocumentError, Problem, joined, quoted
from muster.documents.problems import Problems as OfDocument

__all__ = ["MOST_PROBLEMS", "Problem", "Problems", "ScenarioError", "joined", "quoted"]


class ScenarioError(DocumentError):
    """A scenario file that cannot be used: all its problems, in the order of their lines."""


class Problems(OfDocument):
    """Collects the problems of one scenario file."""

    raises = ScenarioError
