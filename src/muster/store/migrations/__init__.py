"""How a database gets from one schema to the next; run by muster.store.schema, never edited once released."""
