"""Closing a store while someone reads leaves no connection behind."""

from __future__ import annotations

from muster.store.store import Store


def test_who_still_reads_when_a_store_is_closed_leaves_no_connection_open(postgres):
    name = postgres.database()
    store = Store.open(postgres.url(name))
    with store._connected() as connection:
        driver = connection.connection.driver_connection
        store.close()

    assert driver.closed
    postgres.drop(name)
