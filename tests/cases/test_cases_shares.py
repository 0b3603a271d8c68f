"""cases.md 1.1, 2.1, 2.2 and PR-5: quantities, what a job weighs, and the two shares of a queue."""

from __future__ import annotations

import pytest
from story import job, story, world

from muster.model.resources import Resources, Weights
from muster.sim.scenario.loader import parse

# --- quantities ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "amounts, base_units",
    [
        pytest.param(
            "{cpu: 1k, memory: 100Mi, gpu: 10}",
            {"cpu": 1_000_000, "memory": 104_857_600, "nvidia.com/gpu": 10_000, "pods": 1},
            id="EDL-Q1 millicores, exact bytes instead of 105 mega, and devices",
        )
    ],
)
def test_quantities_are_exact(amounts, base_units):
    fields = amounts.strip("{}")

    (submitted,) = parse(f"jobs: [{{name: a, queue: q, {fields}}}]").jobs

    assert dict(submitted.job.profile.least.items()) == base_units


# --- usage in place of a dominant share ---------------------------------------------------------

BAR_IS_HALF = {"x.org/foo": 1, "x.org/bar": 0.5}


@pytest.mark.parametrize(
    "allocation, weights, queue_weight, usage_per_weight",
    [
        # foo 1 and bar 2 are the totals: weights of 1 and 1/2 count both as fractions, as the original does.
        pytest.param((500, 0, 0), BAR_IS_HALF, 1, 500, id="DRF-1 one resource counts its amount"),
        pytest.param((0, 500, 0), BAR_IS_HALF, 1, 250, id="DRF-2 the more there is of it, the less it should weigh"),
        pytest.param((500, 1100, 0), BAR_IS_HALF, 1, 1050, id="DRF-3 two resources add up, none dominates"),
        pytest.param((500, 0, 3000), BAR_IS_HALF, 1, 500, id="DRF-4 a resource without a weight is not considered"),
        pytest.param((500, 2000, 0), BAR_IS_HALF, 1, 1500, id="DRF-5 capacity does not matter, only the weight does"),
        pytest.param((500, 0, 0), BAR_IS_HALF, 2, 250, id="DRF-6 twice the weight halves what counts"),
        pytest.param((500, 1100, 0), {"x.org/foo": 4, "x.org/bar": 0.5}, 1, 2550, id="DRF-7 a multiplier is a weight"),
        pytest.param((500, 2000, 0), {"x.org/foo": 1, "x.org/bar": 0.25}, 1, 1000, id="DRF-8 a smaller one too"),
    ],
)
def test_usage_adds_up_where_drf_takes_the_largest(allocation, weights, queue_weight, usage_per_weight):
    """Allocations and outcomes in thousandths, because extended resources come whole."""
    held = Resources.of(dict(zip(("x.org/foo", "x.org/bar", "x.org/baz"), allocation, strict=True)))

    usage = Weights.of(weights).usage(held)

    assert usage / queue_weight == usage_per_weight * 1_000_000


# --- the two shares -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cpus, queues, nominal, entitled",
    [
        pytest.param(100, {"A": (1, 1000)}, [1], [1], id="FS-1 alone and greedy"),
        pytest.param(100, {"A": (1, 1)}, [1], [0.01], id="FS-2 alone and modest"),
        pytest.param(100, {"A": (1, 1000), "B": (1, 1000)}, [0.5, 0.5], [0.5, 0.5], id="FS-3 two greedy ones halve it"),
        pytest.param(100, {"A": (1, 1), "B": (1, 1)}, [0.5, 0.5], [0.01, 0.01], id="FS-4 two modest ones get it all"),
        pytest.param(
            100, {"A": (1, 1), "B": (1, 1000)}, [0.5, 0.5], [0.01, 0.99], id="FS-5 what one leaves the other may hold"
        ),
        pytest.param(100, {"A": (1, 1000), "B": (3, 1000)}, [0.25, 0.75], [0.25, 0.75], id="FS-6 shares go by weight"),
        pytest.param(
            100, {"A": (1, 1), "B": (3, 1000)}, [0.25, 0.75], [0.01, 0.99], id="FS-7 a modest one of little weight"
        ),
        pytest.param(
            100, {"A": (1, 0), "B": (1, 0), "C": (1, 0)}, [1 / 3] * 3, [0, 0, 0], id="FS-10 nobody wants anything"
        ),
    ],
)
def test_shares_of_100_cpus(cpus, queues, nominal, entitled):
    found = story(a_fleet(cpus, queues)).shares(at=0)

    assert [found.nominal[name] / found.usage for name in queues] == pytest.approx(nominal)
    assert [found.entitled[name] / found.usage for name in queues] == pytest.approx(entitled)


@pytest.mark.parametrize(
    "queues",
    [pytest.param({"A": (1, 10), "B": (1, 10), "C": (1, 10)}, id="FS-11 without capacity both shares are nothing")],
)
def test_shares_of_nothing_are_nothing(queues):
    told = story(a_fleet(0, queues))
    found = told.shares(at=0)

    assert (found.usage, found.divisor) == (0, 3_000_000)
    assert set(found.nominal.values()) == set(found.entitled.values()) == {0}
    assert {told.reason(f"{name}-0".lower()) for name in queues} == {"NO_NODES"}


def a_fleet(cpus, queues):
    """One node of so many CPUs; each queue of (weight, demand in CPUs)."""
    return world(
        nodes=[{"name": "n", "cpu": cpus}] if cpus else [],
        queues=[{"name": name, "weight": weight} for name, (weight, _) in queues.items()],
        jobs=[
            job(name.lower(), name, count=-(-demand // 10), cpu=min(demand, 10), lifetime=0)
            for name, (_, demand) in queues.items()
            if demand
        ],
        events=[{"at": 0, "setQueue": {"name": "A", "weight": queues["A"][0]}}],
        until=0,
    )


@pytest.mark.parametrize(
    "foreign, cpus, each",
    [
        pytest.param(0, 20, 10, id="PR-5 without foreign pods all 20 CPUs are divided"),
        pytest.param(5, 15, 7.5, id="PR-5 foreign pods take 5 of 20 CPUs away before shares are worked out"),
    ],
)
def test_shares_are_computed_beside_foreign_pods(foreign, cpus, each):
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 20}],
            jobs=[job("a", "A", count=20, cpu=1), job("b", "B", count=20, cpu=1)],
            events=[{"at": 0, "foreign": {"node": "n", "cpu": foreign}}],
            until=0,
        )
    )
    found = told.shares(at=0)

    assert found.capacity.get("cpu") == cpus * 1000
    assert {share / 1_000_000 for share in found.entitled.values()} == {each}
    assert {share / 1_000_000 for share in found.nominal.values()} == {each}
