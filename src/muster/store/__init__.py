"""What a server must not forget: events, jobs, leases and small documents, in SQLite or PostgreSQL (docs/store.md)."""
