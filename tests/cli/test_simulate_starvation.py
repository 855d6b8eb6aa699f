"""A stream of small pods on the simulated cluster, and a gang that would wait for its end."""

from __future__ import annotations

import pytest

from gangsched.cli.simulation import pods_of, simulate
from gangsched.core.options import Options
from gangsched.model.records import Gang, Node, Pod
from tests.cluster.sim.objects import event, gang, node, pod

BIG_HINTS = {"sim.gangsched.dev/arrive-after": "20s", "sim.gangsched.dev/run-for": "30s"}


@pytest.mark.parametrize(("starvation", "gang_starts_first"), [(0.0, False), (60.0, True)])
def test_a_reservation_ends_the_waiting_for_a_stream(starvation: float, gang_starts_first: bool) -> None:
    """Of two nodes one is always half taken, as long as small pods of the same priority keep coming."""
    records: list[Node | Pod | Gang] = [node("n1", cpu=4), node("n2", cpu=4), gang("big", minimum=2)]
    records += [pod(f"big-{i}", gang="big", cpu=4, hints=BIG_HINTS) for i in range(2)]
    for i in range(100):
        hints = {"sim.gangsched.dev/arrive-after": f"{i * 6}s", "sim.gangsched.dev/run-for": "28s"}
        records.append(pod(f"s{i:03}", cpu=2, hints=hints))
    done = simulate([event(r) for r in records], Options(starvation_seconds=starvation), until_seconds=900)
    bound = {name: found["boundAt"] for name, found in pods_of(done).items()}
    last = max(at for name, at in bound.items() if name.startswith("ns/s") and at is not None)
    assert bound["ns/big-0"] == bound["ns/big-1"]
    assert (bound["ns/big-0"] < last) is gang_starts_first
    if gang_starts_first:
        assert bound["ns/big-0"] <= 20 + starvation + 28 + 10
