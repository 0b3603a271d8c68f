"""Muster: one batch scheduler for many clusters."""

__version__ = "0.1.0"
