"""Where jobs run: what an agent and the server say to each other, and agents that speak it.

protocol   the messages: an agent calls in with what it has and hears what to start and stop
calling    the loop every agent runs: call in, hear, act, tell
simulated  an agent without machines: tasks take their time and end
"""
