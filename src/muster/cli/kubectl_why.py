"""What `kubectl muster why POD` does: reach the cluster, ask, and print."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
import time
from dataclasses import dataclass

from muster.cli.ending import BAD_INPUT, ending_well
from muster.cli.serve import FAILED
from muster.kubernetes.access import Access, access_here
from muster.kubernetes.client import Client
from muster.kubernetes.errors import KubernetesError, NotFound
from muster.kubernetes.why import Answer, why
from muster.model.errors import InvalidValue

WIDTH = 100
_POD = ("pod/", "pods/", "po/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options, as they were given."""

    pod: str
    namespace: str
    output: str
    kubeconfig: str
    context: str


def run(asked: Asked) -> int:
    """Answer and print; the exit code."""
    return ending_well(lambda: _run(asked))


def _run(asked: Asked) -> int:
    try:
        name = _name_of(asked.pod)
        access = access_here(asked.kubeconfig, asked.context)
    except InvalidValue as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    namespace = asked.namespace or access.namespace
    try:
        answer = asyncio.run(_ask(access, namespace, name))
    except NotFound:
        print(f"there is no pod {name} in namespace {namespace}", file=sys.stderr)
        return FAILED
    except KubernetesError as err:
        print(err, file=sys.stderr)
        return FAILED
    print(json.dumps(_as_json(answer), ensure_ascii=False) if asked.output == "json" else _in_words(answer, asked))
    return 0


def _name_of(pod: str) -> str:
    prefix = next((each for each in _POD if pod.startswith(each)), "")
    name = pod.removeprefix(prefix)
    if not name or "/" in name:
        raise InvalidValue(pod, "must be the name of a pod, such as train-0 or pod/train-0", "POD")
    return name


async def _ask(access: Access, namespace: str, name: str) -> Answer:
    async with Client(access) as client:
        return await why(client, namespace, name, int(time.time() * 1000))


def _in_words(answer: Answer, asked: Asked) -> str:
    told = [textwrap.fill(part, WIDTH, break_on_hyphens=False) for part in answer.text]
    told[0] = textwrap.fill(f"{answer.pod}: {answer.text[0]}", WIDTH, break_on_hyphens=False)
    if asked.output == "wide" and answer.reason:
        facts = {"reason": answer.reason, **answer.facts}
        told.append("\n".join(f"{name}  {value}" for name, value in facts.items()))
    return "\n\n".join(told)


def _as_json(answer: Answer) -> dict[str, object]:
    said = answer.condition
    condition = None if said is None else {"reason": said.reason, "message": said.message}
    return {
        "pod": answer.pod,
        "state": answer.state,
        "condition": condition,
        "reason": answer.reason or None,
        "facts": answer.facts,
        "text": "\n\n".join(answer.text),
    }
