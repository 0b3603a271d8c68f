"""Simulated clocks and clusters around the real engine, state and loop."""
