"""Every test of the store runs on both kinds of database; each test has a database of its own."""

from __future__ import annotations

from contextlib import closing

import pytest

from muster.store.store import Store


@pytest.fixture(scope="session")
def template(postgres):
    """A database with our schema, from which others are copied."""
    name = "muster"
    postgres.execute(f"CREATE DATABASE {name}")
    Store.open(postgres.url(name)).close()
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request, tmp_path):
    """The URL of a database that Muster has not seen yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'muster.db'}"
    else:
        server = request.getfixturevalue("postgres")
        name = server.database()
        yield server.url(name)
        server.drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The URL of a database with our schema and nothing in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'muster.db'}"
    else:
        server = request.getfixturevalue("postgres")
        name = server.database(request.getfixturevalue("template"))
        yield server.url(name)
        server.drop(name)


@pytest.fixture
def store(url):
    with closing(Store.open(url)) as opened:
        yield opened
