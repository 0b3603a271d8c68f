"""Ask a Muster server from Python: `muster.Client`, and `muster.AsyncClient` with the same names.

asking      every question there is: what is sent, and how the answer is read. Said once, for both clients
operating   those of people who operate: many jobs at once, budgets, the policy
shapes      the answers
client      carries questions out, and waits; aclient does the same under asyncio
retrying    when a question is asked again, and after how long
events      a stream of events that goes on where it broke off; sse reads the stream
contexts    which server is meant, and with which token
errors      what can go wrong
"""
