"""A Kubernetes cluster as the engine sees it: what caches tell becomes events, and what a turn decides becomes orders.

A pod of ours is in line, placed or leaving. Placed is what we decided to bind, from that moment on and until the API
server refuses: room is never given away twice while a bind is on its way. Leaving is what we evict: it counts as a
pod of others until it is gone, and nothing is bound to its node before.

Everything here follows from what the API server holds, so a scheduler that starts again finds its world in its caches.
No I/O and no clock: scheduler.py has those.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.kubernetes import objects
from muster.kubernetes.asks import ask_of
from muster.kubernetes.batches import CLUSTER, Batch, Batches, Member, Unit
from muster.kubernetes.cache import Change
from muster.kubernetes.crowding import Crowding
from muster.kubernetes.disruptions import Disruptions
from muster.kubernetes.halves import is_half
from muster.kubernetes.jobs import NAMES, Arranged, Gang, Terms, arranged
from muster.kubernetes.nodes import node_of
from muster.kubernetes.objects import Pod
from muster.kubernetes.orders import Bind, Eviction, HandOver, Orders
from muster.kubernetes.places import Foreign
from muster.kubernetes.pools import Pools
from muster.kubernetes.register import Register
from muster.kubernetes.surroundings import Surroundings, asks_for_the_same, looks_different, minds
from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import NEVER_MS, Running
from muster.model.nodes import Node
from muster.model.plan import Evict, Plan, Start
from muster.model.policy import Policy
from muster.model.resources import GPU
from muster.state.run import Run
from muster.state.state import State

EVICTION_MS = 60_000  # for which room is held for whom others are evicted for
VOLUMES_MS = 600_000  # and for whom volumes are made
HANDED_OVER = 200  # pods in one part of what a turn orders


class World:
    """Everything the scheduler knows. Tell it what happened (`hear_…`), then take a `turn`.

    `ahead`: how many jobs are to come, if that is known.
    """

    def __init__(self, policy: Policy, *, ahead: int = 0) -> None:
        self.register = Register()
        self.waiting: dict[str, Member] = {}  # those without a place, by uid
        self._minding: dict[str, Member] = {}  # those of them whose asks depend on more than themselves
        self.batches = Batches(news=[ev.ClusterSet(cluster=Cluster(name=CLUSTER))])
        self.plan = Plan(now_ms=0)
        self._run = Run(State(policy), _until_told, ahead=ahead)
        self._nodes: dict[str, Node] = {}
        self.surroundings = Surroundings(self._nodes)
        self.pools = Pools(self.batches)
        self.disruptions = Disruptions(self.register.members)
        self._foreign = Foreign()
        self._on: dict[str, set[str]] = {}  # uids of ours by node
        self._leaving: dict[str, set[str]] = {}  # uids by node
        self._crowding = Crowding()
        self._unsent: dict[str, int] = {}  # jobs whose binds wait for those who leave, and until when
        self._halves: dict[Gang, int] = {}  # gangs of which only a part is bound, and until when they may be
        self._retries: dict[Gang, int] = {}  # when to look at gangs again of which a bind was refused

    @property
    def state(self) -> State:
        """As of the last turn."""
        return self._run.state

    # -- what caches tell ------------------------------------------------------------------------------------

    def hear_node(self, change: Change[objects.Node]) -> None:
        """A node appeared, changed or went."""
        if change.after is None:
            self._lose_node((change.before or objects.Node()).metadata.name)
            return
        self.pools.tally.hear_node(change.after)
        node, before = node_of(change.after, CLUSTER), self._nodes.get(change.after.metadata.name)
        if node == before:
            return
        if before is not None and node.allocatable.get(GPU) < before.allocatable.get(GPU):
            self._lose_node(node.name)  # its pods are counted on devices that are gone: count them anew
            before = None
        self._nodes[node.name] = node
        self.surroundings.has_changed = True
        self.batches.news.append(ev.NodeAdded(node=node))
        if before is None:
            self.batches.news += self._foreign.on(node.name)
            self.register.look_at(self._on.get(node.name, ()))

    def _lose_node(self, name: str) -> None:
        if self._nodes.pop(name, None) is None:
            return
        self.register.look_at(self._on.get(name, ()))
        for member in self._ours_on(name):
            if member.job in self._unsent:
                self._undo(self.batches.by_id[member.job])
            else:
                self.batches.leave(member)
        self.batches.news.append(ev.NodeRemoved(node=name))

    def hear_pod(self, change: Change[Pod]) -> None:
        """A pod appeared, changed or went."""
        pod = change.after or change.before
        assert pod is not None
        is_there = change.after is not None and not pod.is_over
        if pod.spec.scheduler_name in NAMES:
            self._hear_ours(pod, is_there=is_there)
        elif is_there and pod.spec.node_name:
            before = change.before
            if before is None or not before.spec.node_name or looks_different(before, pod):
                self.surroundings.put(pod, pod.spec.node_name)
                held = ask_of(pod).request.resources
                self.batches.news += self._foreign.put(pod.metadata.uid, pod.spec.node_name, held)
                self.pools.tally.put(pod, held, pod.spec.node_name, is_ours=False)
        elif pod.spec.node_name:
            self.surroundings.remove(pod)
            self.batches.news += self._foreign.remove(pod.metadata.uid)
            self.pools.tally.remove(pod)

    def _hear_ours(self, pod: Pod, *, is_there: bool) -> None:
        member = self.register.members.get(pod.metadata.uid)
        if member is not None and pod.spec.node_name not in ("", member.node):
            self._crowding.suspect(pod.spec.node_name)
        if not is_there:
            if member is not None:
                self._forget(member)
            return
        if member is None:
            member = Member(pod, self.surroundings.ask(pod), self.register.groups.gang_of(pod))
            self._stand(member)
            self.register.enter(member)
        elif not asks_for_the_same(member.pod, pod):
            member.ask = self.surroundings.ask(pod)
        before, member.pod = member.pod, pod
        if pod.spec.node_name and pod.spec.node_name != member.node:  # found bound, or bound by somebody else
            self.batches.leave(member)
            self._put_on(member, pod.spec.node_name)
        elif member.node and looks_different(before, pod):
            self.surroundings.put(pod, member.node)
        if member.task is None:
            self.register.dirty[member.gang] = None
        self._count(member)
        self.disruptions.touch(member)

    def _count(self, member: Member) -> None:
        self.pools.tally.put(member.pod, member.ask.request.resources, member.node, is_ours=True)

    def _forget(self, member: Member) -> None:
        self._return(member)
        self.register.leave(member)
        self._stand_no_more(member)
        self.pools.tally.remove(member.pod)

    def _stand(self, member: Member) -> None:
        self.waiting[member.uid] = member
        if minds(member.pod):
            self._minding[member.uid] = member

    def _stand_no_more(self, member: Member) -> None:
        self.waiting.pop(member.uid, None)
        self._minding.pop(member.uid, None)

    # -- what became of orders -------------------------------------------------------------------------------

    def refuse(self, bind: Bind, now_ms: int) -> None:
        """A bind was refused: the pod, if it is still there and not bound, stands in line again, after a while."""
        member = self.register.members.get(bind.uid)
        if member is None or member.node != bind.node or member.pod.spec.node_name:
            return
        member.put_off(now_ms)
        self._return(member)

    def stay(self, eviction: Eviction) -> None:
        """An eviction was refused for too long: the pod stays and counts as ours again, and who waits for its room is
        back in line.
        """
        member = self.register.members.get(eviction.uid)
        if member is None or not member.is_leaving or member.pod.metadata.deletion_timestamp is not None:
            return
        for batch in [self.batches.by_id[job] for job in self._unsent if job in self.batches.by_id]:
            if any(other.node == member.node for other in batch.members.values()):
                self._undo(batch)
        self._stop_leaving(member)
        self.register.dirty[member.gang] = None

    def is_anyone_leaving(self, node: str) -> bool:
        """Whether a pod that we evict is still there."""
        return node in self._leaving

    # -- turns -----------------------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When to take a turn although nothing happened."""
        if self.register.dirty:  # whoever stands behind those that have just started
            return self.plan.now_ms
        moments = [*self._unsent.values(), *self._halves.values(), *self._retries.values()]
        due_ms = self._run.next_moment_ms(NEVER_MS)
        if due_ms is not None and due_ms < NEVER_MS:
            moments.append(due_ms)
        return min(moments, default=None)

    def turn(self, now_ms: int) -> Orders:
        """Take in what happened, decide, and say what is to be done."""
        orders = Orders()
        self.take_turn(now_ms, orders.add)
        return orders

    def take_turn(self, now_ms: int, hand_over: HandOver) -> None:
        """The same in parts: of very many pods the first are handed over before places of the last are written down."""
        orders = Orders()
        over, self.batches.over = self.batches.over, []
        for job in over:
            self._unsent.pop(job, None)
        self.register.dirty.update((gang, None) for gang, due_ms in self._retries.items() if due_ms <= now_ms)
        minding = self.waiting if self.surroundings.concern_everybody else self._minding
        self.register.dirty.update((gang, None) for gang in self.surroundings.ask_again(minding.values()))
        self._arrange_all(now_ms)
        self._give_up(now_ms, orders)
        self._thin_out(now_ms, orders)
        self._arrange_all(now_ms)
        self.batches.news += self.disruptions.news()
        news, self.batches.news = self.batches.news, []
        for event in news:
            self._run.expect(now_ms, event)
        self.plan = self._run.step(now_ms).plan
        for action in self.plan.actions:
            if isinstance(action, Evict):
                self._evict(action, now_ms, orders)
        placed = 0
        for action in self.plan.actions:
            if isinstance(action, Start):
                self._start(action, now_ms)
                placed += len(action.tasks)
            if placed >= HANDED_OVER:
                self._send(orders)
                hand_over(orders)
                orders, placed = Orders(), 0
        self._send(orders)
        hand_over(orders)
        for job in over:
            if job not in self.batches.by_id:
                self.state.jobs.forget(job)

    def _start(self, action: Start, now_ms: int) -> None:
        batch = self.batches.start(action.job, action.tasks)
        members = list(batch.members.values())
        if self.surroundings.refuses(members):
            self._undo(batch)
            return
        for member in members:
            self._put_on(member, member.task.node if member.task else "")
        awaits_volumes = any(member.ask.provisions for member in members)
        self._unsent[action.job] = now_ms + (VOLUMES_MS if awaits_volumes else EVICTION_MS)
        if self.register.are_more_than(batch.gang, len(members)) or batch.gang in self._halves:
            self.register.dirty[batch.gang] = None

    def _send(self, orders: Orders) -> None:
        """Bind those on whose nodes nobody is still leaving, and whose volumes are there."""
        volumes = self.surroundings.provisioning
        for job in list(self._unsent):
            members = self.batches.by_id[job].members.values()
            if any(member.node in self._leaving for member in members):
                continue
            orders.selections += [each for member in members for each in volumes.selections(member)]
            if not any(volumes.missing(member) for member in members):
                del self._unsent[job]
                lender = self.state.lender(job, tuple(member.task for member in members if member.task))
                orders.binds += [Bind(member.uid, member.pod.metadata.key, member.node, lender) for member in members]

    def _give_up(self, now_ms: int, orders: Orders) -> None:
        """Time is up for those who wait for others to leave, and for gangs that could not be completed."""
        for job in [job for job, until_ms in self._unsent.items() if until_ms <= now_ms]:
            self._undo(self.batches.by_id[job])
        self._put_off_without_volumes(now_ms)
        for gang in [gang for gang, until_ms in self._halves.items() if until_ms <= now_ms]:
            del self._halves[gang]
            for member in [each for each in self.register.of(gang) if each.task is not None]:
                self.batches.leave(member)
                self._drive_out(member, "its gang could not be completed in time", now_ms, orders)
            self.register.dirty[gang] = None

    def _put_off_without_volumes(self, now_ms: int) -> None:
        """Whose volumes cannot be made where they go, or were made elsewhere, stand in line again after a while."""
        volumes, reach = self.surroundings.provisioning, self.surroundings.is_out_of_reach
        for batch in [self.batches.by_id[job] for job in self._unsent]:
            awaiting = [member for member in batch.members.values() if member.ask.provisions]
            if any(volumes.is_turned_down(it) or (not volumes.missing(it) and reach(it)) for it in awaiting):
                self._undo(batch)
                for member in awaiting:
                    member.put_off(now_ms)

    def _thin_out(self, now_ms: int, orders: Orders) -> None:
        """Nodes that somebody else put pods on may hold more than they have."""
        going = self._crowding.going(self._nodes, self._foreign.held, self._ours_on)
        for member in list(going):
            self.batches.leave(member)
            self._drive_out(member, f"{member.node} holds more than it has: others bind pods too", now_ms, orders)
            self.register.dirty[member.gang] = None

    def _ours_on(self, node: str) -> list[Member]:
        return [self.register.members[uid] for uid in sorted(self._on.get(node, ()))]

    def _undo(self, batch: Batch) -> None:
        """A start of which nothing was sent did not happen: its pods stand in line again."""
        members = list(batch.members.values())
        self._unsent.pop(batch.job.id, None)
        self.batches.end(batch)
        for member in members:
            self._return(member)

    def _evict(self, action: Evict, now_ms: int, orders: Orders) -> None:
        """The engine put the job into its line again; but its pods will be gone, and others be made in their place."""
        batch = self.batches.by_id[action.job]
        if action.job in self._unsent:
            self._undo(batch)
            return
        members = list(batch.members.values())
        self.batches.end(batch)
        for member in members:
            self._drive_out(member, f"it gives way to {action.by} ({action.rule.value})", now_ms, orders)
            self.register.dirty[member.gang] = None

    def _drive_out(self, member: Member, why: str, now_ms: int, orders: Orders) -> None:
        member.is_leaving = True
        self._leaving.setdefault(member.node, set()).add(member.uid)
        self.batches.news += self._foreign.put(member.uid, member.node, member.ask.request.resources)
        self.disruptions.touch(member)
        orders.evictions.append(Eviction(member.uid, member.pod.metadata.key, why, now_ms + EVICTION_MS))

    def _stop_leaving(self, member: Member) -> None:
        if member.is_leaving:
            member.is_leaving = False
            self._leaving[member.node].discard(member.uid)
            if not self._leaving[member.node]:
                del self._leaving[member.node]
            self.batches.news += self._foreign.remove(member.uid)
            self.disruptions.touch(member)

    def _return(self, member: Member) -> None:
        """A pod has no place any more."""
        self.batches.leave(member)
        self._stop_leaving(member)
        self._put_on(member, "")
        self.register.dirty[member.gang] = None

    def _put_on(self, member: Member, node: str) -> None:
        if member.node:
            self._on[member.node].discard(member.uid)
            if not self._on[member.node]:
                del self._on[member.node]
            self.surroundings.remove(member.pod)
        member.node = node
        if node:
            self._on.setdefault(node, set()).add(member.uid)
            self.surroundings.put(member.pod, node)
            self._stand_no_more(member)
        else:
            self._stand(member)
        self._count(member)
        self.disruptions.touch(member)

    # -- gangs -----------------------------------------------------------------------------------------------

    def _arrange_all(self, now_ms: int) -> None:
        for gang in self.register.take_dirty():
            self._arrange(gang, now_ms)

    def _arrange(self, gang: Gang, now_ms: int) -> None:
        """See to it that the engine's jobs are what the pods of a gang ask for now."""
        self._retries.pop(gang, None)
        members = self.register.of(gang)
        if not members:
            self.batches.line_up(gang, (), Terms())
            self._halves.pop(gang, None)
            return
        terms = self.register.groups.terms_of(gang, members[0].pod)
        placed = [member for member in members if member.node in self._nodes and not member.is_leaving]
        self._adopt(gang, [member for member in placed if member.task is None], terms)
        waiting = [member for member in members if not member.node and member.may_start()]
        how = arranged(terms, len(placed), len(waiting))
        if (hold := self.surroundings.hold(waiting[: how.together])) is not None:
            how = Arranged(hold=hold)
        together, alone = waiting[: how.together], waiting[how.together : how.together + how.alone]
        for member in alone:
            member.is_apart = False
        for member in waiting[how.together + how.alone :]:
            member.hold = how.hold
        units = [Unit((member,)) for member in alone if member.retry_ms <= now_ms]
        if together and all(member.retry_ms <= now_ms for member in together):
            units.append(Unit(together, is_gang=True))
        self.batches.line_up(gang, units, terms)
        late = [member.retry_ms for member in waiting if member.retry_ms > now_ms]
        if late:
            self._retries[gang] = max(late) if together else min(late)
        if is_half(placed, together, terms.least, now_ms):
            self._halves.setdefault(gang, now_ms + terms.timeout_ms)
        else:
            self._halves.pop(gang, None)

    def _adopt(self, gang: Gang, found: Sequence[Member], terms: Terms) -> None:
        if not found:
            return
        self.batches.withdraw(gang)
        first = terms.least if terms.least > 1 else 0
        units = [Unit(found[:first], is_gang=True)] if first else []
        for unit in (*units, *(Unit((member,)) for member in found[first:])):
            self.surroundings.keep_apart(unit.members)
            self.batches.adopt(gang, unit, terms, self._nodes)
        for member in found:
            self.disruptions.touch(member)


def _until_told(_run: Running) -> None:
    """A pod runs until the API server says otherwise."""
