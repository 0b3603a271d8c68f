"""How wide elastic jobs run (design.md 5.6, paddle-trainingjob.md): width.py says how a turn goes about it."""
