"""Whatever happens, in whatever order: nothing is bound twice, no node holds more than it has, gangs start whole."""

from __future__ import annotations

from collections import Counter
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from kubeworld import Told

from muster.kubernetes.orders import Bind, Eviction

CPU = 4


class Cluster:
    """Told of a world, with binds and evictions that take their time; what must hold is looked at after each turn."""

    def __init__(self, nodes: int) -> None:
        self.told = Told(*(f"n{number}" for number in range(nodes)), cpu=CPU)
        self.binding: dict[str, Bind] = {}
        self.evicting: dict[str, Eviction] = {}
        self.cpu: dict[str, int] = {}
        self.gangs: dict[str, set[str]] = {}  # those that nothing has befallen
        self._names = count()

    def pod(self, cpu: int, priority: int) -> None:
        name = f"p{next(self._names)}"
        self.cpu[name] = cpu
        self.told.pod(name, cpu=cpu, priority=priority)

    def foreign(self, cpu: int) -> None:
        """Somebody else's scheduler puts a pod where there is room."""
        held = self._held()
        for node in ("n0", "n1"):
            if held[node] + cpu <= CPU:
                name = f"f{next(self._names)}"
                self.cpu[name] = cpu
                self.told.pod(name, cpu=cpu, scheduler="other", nodeName=node)
                return

    def gang(self, size: int, cpu: int, priority: int) -> None:
        gang = f"g{next(self._names)}"
        names = [f"{gang}-{index}" for index in range(size)]
        self.cpu.update(dict.fromkeys(names, cpu))
        self.gangs[gang] = set(names)
        self.told.spec(gang, size)
        self.told.gang(gang, *names, cpu=cpu, priority=priority)

    def settle_bind(self, *, is_bound: bool) -> None:
        if not self.binding:
            return
        name, bind = self.binding.popitem()
        if is_bound:
            self.told.is_bound(name, bind.node)
        else:
            self._befalls(name)
            self.told.world.refuse(bind, self.told.now_ms)

    def settle_eviction(self, *, is_gone: bool) -> None:
        name = next((name for name in self.evicting if name not in self.binding), None)
        if name is None:
            return
        eviction = self.evicting.pop(name)
        if is_gone:
            self.goes(name)
        else:
            self.told.world.stay(eviction)

    def goes(self, name: str) -> None:
        if name in self.told.pods:
            self._befalls(name)
            self.binding.pop(name, None)
            self.evicting.pop(name, None)
            self.told.goes(name)

    def oldest_ends(self) -> None:
        bound = [name for name, pod in self.told.pods.items() if pod.spec.node_name]
        if bound:
            self.goes(bound[0])

    def _befalls(self, name: str) -> None:
        self.gangs.pop(name.partition("-")[0], None)

    def _held(self) -> Counter[str]:
        held: Counter[str] = Counter()
        for name, pod in self.told.pods.items():
            node = pod.spec.node_name or (self.binding[name].node if name in self.binding else "")
            if node:
                held[node] += self.cpu[name]
        return held

    def turn(self, after_s: float) -> None:
        orders = self.told.orders(after_s)
        for bind in orders.binds:
            name = bind.key[1]
            assert name not in self.binding, "bound twice"
            assert not self.told.pods[name].spec.node_name, "bound already"
            self.binding[name] = bind
        for eviction in orders.evictions:
            self._befalls(eviction.key[1])
            self.evicting[eviction.key[1]] = eviction
        assert max(self._held().values(), default=0) <= CPU, "over-full"
        for names in self.gangs.values():
            placed = {name for name in names if name in self.binding or self.told.pods[name].spec.node_name}
            assert placed in (set(), names), "a gang starts whole"


SIZES = st.integers(1, CPU)
PRIORITIES = st.sampled_from([0, 0, 100])
STEPS = st.one_of(
    st.tuples(st.just("pod"), SIZES, PRIORITIES),
    st.tuples(st.just("gang"), st.integers(2, 4), SIZES, PRIORITIES),
    st.tuples(st.just("foreign"), SIZES),
    st.tuples(st.just("bind"), st.sampled_from([True, True, True, False])),
    st.tuples(st.just("evict"), st.sampled_from([True, True, False])),
    st.tuples(st.just("end")),
    st.tuples(st.just("turn"), st.sampled_from([0.1, 1.0, 15.0, 61.0])),
)


@given(nodes=st.integers(2, 4), steps=st.lists(STEPS, min_size=5, max_size=40))
def test_property_nothing_is_bound_twice_or_on_top_and_gangs_start_whole(nodes: int, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    cluster = Cluster(nodes)
    for what, *told in steps:
        match what:
            case "pod":
                cluster.pod(*told)
            case "gang":
                cluster.gang(*told)
            case "foreign":
                cluster.turn(0.1)  # what was decided is seen by all before others decide
                cluster.foreign(*told)
            case "bind":
                cluster.settle_bind(is_bound=told[0])
            case "evict":
                cluster.settle_eviction(is_gone=told[0])
            case "end":
                cluster.oldest_ends()
            case "turn":
                cluster.turn(*told)
    cluster.turn(0.1)
