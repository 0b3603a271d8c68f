"""Profiles are keys of dictionaries everywhere: they must stay equal to themselves wherever they go."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

from muster.model.jobs import Profile, TaskGroup
from muster.model.nodes import Request


def a_profile() -> Profile:
    request = Request.of({"cpu": 1000})
    groups = [TaskGroup(name=name, min=1, initial=2, max=3, request=request) for name in ("worker", "leader")]
    return Profile(groups=tuple(groups), clusters=(("east", 10),), pool="gold")


def test_profiles_survive_copying_and_another_process() -> None:
    profile = a_profile()
    script = (
        "import pickle, sys; held = pickle.loads(sys.stdin.buffer.read()); "
        "anew = type(held)(groups=tuple(map(pickle.loads, map(pickle.dumps, held.groups))), "
        "clusters=held.clusters, pool=held.pool); "
        "from muster.model.jobs import TaskGroup; group = held.groups[0]; "
        "same = TaskGroup(name=group.name, min=1, initial=2, max=3, request=group.request); "
        "sys.exit(hash(held) != hash(anew) or hash(group) != hash(same))"
    )

    assert copy.deepcopy(profile) == profile
    subprocess.run([sys.executable, "-c", script], input=pickle.dumps(profile), check=True, timeout=60)
