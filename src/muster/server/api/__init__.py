"""HTTP: what people and agents can ask for. `app.py` puts it together, the rest are its parts by subject.

shapes   the bodies of requests and answers, as OpenAPI shows them
errors   what is wrong, in one form: {"error": {"message", "problems": [{"field", "value", "allowed"}]}}
doors    who is asking, and whether they may
jobs, queues, fleet, agents, events, operations   the paths
"""
