"""A server with an agent of this machine, for all tests of a file: each looks at its own jobs only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        running.queue("a")
        running.local_agent()
        yield running
