"""A specialised job as YAML that every reader takes for the same values.

OpenPAI reads YAML 1.2, PyYAML writes 1.1: a text that either would take for something else gets its quotes.
"""

from __future__ import annotations

import re

import yaml

from muster.openpai.specialise import Document

_NUMBER = re.compile(r"[-+]?(0o[0-7_]+|0x[0-9a-fA-F_]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such, and repeats instead of using anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 -- PyYAML's own
        """A document may hold one list twice: both are written out."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else '"' if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(job: Document) -> str:
    """The job as a YAML document, its keys in the order of the file."""
    return yaml.dump(job, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)
