"""Every behaviour case has one disposition, and every disposition can be held to its word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = tomllib.loads((ROOT / "tests/cases/disposition.toml").read_text())  # an id given twice is no TOML

IDS = tuple(
    """
    EDL-Q1 EDL-F1 EDL-F2 EDL-F3 EDL-F4 EDL-S1 EDL-S2 EDL-S3
    EDL-1 EDL-2 EDL-3 EDL-4 EDL-5 EDL-6 EDL-8 EDL-9 EDL-A1 EDL-A2 EDL-A3 EDL-A5 EDL-A6
    EDL-D1 EDL-D2 EDL-I1 EDL-I2 EDL-I3 CFS-1 CFS-2 CFS-3 CFS-4 CFS-5
    DRF-1 DRF-2 DRF-3 DRF-4 DRF-5 DRF-6 DRF-7 DRF-8 DRF-KUEUE
    FS-1 FS-2 FS-3 FS-4 FS-5 FS-6 FS-7 FS-10 FS-11
    PF-1 PF-2 PF-3 PF-4 PF-6 PF-8 PF-9 PF-10 PF-11 PF-12 PF-14 PF-15 PF-SLICES
    FL-1 FL-2 FL-3 FL-4 FL-5 FL-6 FL-7 FL-9 FL-KUEUE
    BU-1 BU-2 BU-3 BU-4 BU-6 PR-1 PR-3 PR-4 PR-5 PR-6
    GA-1 GA-2 GA-5 GA-6 GE-1 GE-2 GE-3 GE-4 GE-6
    GG-1 GG-2 GG-3 GG-5 GG-6 GG-8 GG-9 GG-10 GI-1 GI-3 GI-4 GI-5 GI-6 GI-7 GI-8 GK-1
    KP-1 KP-2 KP-4 KP-5 KP-6 KP-7
    AP-1 AP-2 AP-3 AP-4 AP-6 AP-7 AP-8 AP-9 AP-10 AP-11 AP-14 AP-16 AP-17 AP-18 AP-19 AP-20 AP-21
    SIM-1 SIM-2 SIM-3 SIM-4 SIM-5 SIM-7
    AIB-N1 AIB-N2 AIB-N3 AIB-N4 AIB-N6 AIB-N7 AIB-N9 AIB-N10 AIB-ACC
    AIB-B1 AIB-B2 AIB-B3 AIB-B4 AIB-B5 AIB-B7 AIB-B9
    AIB-A1 AIB-A2 AIB-A3 AIB-A5 AIB-A6 AIB-A7 AIB-A8 AIB-V1 AIB-V2 AIB-V3 AIB-V5 AIB-V6
    FAC-1 FAC-2 FAC-4 FAC-5 FAC-6 FAC-7 FAC-8 FAC-10 FAC-11 FAC-12 FAC-13 FAC-15 FAC-16
    MCC-1 MCC-2 MCC-3 MCC-4 MCC-6 MCC-7 MCC-8
    PROP-1 PROP-2 PROP-3 PROP-4 PROP-5 PROP-6 PROP-7 PROP-8 PROP-9 PROP-10 PROP-11 PROP-12
    """.split()  # noqa: SIM905
)

FIELDS = {
    "same": {"test"},
    "differs": {"test", "design", "muster"},
    "later": {"issue"},
    "not ours": {"design", "quote"},
}
NEEDS_WORDS = {"test", "muster", "quote", "note"}
SHORTEST_QUOTE = 20
SECTION = re.compile(r"[1-9][0-9]?(\.[1-9])?")


def named_by(case):
    """The node ids a disposition names, as a list."""
    named = case.get("test", [])
    return [named] if isinstance(named, str) else named


def existing_tests(paths):
    """Every node id in these files, asked of pytest itself."""
    ask = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    answer = subprocess.run([*ask, *paths], cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return {line for line in answer.stdout.splitlines() if "::" in line}


def test_every_case_is_listed():
    assert sorted(set(IDS) - set(CASES)) == []
    assert sorted(set(CASES) - set(IDS)) == []
    assert len(set(IDS)) == len(IDS)


def test_every_disposition_says_what_its_kind_needs():
    problems = []
    for name, case in CASES.items():
        needed = FIELDS.get(case.get("kind"))
        if needed is None:
            problems.append(f"{name}: kind is one of {', '.join(FIELDS)}")
            continue
        given = set(case) - {"kind"}
        problems += [f"{name}: {field} is missing" for field in sorted(needed - given)]
        problems += [f"{name}: {field} does not belong here" for field in sorted(given - needed - {"note"})]
        problems += [f"{name}: {field} says nothing" for field in sorted(given & NEEDS_WORDS) if not case[field]]
        if "design" in given and not SECTION.fullmatch(case["design"]):
            problems.append(f"{name}: design is a section such as 4.3")
        if "issue" in given and not (isinstance(case["issue"], int) and case["issue"] > 2):
            problems.append(f"{name}: issue is the number of a later one")
        if len(case.get("quote", "." * SHORTEST_QUOTE)) < SHORTEST_QUOTE:
            problems.append(f"{name}: quote is a whole sentence")
    assert problems == []


def test_every_named_test_exists_and_every_row_is_named():
    files = {test.partition("::")[0] for case in CASES.values() for test in named_by(case)}
    existing = existing_tests(sorted(files))
    functions = {test.partition("[")[0] for test in existing}
    named = {(name, test) for name, case in CASES.items() for test in named_by(case)}
    rows = {(row[1], test) for test in existing if (row := re.search(r"\[([A-Z]+-[A-Z]*[0-9]*) ", test))}

    assert sorted(test for _, test in named if test not in existing | functions) == []
    assert sorted(test for name, test in rows if (name, test) not in named) == []
    assert sorted(test for name, test in named if "[" in test and (name, test) not in rows) == []
