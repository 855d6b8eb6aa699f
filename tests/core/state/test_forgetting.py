"""What has come and gone is forgotten: nothing that is kept grows with what there has been."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from gangsched.core.actions import Remove, Report
from gangsched.core.events import Changed, Gone, LeadershipChanged, ObjectRefused
from gangsched.core.lifecycle import conditions
from gangsched.core.state.membership import Membership
from gangsched.model.constraints import Labels
from gangsched.model.records import Budget
from tests.amounts import amount
from tests.builders import OURS, PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster
from tests.core.queues import big, objects, queued
from tests.core.quota.world import queue

#: Heaps keep up to so many entries that no longer count.
_SLACK = 100
#: Of a kind; one entry that each leaves behind is more than the slack.
PODS = amount(1000, 400)


def sizes(root: object) -> dict[str, int]:
    """How much each table of an object of the core holds, and those of the objects that it has; by path."""
    out: dict[str, int] = {}
    seen: set[int] = set()
    left = [("", root)]
    while left:
        path, each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict | set | list):
            out[path] = len(each)
        elif type(each).__module__.startswith("gangsched.core"):
            left += [(f"{path}.{name}", value) for name, value in getattr(each, "__dict__", {}).items()]
    return out


def pass_through(cluster: Cluster, pods: Iterable[PodBuilder]) -> None:
    """These pods come, are decided, and go."""
    made = [p.obj() for p in pods]
    cluster.show(*made)
    cluster.run(limit=10 * len(made) + 100)
    for each in made:
        cluster.delete(each.name)
    cluster.pass_time(1)


KINDS: dict[str, Callable[[int], PodBuilder]] = {
    "single pods": lambda i: pod(f"p{i}").cpu(0.01),
    "too large": lambda i: pod(f"p{i}").cpu(1000),
    "with a queue": lambda i: queued(f"p{i}", "a", 0.001),
    "short of quota": lambda i: queued(f"p{i}", "a", 50),
    "gangs of one": lambda i: pod(f"p{i}").cpu(0.01).light_gang(f"g{i}", 1),
    "gangs that are never whole": lambda i: pod(f"p{i}").cpu(0.01).light_gang(f"g{i}", 2),
    "of Kueue": lambda i: queued(f"p{i}", "a", 1).gated("kueue.x-k8s.io/admission"),
    "of others": lambda i: pod(f"p{i}").cpu(0.01).scheduler("default-scheduler"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_pods_that_come_and_go_leave_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of pods of a kind, a hundred at a time: every table is as large as after the first hundred."""
    monkeypatch.setattr(conditions, "_MOST_TOLD", 50)
    quota: list[Built] = objects(queue("a", cpu=4))
    cluster = Cluster(big(), *quota, gang("other").min(1))
    pass_through(cluster, map(KINDS[kind], range(100)))
    before = sizes(cluster.core)
    for start in range(100, PODS, 100):
        pass_through(cluster, map(KINDS[kind], range(start, start + 100)))
    assert len(before) > 50
    grown = {path: size for path, size in sizes(cluster.core).items() if size > before.get(path, 0) + _SLACK}
    assert grown == {}


_CHANGED: Labels = {"changed": "yes"}


def come_and_go(cluster: Cluster, pods: Iterable[PodBuilder], nodes: Iterable[str]) -> None:
    """What a standby sees of pods that another process binds, and of nodes that come and go."""
    for builder, name in zip(pods, nodes, strict=True):
        made = builder.obj()
        cluster.handle(node(name), made, Changed(Budget("d", "b", None, allowed=1)))
        running = msgspec.structs.replace(made, node="big", phase="Running", scheduled_condition=None)
        cluster.handle(running)
        cluster.handle(msgspec.structs.replace(running, labels=_CHANGED))
        cluster.handle(msgspec.structs.replace(running, deleting_since=9.0))
        cluster.handle(Gone("Pod", "d", made.name, made.uid), Gone("Node", "", name))


@pytest.mark.parametrize("kind", KINDS)
def test_a_standby_keeps_nothing_of_what_has_come_and_gone(kind: str) -> None:
    """A process that does not lead observes: its tables are as large after hundreds of pods as after one hundred."""
    quota: list[Built] = objects(queue("a", cpu=4))
    cluster = Cluster(big(), *quota, gang("other").min(1), wait_for_leadership=True)
    cluster.handle()
    come_and_go(cluster, map(KINDS[kind], range(100)), (f"extra{i}" for i in range(100)))
    before = sizes(cluster.core)
    more = range(100, PODS)
    come_and_go(cluster, map(KINDS[kind], more), (f"extra{i}" for i in more))
    slack = {path: _SLACK for path in before if path.endswith(".heap")}
    after = sizes(cluster.core)
    grown = {path: size for path, size in after.items() if size > before.get(path, 0) + slack.get(path, 0)}
    assert grown == {}


def test_objects_that_a_standby_cannot_read_are_few() -> None:
    """It is said once of each when it leads; of very many in the meantime, of the latest."""
    cluster = Cluster(node("n1"), wait_for_leadership=True)
    for i in range(25_000):
        cluster.core.handle([ObjectRefused("PodGroup", "d", f"g{i}", f"uid{i}", "spec", "no")], 0.0)
    assert max(sizes(cluster.core.world.membership).values()) == 25_000  # as many as there are
    said = [a for a in cluster.handle(LeadershipChanged(True)) if isinstance(a, Report) and a.reason == "InvalidObject"]
    assert 0 < len(said) <= 20_000


def test_leadership_that_comes_and_goes_leaves_nothing() -> None:
    """Lost and won a hundred times while a plan is under way, nothing is remembered that was not the first time."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).priority(1).on("n1"), pod("m").cpu(4).priority(5))
    cluster.slow = lambda write: isinstance(write, Remove)
    seen = []
    for _ in range(100):
        cluster.run()
        assert cluster.core.ledger.holders()
        cluster.handle(LeadershipChanged(False))
        seen.append(sizes(cluster.core))
        ledger = cluster.core.ledger
        assert ledger.agenda.next() is None
        assert [path for path, size in sizes(ledger).items() if size] == [".agenda._pages"]  # each of them is empty
        cluster.waiting.clear()
        cluster.show(LeadershipChanged(True))
    assert seen[1:] == seen[:1] * 99


def test_a_question_about_a_pod_that_is_gone_leaves_nothing() -> None:
    """It is asked about once more when it is gone: what it was is not kept, nor that it is not known."""
    known = Membership([OURS])
    for i in range(1000):
        each = pod(f"p{i}").obj()
        known.set_pod(each)
        assert known.spec(each.gang) is not None
        known.drop_pod(each)
        assert known.group(each.gang) == ((each.gang,), "")
    assert not any(table for table in vars(known).values() if isinstance(table, dict))
