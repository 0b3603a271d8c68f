"""How the property tests search: the same examples every time in CI, fresh ones with MUSTER_FUZZ=1 (`make fuzz`).

And how the suite itself is run: who starts it in the background of a shell hands it an ignored Ctrl-C,
which the programs it starts would inherit; those that test Ctrl-C would then wait for ever.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci", derandomize=True, database=None, deadline=None, max_examples=60, suppress_health_check=_SLOW
)
settings.register_profile("fuzz", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile("fuzz" if os.environ.get("MUSTER_FUZZ") else "ci")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL of this run (of this worker, where there are several): started when a test first needs it."""
    from postgres import Postgres

    server = Postgres()
    server.start()
    yield server
    server.remove()
