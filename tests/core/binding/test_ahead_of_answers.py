"""Planning does not wait for writes: what has been asked for counts as done until its answer says otherwise."""

from __future__ import annotations

from gangsched.core.actions import Bind, Nominate
from gangsched.core.decision import BIND
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of, writes


def test_gangs_are_decided_though_no_binding_was_ever_answered() -> None:
    """One gang after another gets its nodes, on the room that the unanswered bindings of the earlier ones leave."""
    members = [pod(f"{name}{i}").cpu(2).gang(name) for name in "abc" for i in range(4)]
    cluster = Cluster(*(node(f"n{i}").cpu(4) for i in range(6)), *(gang(name).min(4) for name in "abc"), *members)
    cluster.slow = lambda _: True
    bound = nodes_of(cluster.run())
    assert [(each.gang.name, each.outcome) for each in cluster.decisions] == [(name, BIND) for name in "abc"]
    assert len(cluster.waiting) == len(bound) == 12
    assert sorted(bound.values()) == [f"n{i}" for i in range(6) for _ in range(2)]


def test_what_waits_for_an_answer_is_not_given_away() -> None:
    """The room of an unanswered binding is taken: a gang that needs it has to wait, and its writes hold up nobody."""
    cluster = Cluster(
        node("n").cpu(4),
        node("m").cpu(2),
        *(gang(name).min(2) for name in "ab"),
        *(pod(f"{name}{i}").cpu(2).gang(name) for name in "ab" for i in range(2)),
    )
    cluster.slow = lambda action: isinstance(action, Bind | Nominate)
    assert len(nodes_of(cluster.run())) == 2
    cluster.show(node("o").cpu(2))
    assert {pod_name for kind, pod_name in writes(cluster.run()) if kind == "Bind"} == {"b0", "b1"}
    assert len(cluster.waiting) == 4
    cluster.answer()
    cluster.run()
    assert sorted(each.node for each in cluster.pods.values()) == ["m", "n", "n", "o"]
