"""What has come and gone is forgotten: nothing that is kept grows with what there has been."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from gangsched.core.lifecycle import two_admitters
from gangsched.core.state.membership import Membership
from tests.builders import OURS, PodBuilder, gang, pod
from tests.core.harness import Built, Cluster
from tests.core.quota.world import queue
from tests.core.test_joint import big, objects, queued

#: Heaps keep up to so many entries that no longer count.
_SLACK = 100


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
    """A thousand pods of a kind, a hundred at a time: every table is as large as after the first hundred."""
    monkeypatch.setattr(two_admitters, "_MOST_TOLD", 50)
    quota: list[Built] = objects(queue("a", cpu=4))
    cluster = Cluster(big(), *quota, gang("other").min(1))
    pass_through(cluster, map(KINDS[kind], range(100)))
    before = sizes(cluster.core)
    for start in range(100, 1000, 100):
        pass_through(cluster, map(KINDS[kind], range(start, start + 100)))
    assert len(before) > 50
    grown = {path: size for path, size in sizes(cluster.core).items() if size > before.get(path, 0) + _SLACK}
    assert grown == {}


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
