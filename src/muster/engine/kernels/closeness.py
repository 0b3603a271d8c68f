"""Close groups: the nodes among which their tasks are as close together as can be; those are filled here if few."""

from __future__ import annotations

from muster.engine.kernels.changes import fill_node
from muster.engine.kernels.circles import circle_for
from muster.engine.kernels.fitting import fits
from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import (
    BY_DEVICES,
    BY_RANK,
    BY_ROOM,
    CLUSTER,
    CLUSTERS,
    COLUMNS,
    COUNTS,
    DEVICE_MILLI,
    DEVICES,
    DIMS,
    DOMAIN,
    DOMAIN_FROM,
    DOMAIN_HOPS,
    DOMAIN_PLACE,
    DOMAIN_TO,
    DOMAINS,
    FIRST,
    FREE,
    GPUS,
    HOLDERS,
    HOPS,
    MEMBER_FROM,
    MEMBER_TO,
    MEMBERS,
    MILLI,
    NO_LIMIT,
    NODE,
    NODES,
    RANK_FROM,
    RANK_TO,
    SCRATCH,
    SMALL,
    SUMS,
    TRAIT,
    TRAITS,
    WASTES,
    WHERE,
    WORD,
    WORDS,
    Cells,
)
from muster.engine.kernels.sets import ask_of, includes, lowest_bit, place_of, set_of


@kernel
def closest(
    ground: Cells,
    books: Cells,
    index: Cells,
    circles: Cells,
    trial: Cells,
    group: int,
    cluster: int,
    column: int,
    count: int,
) -> tuple[int, int]:
    """Where tasks are as close together as can be: the smallest hop count, then the tightest set of nodes.

    Either how many nodes those are, if they are few: they are in scratch then; or -1, and where their set is.
    """
    ask, of_cluster = ask_of(ground, group), ground[CLUSTERS] + cluster * CLUSTER
    circle = circle_for(ground, books, circles, trial, group, ground[ask + column], count)
    holder, domain = first_holder(ground, circles, circle, of_cluster), -1
    if holder < 0:
        domain = tightest_domain(ground, circles, circle, of_cluster, ask, count)
        if domain < 0 and ground[ask + HOPS] == NO_LIMIT:
            return -1, place_of(ground, cluster)
        if domain < 0:  # not all are close enough anywhere: most of them, then
            holder, domain = widest(ground, circles, circle, of_cluster, ask)
    if domain < 0:
        trial[trial[SCRATCH] + ground[COLUMNS]] = holder
        return min(1, holder + 1), 0
    at = ground[DOMAINS] + domain * DOMAIN
    if ground[at + MEMBER_TO] - ground[at + MEMBER_FROM] > ground[SMALL]:
        return -1, set_of(ground, ground[at + DOMAIN_PLACE])
    return few_of(ground, books, index, trial, ask, set_of(ground, ground[ask + column]), at), 0


@kernel
def first_holder(ground: Cells, circles: Cells, circle: int, cluster: int) -> int:
    """The first node in order of path that takes all tasks, one without GPUs before others; -1 if there is none."""
    first, last = ground[cluster + RANK_FROM], ground[cluster + RANK_TO]
    for side in range(2):
        holders = circles[circle + HOLDERS] + side * ground[WORDS]
        for at in range(first // WORD, (last + WORD - 1) // WORD):
            word = circles[holders + at]
            if at == first // WORD:
                word = (word >> (first % WORD)) << (first % WORD)
            if word:
                rank = at * WORD + lowest_bit(word)
                if rank < last:
                    return ground[ground[TRAITS] + rank * TRAIT + BY_RANK]
                break
    return -1


@kernel
def tightest_domain(ground: Cells, circles: Cells, circle: int, cluster: int, ask: int, count: int) -> int:
    """Of the domains of fewest hops that take all tasks: not to waste GPUs, then the tightest; -1 if there is none."""
    sums = circles[circle + HOLDERS] + circles[SUMS]
    best, best_hops, best_wastes, best_holds = -1, ground[ask + HOPS], 0, 0
    for domain in range(ground[cluster + DOMAIN_FROM], ground[cluster + DOMAIN_TO]):
        holds = circles[sums + domain]
        if holds < count:
            continue
        at = ground[DOMAINS] + domain * DOMAIN
        if ground[at + DOMAIN_HOPS] > best_hops:
            break
        wastes = 0 if ground[ask + GPUS] else ground[at + WASTES]
        if best < 0 or wastes < best_wastes or (wastes == best_wastes and holds < best_holds):
            best, best_hops, best_wastes, best_holds = domain, ground[at + DOMAIN_HOPS], wastes, holds
    return best


@kernel
def widest(ground: Cells, circles: Cells, circle: int, cluster: int, ask: int) -> tuple[int, int]:
    """The first node, and the first domain that takes more than any before it, in which most tasks are close enough."""
    sums, counts = circles[circle + HOLDERS] + circles[SUMS], circles[circle + HOLDERS] + circles[COUNTS]
    most, node, chosen = 0, -1, -1
    for rank in range(ground[cluster + RANK_FROM], ground[cluster + RANK_TO]):
        one = ground[ground[TRAITS] + rank * TRAIT + BY_RANK]
        if circles[counts + one] > most:
            most, node = circles[counts + one], one
    for domain in range(ground[cluster + DOMAIN_FROM], ground[cluster + DOMAIN_TO]):
        if ground[ground[DOMAINS] + domain * DOMAIN + DOMAIN_HOPS] > ground[ask + HOPS]:
            break
        if circles[sums + domain] > most:
            most, chosen = circles[sums + domain], domain
    return node, chosen


@kernel
def few_of(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, mask: int, domain: int) -> int:
    """Write the nodes of the domain that are in the set and fit, with their tightness, to scratch; how many."""
    keys, few = trial[SCRATCH] + ground[COLUMNS], 0
    for member in range(ground[domain + MEMBER_FROM], ground[domain + MEMBER_TO]):
        node = ground[ground[MEMBERS] + member]
        if includes(ground, mask, node) and fits(ground, books, trial, node, ask):
            trial[keys + few] = tightness(ground, books, index, trial, node, ask) * ground[NODES] + node
            few += 1
    return few


@kernel
def fill_few(ground: Cells, books: Cells, index: Cells, trial: Cells, ask: int, few: int, count: int) -> int:
    """Up to `count` tasks on the few nodes in scratch, tightest first."""
    left, keys = count, trial[SCRATCH] + ground[COLUMNS]
    while left > 0 and few > 0:
        best = keys
        for other in range(keys + 1, keys + few):
            if trial[other] < trial[best]:
                best = other
        node = trial[best] % ground[NODES]
        few -= 1
        trial[best] = trial[keys + few]
        left -= fill_node(ground, books, index, trial, ask, node, left)
    return count - left


@kernel
def tightness(ground: Cells, books: Cells, index: Cells, trial: Cells, node: int, ask: int) -> int:
    """Of nodes on which a task fits, the smaller is the tighter."""
    if ground[ask + GPUS] == 0:
        return index[index[WHERE] + node * NODE + BY_ROOM]
    if ground[ask + MILLI] >= DEVICE_MILLI:
        return index[index[WHERE] + node * NODE + BY_DEVICES]
    least, first = DEVICE_MILLI, trial[FIRST] + node * ground[COLUMNS] + FREE + ground[DIMS]
    for device in range(first, first + ground[DEVICES]):
        if books[device] >= ground[ask + MILLI]:
            least = min(least, books[device])
    return least
