"""How the answers of a server are read: one decoder for each kind."""

from __future__ import annotations

from typing import Any

import msgspec

from muster.sdk import shapes


class SubmitAnswer(shapes.Answer, frozen=True, kw_only=True):
    """The answer to a submission."""

    jobs: list[shapes.Submitted]


class ChosenAnswer(shapes.Answer, frozen=True, kw_only=True):
    """The jobs to which something was done."""

    jobs: list[str]


Submitted = msgspec.json.Decoder(SubmitAnswer)
Chosen = msgspec.json.Decoder(ChosenAnswer)
Page = msgspec.json.Decoder(shapes.JobPage)
Job = msgspec.json.Decoder(shapes.Job)
Detail = msgspec.json.Decoder(shapes.JobDetail)
Log = msgspec.json.Decoder(shapes.Log)
Why = msgspec.json.Decoder(shapes.Why)
WhatIf = msgspec.json.Decoder(shapes.WhatIf)
Queue = msgspec.json.Decoder(shapes.Queue)
Queues = msgspec.json.Decoder(list[shapes.Queue])
Budget = msgspec.json.Decoder(shapes.Budget)
Budgets = msgspec.json.Decoder(list[shapes.Budget])
Policy = msgspec.json.Decoder(shapes.Policy)
User = msgspec.json.Decoder(shapes.User)
Users = msgspec.json.Decoder(list[shapes.User])
Pool = msgspec.json.Decoder(shapes.Pool)
Pools = msgspec.json.Decoder(list[shapes.Pool])
Names = msgspec.json.Decoder(list[str])
Clusters = msgspec.json.Decoder(list[shapes.Cluster])
Node = msgspec.json.Decoder(shapes.Node)
Nodes = msgspec.json.Decoder(list[shapes.Node])
Status = msgspec.json.Decoder(shapes.Status)
Turn = msgspec.json.Decoder(shapes.TurnDetail)
Turns = msgspec.json.Decoder(list[shapes.Turn])
Usage = msgspec.json.Decoder(shapes.UsageReport)
Records = msgspec.json.Decoder(list[shapes.Record])
Audit = msgspec.json.Decoder(list[dict[str, Any]])
Tokens = msgspec.json.Decoder(list[shapes.Token])
NewToken = msgspec.json.Decoder(shapes.NewToken)
