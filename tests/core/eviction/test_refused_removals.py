"""The API server refuses to remove a pod, as an admission policy does: it is no victim for an hour."""

from __future__ import annotations

from itertools import pairwise

from gangsched.core.actions import Action, AskRemoval, Mark, Nominate, Remove
from gangsched.core.agenda import LONGEST_PAUSE_SECONDS
from gangsched.core.events import Outcome
from gangsched.core.state.refused_removals import REFUSED_SECONDS
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, texts

REFUSAL = (Outcome.REFUSED, "policy keep denied the request")


def world(*more: str) -> Cluster:
    """Pods of lower priority fill one node each; a gang of two needs two of them. `keep` may not be removed."""
    names = ["keep", "lose", *more]
    nodes = [node(f"n-{name}").cpu(4) for name in names]
    low = [pod(name).cpu(4).on(f"n-{name}").priority(9 if name in more else 1) for name in names]
    members = [pod(f"m{i}").cpu(4).priority(100).gang("g") for i in range(2)]
    cluster = Cluster(*nodes, *low, gang("g").min(2), *members)
    cluster.judge = lambda action: REFUSAL if _removes(action, "keep") else None
    return cluster


def goes_on(cluster: Cluster, seconds: float) -> None:
    """Time passes, and what terminates is gone by the middle of it."""
    cluster.pass_time(seconds / 2)
    cluster.leave()
    cluster.pass_time(seconds / 2)
    cluster.leave()
    cluster.run()


def _removes(action: Action, name: str) -> bool:
    return isinstance(action, Remove | AskRemoval) and action.pod.name == name


def asked(cluster: Cluster) -> list[str]:
    """The pods of which the removal was asked for, in that order."""
    return [action.pod.name for action in cluster.log if isinstance(action, Remove)]


def test_another_place_is_found_without_it() -> None:
    """The gang takes the next best place, and what has left with the first plan is not lost in vain."""
    cluster = world("other")
    goes_on(cluster, 120)
    assert asked(cluster).count("keep") == 1
    assert sorted(nodes_of(cluster.log).values()) == ["n-lose", "n-other"]


def test_what_is_created_again_is_not_evicted_in_vain() -> None:
    """Without another place the gang waits, says so, and evicts nothing more until an hour is over."""
    cluster = world()
    goes_on(cluster, 120)
    cluster.show(pod("lose-again").cpu(4).on("n-lose").priority(1))
    before = asked(cluster)
    assert sorted(before) == ["keep", "lose"]
    goes_on(cluster, REFUSED_SECONDS - 300)
    assert asked(cluster) == before
    reason, text = texts(cluster.log, "m0")[-1]
    assert reason == "Unschedulable"
    assert "the API server has refused to remove 1 pod (d/keep: policy keep denied the request)" in text
    cluster.judge = lambda _: None
    goes_on(cluster, 900)
    assert {"keep", "lose-again"} <= {*asked(cluster)}
    assert sorted(nodes_of(cluster.log).values()) == ["n-keep", "n-lose"]


def three_nodes() -> Cluster:
    """A node for each of `keep` and `kept`, which a policy keeps, and for `lose`; `first` could only run in the place
    of `keep`, and its removal is refused.
    """
    names = ("keep", "kept", "lose")
    nodes = [node(f"n-{name}").cpu(4).label(of=name) for name in names]
    low = [pod(name).cpu(4).on(f"n-{name}").priority(1) for name in names]
    cluster = Cluster(*nodes, *low, pod("first").cpu(4).priority(100).selector(of="keep"))
    cluster.judge = lambda action: REFUSAL if _removes(action, "keep") or _removes(action, "kept") else None
    goes_on(cluster, 30)
    assert asked(cluster) == ["keep"]
    return cluster


def questions(cluster: Cluster) -> list[str]:
    """The pods of which it was asked whether they could be removed."""
    return sorted(action.pod.name for action in cluster.log if isinstance(action, AskRemoval))


def pair() -> list[Built]:
    """A gang that could only run in the places of `kept` and `lose`."""
    places = [pod(f"m-{of}").cpu(4).priority(100).gang("g").selector(of=of) for of in ("kept", "lose")]
    return [gang("g").min(2), *places]


