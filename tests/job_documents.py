"""Random job documents for property tests: JSON that a job file may say, and small damage done to it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from muster.documents.jobs import Known
from muster.model.fleet import Cluster

NAMES = ("a", "b", "n-1", "Train.x_7")

SERVER = Known(
    queues=NAMES,
    clusters={"east": Cluster(name="east"), "west": Cluster(name="west"), "pai": Cluster(name="pai", opaque=True)},
    classes={"default": 0, "high": 1000},
    where="this server",
)

names = st.sampled_from(NAMES)
switches = st.sampled_from([True, False, "on", "off", "true", "false"])
durations = st.sampled_from(["30s", "10m", "2h", "1d", "250ms", "0.5s", "90", 0, 1, 90, 0.5, 2.25])
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
labels = st.dictionaries(
    st.sampled_from(["zone", "example.com/kind"]), st.sampled_from(["", "z1", "A-b.c"]), max_size=2
)
quantities = st.sampled_from([0, 1, 2, 0.5, "500m", "2", "1.5", "4Gi", "1e3", "2k", ".5"])
wholes = st.sampled_from([0, 1, 8, "2", "1k"])


def some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with some of these keys."""
    return st.fixed_dictionaries({}, optional={key.replace("__", "/"): value for key, value in keys.items()})


def joined(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """All parts in one mapping."""
    return st.tuples(*parts).map(lambda ones: {key: value for one in ones for key, value in one.items()})


terms = st.fixed_dictionaries(
    {
        "matchExpressions": st.lists(
            st.sampled_from(
                [
                    {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
                    {"key": "gpu", "operator": "Exists"},
                    {"key": "age", "operator": "Gt", "values": ["3"]},
                ]
            ),
            min_size=1,
            max_size=2,
        )
    }
)
affinities = st.lists(terms, min_size=1, max_size=2).map(
    lambda terms: {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
)
tolerations = st.lists(
    st.sampled_from(
        [
            {"key": "gpu", "operator": "Exists"},
            {"key": "team", "value": "a", "effect": "NoSchedule"},
            {"key": "slow", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        ]
    ),
    max_size=2,
)

amounts = some(cpu=quantities, memory=quantities, gpu=wholes, storage=quantities, example_com__fpga=wholes).map(
    lambda found: {key.replace("example_com", "example.com"): value for key, value in found.items()}
)
of_tasks = joined(
    amounts,
    some(
        wholeNode=switches,
        maxHops=st.integers(0, 6),
        preferClose=switches,
        nodeSelector=labels | st.none(),
        affinity=affinities | st.none(),
        tolerations=tolerations | st.none(),
    ),
)
commands = st.fixed_dictionaries(
    {"command": st.lists(texts, min_size=1, max_size=3)},
    optional={
        "args": st.lists(texts, max_size=2) | st.none(),
        "env": st.dictionaries(st.sampled_from(["A", "_b.c", "X-1"]), texts, max_size=2) | st.none(),
        "workdir": st.sampled_from(["/", "/data/x"]),
    },
)
pods = st.fixed_dictionaries(
    {
        "podTemplate": st.fixed_dictionaries(
            {
                "spec": st.fixed_dictionaries(
                    {"containers": st.lists(some(image=texts, tty=st.booleans()), min_size=1, max_size=2)}
                )
            },
            optional={"metadata": some(labels=labels)},
        )
    }
)
launches = st.one_of(st.just({}), commands, pods, st.fixed_dictionaries({"command": texts.filter(bool)}))

widths = st.one_of(
    st.just({}),
    some(count=st.integers(1, 5)),
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 3)).map(
        lambda steps: {"min": steps[0], "initial": steps[0] + steps[1], "max": steps[0] + steps[1] + steps[2]}
    ),
)
groups = st.lists(
    joined(of_tasks, launches, widths, some(scalability=st.sampled_from([None, {"1": 2.5}, {"1": "3"}]))),
    min_size=1,
    max_size=3,
).map(lambda ones: [{"name": name, **one} for name, one in zip(("w", "ps", "eval"), ones, strict=False)])


def _starts(job: dict[str, Any]) -> bool:
    """Whether some group has a task at its min: a job without any is refused."""
    found = job.get("groups", [{}])
    return any(group.get("count", group.get("min", 1)) for group in found)


objects = st.lists(
    joined(
        st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["service", "ingress"]),
                "name": st.sampled_from(["web", "x-1"]),
                "ports": st.lists(st.integers(1, 65535), min_size=1, max_size=3, unique=True),
            }
        ),
        some(labels=labels, annotations=st.dictionaries(texts, texts, max_size=1)),
    ),
    max_size=2,
    unique_by=lambda one: (one["kind"], one["name"]),
)

