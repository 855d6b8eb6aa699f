"""Single pods with a queue are bound the short way where nodes have room, and nobody can tell."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.decision import BIND, Verdict
from gangsched.core.events import Changed
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.placement.placer import Placer
from gangsched.core.planning import cycle
from gangsched.core.planning.cycle import one_of_many
from gangsched.core.quota.assignment import NoQuota, QuotaAssignment
from gangsched.core.world.world import World
from gangsched.model.constraints import Toleration
from gangsched.model.queues import ClusterQueue, ResourceFlavor
from gangsched.model.records import GangId
from tests.amounts import amount
from tests.builders import gang, node
from tests.core.harness import Built, Cluster, encoded
from tests.core.queues import objects, queued
from tests.core.quota.world import flavor, group, own, queue

SPOT = ResourceFlavor("spot", {"tier": "spot"}, tolerations=(Toleration("spot", "Exists"),))
FIRM = ResourceFlavor("firm", {"tier": "firm"})


def rules(chance: random.Random, name: str) -> ClusterQueue:
    """A queue of one cohort with two flavors, in either order."""
    flavors = [flavor(f, cpu=own(chance.choice((0, 2, 4, 8)), chance.choice((None, 2)))) for f in ("spot", "firm")]
    chance.shuffle(flavors)
    reclaim = chance.choice(("Never", "Any"))
    return queue(name, "co", group(*flavors), within=chance.choice(("Never", "LowerPriority")), reclaim=reclaim)


def arrivals(chance: random.Random, number: int) -> list[Built]:
    """A pod, or (seldom) a gang of two; now and then with a wish that the short way is not for."""
    pick, name = chance.choice, f"p{number}"
    cpu, of, priority = pick((1, 1, 1, 2, 4)), pick("ab"), pick((0, 0, 5))
    members = [name] if chance.random() < 0.8 else [f"{name}-0", f"{name}-1"]
    out: list[Built] = [gang(name).min(2)] if len(members) > 1 else []
    for member in members:
        made = queued(member, of, cpu).priority(priority).created(float(number))
        if chance.random() < 0.1:
            made.port(80)
        if chance.random() < 0.1:
            made.selector(tier="firm")
        out.append(made.gang(name) if len(members) > 1 else made)
    return out


def life(seed: int) -> bytes:
    """All actions and decisions while pods come and go and quota and nodes change."""
    chance = random.Random(seed)
    nodes: list[Built] = [node(f"s{i}").cpu(4).label(tier="spot").taint("spot") for i in range(2)]
    nodes += [node(f"f{i}").cpu(chance.choice((4, 8))).label(tier="firm") for i in range(3)]
    cluster = Cluster(*nodes, *objects(SPOT, FIRM, *(rules(chance, q) for q in "ab")))
    for turn in range(8):
        for number in range(chance.randint(1, 5)):
            cluster.show(*arrivals(chance, 10 * turn + number))
        match chance.randrange(4):
            case 0:
                cluster.delete(chance.choice(sorted(name for _, name in cluster.pods)))
            case 1:
                cluster.show(Changed(rules(chance, chance.choice("ab"))))
            case 2:
                cluster.show(node(f"f{chance.randrange(4)}").cpu(6).label(tier="firm"))
        cluster.run()
        if chance.random() < 0.5:
            cluster.leave()
            cluster.pass_time(chance.choice((1.0, 20.0)))
    return encoded(cluster.log) + repr(cluster.decisions).encode()


@settings(max_examples=amount(60, 6), deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_can_tell(seed: int) -> None:
    """With the short way and without it everything that is decided and done is the same."""
    short = life(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycle, "one_of_many", lambda *_: None)
        assert life(seed) == short


def test_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that wants nothing special goes this way, in its flavor; one with a port does not."""
    found: dict[str, Verdict | None] = {}

    def noted(
        world: World, ledger: Ledger, placer: Placer, gangs: Sequence[GangId], gate: QuotaAssignment | NoQuota
    ) -> Verdict | None:
        found[gangs[0].name] = verdict = one_of_many(world, ledger, placer, gangs, gate)
        return verdict

    monkeypatch.setattr(cycle, "one_of_many", noted)
    spot = node("s").cpu(4).label(tier="spot").taint("spot")
    cluster = Cluster(
        node("f").label(tier="firm"), spot, *objects(SPOT, FIRM, queue("a", "", group(flavor("spot", cpu=4))))
    )
    cluster.show(queued("plain", "a"), queued("port", "a").port(80))
    cluster.run()
    plain = found["plain"]
    assert plain is not None
    assert (plain.outcome, [p.node for p in plain.placements]) == (BIND, ["s"])
    assert [d.quota.flavors for d in plain.decisions if d.quota is not None] == [(("cpu", "spot"),)]
    assert found["port"] is None
    assert {p.name: p.node for p in cluster.pods.values()} == {"plain": "s", "port": "s"}
