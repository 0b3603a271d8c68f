"""`python -m bench [NAME]`: run one benchmark, or all and write docs/benchmarks.md."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.calibration import calibration
from bench.memory import memory
from bench.simulate import simulate

BENCHMARKS = {"simulate": simulate, "memory": memory}
REPORT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
INTRODUCTION = """# Benchmarks

Written by `make bench`; one of them: `make bench NAME=simulate`. Absolute times mean little on another machine:
compare the ratios, or scale by the calibration figure.
"""


def main() -> int:
    """Run what was asked for; write the report when all ran."""
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark called {unknown[0]!r}; there is: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    sections = [f"## Calibration\n\n{calibration()}\n"]
    print(sections[0], flush=True)
    for name in names:
        sections.append(f"## {name}\n\n{BENCHMARKS[name]()}\n")
        print(sections[-1], flush=True)
    if len(names) == len(BENCHMARKS):
        REPORT.write_text("\n".join([INTRODUCTION, *sections]), encoding="utf-8")
        print(f"written: {REPORT.relative_to(REPORT.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
