"""The server: people submit, agents call in, and in between one turn after the other decides (design.md 7).

world      the state of the world with the loop that turns it, and how it is found again after a restart
writing    what a turn changes in the store: rows, leases, events
leases     what every agent has, is to start, and is to stop
turns      the one thread that decides: news in, plan, rows durable, agents told
access     tokens and what they may do
api        HTTP: what people and agents can ask for
"""