of_jobs = joined(
    st.fixed_dictionaries({"queue": names}),
    some(
        user=names,
        jobSet=names,
        priority=st.integers(-5, 5),
        priorityClass=st.sampled_from(["default", "high"]),
        lifetime=durations,
        expectedRuntime=durations,
        timeLimit=st.sampled_from(["1m", 5]),
        retries=st.integers(0, 3) | some(failed=st.integers(0, 3), lost=st.integers(0, 3), preempted=st.integers(0, 3)),
        level=st.sampled_from(["Normal", "Offline"]),
        freezingWindow=durations,
        onLost=st.sampled_from(["wait", "rerun"]),
        pool=names,
        after=st.lists(
            st.sampled_from(["x", "y", {"job": "z"}, {"job": "u", "when": "any"}, {"job": "v", "when": "failed"}]),
            max_size=3,
        )
        | st.none(),
    ),
)
named = st.one_of(
    some(name=names),
    st.fixed_dictionaries({"name": names, "array": st.sampled_from(["0-3", "7", "0-9:5,20"])}),
    st.fixed_dictionaries({"name": names, "count": st.integers(1, 4)}),
)
placed = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"cluster": st.sampled_from(["east", "west"])}),
    st.fixed_dictionaries({"clusters": some(east=st.integers(0, 100), west=st.integers(0, 100)) | st.none()}),
    st.fixed_dictionaries(
        {
            "race": st.fixed_dictionaries(
                {
                    "clusters": st.fixed_dictionaries(
                        {"pai": joined(amounts, some(priority=st.integers(0, 100))) | st.none()}
                    )
                },
                optional={"guard": durations, "timeScale": durations, "grace": st.sampled_from(["strict", "running"])},
            )
        }
    ),
)
shapes = st.one_of(
    joined(of_tasks, launches, some(objects=objects | st.none())),
    joined(groups.map(lambda ones: {"groups": ones})),
)
jobs = joined(named, of_jobs, placed, shapes).filter(_starts)
"""A job that SERVER takes."""

_SCALARS = [
    None,
    True,
    False,
    -1,
    0,
    7,
    1 << 70,
    0.25,
    -0.5,
    "",
    "x",
    "-",
    "no name",
    "é",
    "9" * 300,
    "on",
    "5m",
    "4Gi",
]
_NESTED = [[], ["x"], [{}], {}, {"x": 1}, [[]], [7], {"name": "x"}]

odd = st.sampled_from([*_SCALARS, *_NESTED])
"""Values that are wrong in most places."""


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A job in which one value, anywhere, was replaced, removed, or given a key beside it."""
    job = draw(jobs)
    places = [*_places(job, ())]
    path = draw(st.sampled_from(places))
    kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
    return _changed(job, path, kind, draw(odd), draw(st.sampled_from(KEYS)))


KEYS = [
    *("name", "queue", "cpu", "gpu", "gpuMilli", "groups", "command", "args", "podTemplate", "count", "array", "min"),
    *(
        "race",
        "cluster",
        "clusters",
        "objects",
        "env",
        "workdir",
        "at",
        "runtime",
        "x",
        "example.com/y",
        "jobs",
        "spec",
    ),
]


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))


def _changed(value: Any, path: tuple[Any, ...], kind: str, other: Any, key: str) -> Any:
    first, rest = path[0], path[1:]
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[first] = _changed(copy[first], rest, kind, other, key)
    elif kind == "remove":
        del copy[first]
    elif kind == "add" and isinstance(copy, dict):
        copy[key] = other
    else:
        copy[first] = other
    return copy
