"""Benchmarks: `make bench`, or `make bench NAME=simulate`. Fixed worlds, fixed seeds, checked results."""
