"""Pods that are alike are decided with what was worked out for the one before, and nobody can tell."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.placement.placer import LENGTH, Streak
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.snapshot import Snapshot
from tests.amounts import amount
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, encoded


def life(seed: int) -> bytes:
    """All actions while pods of a few kinds come, others come and go, and nodes change."""
    chance = random.Random(seed)
    cluster = Cluster(*[node(f"n{i}").cpu(chance.choice((4, 8))).label(zone="ab"[i % 2]) for i in range(5)])
    made = 0
    for turn in range(8):
        for _ in range(chance.randint(1, 6)):
            new = pod(f"p{made}").cpu(chance.choice((1, 1, 1, 2))).created(float(made))
            if chance.random() < 0.1:
                new = new.port(80)
            if chance.random() < 0.3:  # with a group, of its own or of several
                name = f"g{made // chance.choice((1, 3))}"
                within = (("zone", True),) if chance.random() < 0.2 else ()
                cluster.show(gang(name).min(chance.choice((1, 1, 2))).field(topology=within))
                new = new.gang(name)
            cluster.show(new)
            made += 1
        for _ in range(chance.randint(0, 4)):
            cluster.step()
        match chance.randint(0, 4):
            case 0:
                cluster.show(pod(f"other{turn}").cpu(1).scheduler("others").on(f"n{chance.randrange(5)}"))
            case 1:
                cluster.delete(chance.choice(sorted(name for _, name in cluster.pods)))
            case 2:
                cluster.show(node(f"n{chance.randrange(5)}").cpu(6).label(zone="a"))
            case 3:
                cluster.show(node(f"late{turn}").cpu(4).label(zone="b"))
        cluster.run()
    return encoded(cluster.log)


@settings(max_examples=amount(40, 15), deadline=None)
@given(st.integers(min_value=0, max_value=10_000))
def test_nobody_can_tell(seed: int) -> None:
    """With and without what is kept from one decision to the next, everything that is done is the same."""
    kept = life(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Streak, "next", lambda *_: None)
        assert life(seed) == kept


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in groups of one"])
def test_it_is_used(monkeypatch: pytest.MonkeyPatch, grouped: bool) -> None:
    """Of pods that are alike, only one in so many asks for a ranking of the nodes; a group for each changes nothing."""
    begun = []
    begin = Streak._begin

    def counted(self: Streak, pod: PodClass, snapshot: Snapshot) -> bool:
        begun.append(pod.ident)
        return begin(self, pod, snapshot)

    monkeypatch.setattr(Streak, "_begin", counted)
    cluster = Cluster(node("a").cpu(200).pods(500), node("b").cpu(200).pods(500))
    names = [f"p{i:03}" for i in range(2 * LENGTH)]
    if grouped:
        cluster.show(*[gang(f"g-{name}").min(1) for name in names])
    cluster.show(*[pod(name).cpu(1).gang(f"g-{name}") if grouped else pod(name).cpu(1) for name in names])
    cluster.run(limit=3 * LENGTH)
    assert all(p.node for p in cluster.pods.values())
    assert len(begun) == 2
