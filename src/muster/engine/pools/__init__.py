"""Pools: each takes its turn on its own nodes; then those who still wait may borrow (design.md 5.1 to 5.3)."""
