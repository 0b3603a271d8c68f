"""Experiments on real traces, with published numbers beside ours: `make evidence`."""