def test_after_a_refusal_the_victims_of_a_plan_are_asked_for_first() -> None:
    """A plan that cannot be finished writes nothing to any of its victims: dry runs have found that out."""
    cluster = three_nodes()
    assert not questions(cluster)
    cluster.show(*pair())
    goes_on(cluster, 60)
    assert questions(cluster) == ["kept", "lose"]
    assert asked(cluster) == ["keep"]
    assert {action.pod.name for action in cluster.log if isinstance(action, Mark)} == {"keep"}
    assert "the API server has refused to remove 2 pods" in texts(cluster.log, "m-kept")[-1][1]


def test_where_nothing_was_refused_nothing_is_asked() -> None:
    """Victims of another namespace are removed without a question."""
    cluster = three_nodes()
    cluster.show(node("n-more").cpu(4).label(of="more"), pod("more", "e").cpu(4).on("n-more").priority(1))
    cluster.show(pod("second").cpu(4).priority(100).selector(of="more"))
    goes_on(cluster, 60)
    assert asked(cluster) == ["keep", "more"]
    assert not questions(cluster)


def test_those_that_may_go_leave_after_the_question() -> None:
    """A plan all of whose victims may be removed is carried out."""
    cluster = three_nodes()
    cluster.judge = lambda _: None
    cluster.show(*pair())
    goes_on(cluster, 60)
    assert questions(cluster) == ["kept", "lose"]
    assert {"n-kept", "n-lose"} <= {*nodes_of(cluster.log).values()}


def test_a_budget_that_is_used_up_says_nothing_about_the_next_hour() -> None:
    """It is tried again soon."""
    cluster = world()
    cluster.judge = lambda action: (Outcome.BLOCKED, "not now") if _removes(action, "keep") else None
    goes_on(cluster, 60)
    cluster.judge = lambda _: None
    goes_on(cluster, 600)
    assert "n-keep" in nodes_of(cluster.log).values()


def test_a_pod_of_its_name_is_another() -> None:
    """A new decision about a cluster of which nothing was refused takes it."""
    found = plan(node("n").cpu(4), pod("keep").cpu(4).on("n").priority(1), pod("m").cpu(4).priority(9))
    assert found["d/m"].outcome == "preempt"


def test_a_victim_that_may_not_be_marked_is_none_for_an_hour() -> None:
    """A policy refuses the status of pods that run: each of them is tried once, and then the gang waits."""
    cluster = world()
    cluster.judge = lambda action: REFUSAL if isinstance(action, Mark) else None
    goes_on(cluster, 600)
    marks = [action.pod.name for action in cluster.log if isinstance(action, Mark)]
    assert sorted(marks) == ["keep", "lose"]
    assert len([action for action in cluster.log if isinstance(action, Nominate)]) == 2
    assert asked(cluster) == []
    reason, text = texts(cluster.log, "m0")[-1]
    assert reason == "Unschedulable"
    assert "policy keep denied the request" in text
    cluster.judge = lambda _: None
    goes_on(cluster, REFUSED_SECONDS + 900)
    assert sorted(asked(cluster)) == ["keep", "lose"]


def test_a_gang_takes_another_place_if_one_victim_may_not_be_marked() -> None:
    """The mark of one pod is refused: the others of the plan lose theirs, and the next best place is taken."""
    cluster = world("other")
    cluster.judge = lambda action: REFUSAL if isinstance(action, Mark) and action.pod.name == "keep" else None
    goes_on(cluster, 120)
    assert asked(cluster) == ["lose", "other"]
    assert sorted(nodes_of(cluster.log).values()) == ["n-lose", "n-other"]


def test_a_gang_whose_nomination_is_refused_pauses_twice_as_long_each_time() -> None:
    """A policy refuses the status of a member: nobody is evicted, the gang says why, and hardly writes in an hour."""
    cluster = world()
    cluster.judge = lambda action: REFUSAL if isinstance(action, Nominate) and action.pod.name == "m0" else None
    tried = []
    for _ in range(360):
        before = len(cluster.log)
        goes_on(cluster, 10)
        tried += [cluster.now for action in cluster.log[before:] if isinstance(action, Nominate)][:1]
    assert asked(cluster) == []
    gaps = [after - before for before, after in pairwise(tried)]
    assert len(tried) <= 6
    assert gaps == sorted(gaps)
    said = [text for _, text in texts(cluster.log, "m0")]
    assert any("policy keep denied the request" in text for text in said)
    assert any("the nomination of a member was refused" in text for text in said)
    cluster.judge = lambda _: None
    goes_on(cluster, LONGEST_PAUSE_SECONDS + 60)
    assert sorted(asked(cluster)) == ["keep", "lose"]
