"""Which pods belong together, for spreading them by default."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.events import Changed, Gone
from gangsched.core.plugins.topology_spread import DEFAULTS, SpreadDefaults, constraints_of
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.termcounts import SelectorIndex
from gangsched.model.constraints import LabelSelector, Requirement, SpreadConstraint
from gangsched.model.records import Owner, Pod, PodSelector
from tests.builders import PodBuilder, pod, selects
from tests.core.harness import world


def service(name: str, namespace: str = "d", **labels: str) -> PodSelector:
    """A Service."""
    return PodSelector("Service", namespace, name, selects(**labels) if labels else None)


def of(builder: PodBuilder, kind: str, name: str = "o") -> Pod:
    """A pod that such a controller owns."""
    return msgspec.structs.replace(builder.obj(), owner=Owner(kind, name, "uid"))


HASH = PodSelector("ReplicaSet", "d", "o", selects(app="x", hash="h"))
ODD = PodSelector("StatefulSet", "d", "o", LabelSelector((Requirement("tier", "Exists"),)))
RC = PodSelector("ReplicationController", "d", "o", selects(app="x"))
X = pod("p").label(app="x", hash="h", tier="t")


@pytest.mark.parametrize(
    ("known", "asked", "expected"),
    [
        ([], X.obj(), None),
        ([service("s", app="x")], X.obj(), selects(app="x")),
        ([service("s", app="y")], X.obj(), None),
        ([service("s", app="x", tier="u")], X.obj(), None),
        ([service("s", namespace="e", app="x")], X.obj(), None),
        ([service("s")], X.obj(), None),
        ([service("s", app="x"), service("t", tier="t"), service("u", app="z")], X.obj(), selects(app="x", tier="t")),
        ([HASH], of(X, "ReplicaSet"), selects(app="x", hash="h")),
        ([HASH], of(X, "ReplicaSet", "other"), None),
        ([HASH], of(X, "StatefulSet"), None),
        ([HASH], X.obj(), None),
        ([RC], of(X, "ReplicationController"), selects(app="x")),
        ([PodSelector("Job", "d", "o", selects(app="x"))], of(X, "Job"), None),
        ([service("s", app="x"), HASH], of(X, "ReplicaSet"), selects(app="x", hash="h")),
        (
            [service("s", app="x"), ODD],
            of(X, "StatefulSet"),
            LabelSelector((Requirement("app", "In", ("x",)), Requirement("tier", "Exists"))),
        ),
    ],
)
def test_selector_of_a_pod(known: list[PodSelector], asked: Pod, expected: LabelSelector | None) -> None:
    """Labels of all Services that select the pod, and the selector of the controller that owns it."""
    index = SelectorIndex()
    for each in known:
        index.set(each)
    assert index.selector_of(asked) == expected
    assert index.selector_of(asked) is index.selector_of(asked)


def test_objects_that_change_and_go_change_the_answer() -> None:
    """And only then: most changes of such objects are to their status."""
    index = SelectorIndex()
    asked = of(X, "ReplicaSet")
    assert index.set(service("s", app="x"))
    assert not index.set(service("s", app="x"))
    assert index.selector_of(asked) == selects(app="x")
    assert index.set(HASH)
    assert index.selector_of(asked) == selects(app="x", hash="h")
    assert index.set(service("s", tier="t"))
    assert index.selector_of(asked) == selects(app="x", hash="h", tier="t")
    assert index.remove("Service", "d", "s")
    assert not index.remove("Service", "d", "s")
    assert index.remove("ReplicaSet", "d", "o")
    assert index.selector_of(asked) is None


def class_of(known: list[PodSelector], asked: Pod) -> PodClass:
    """The class of a pod in a cluster with these objects."""
    core = world(*(Changed(k) for k in known))
    return core.world.snapshot.class_of(asked)


def test_only_pending_pods_without_constraints_have_a_default_selector() -> None:
    """For all others it would be computed for nothing, and make classes of pods that are alike."""
    assert class_of([service("s", app="x")], X.obj()).spread_selector == selects(app="x")
    assert class_of([service("s", app="x")], pod("q").label(app="x").on("n1").obj()).spread_selector is None
    own = pod("q").label(app="x").shape(spread=(SpreadConstraint("zone", 1, selects(app="x"), True),))
    assert class_of([service("s", app="x")], own.obj()).spread_selector is None


def test_pods_of_different_services_are_of_different_classes() -> None:
    """They are spread over different pods; those of one Service are alike."""
    core = world(Changed(service("s", app="x")), Changed(service("t", app="y")))
    snapshot = core.world.snapshot
    idents = [snapshot.class_of(pod(n).label(app=a, index=n).obj()).ident for n, a in ("1x", "2x", "3y", "4z", "5w")]
    assert idents[0] == idents[1] != idents[2]
    core.handle([Gone("Service", "d", "s")], 1.0)
    assert snapshot.class_of(pod("6").label(app="x").obj()).spread_selector is None


def test_constraints_of_a_class() -> None:
    """Its own, hard or soft; else the defaults over its selector; else none."""
    soft, hard = SpreadConstraint("a", 1, None, False), SpreadConstraint("b", 1, None, True)
    plain = class_of([service("s", app="x")], X.obj())
    listed = SpreadDefaults("List", (soft, hard))
    (found,) = constraints_of(plain, listed, required=True)
    assert (found.topology_key, found.selector) == ("b", selects(app="x"))
    assert [c.topology_key for c in constraints_of(plain, listed, required=False)] == ["a"]
    assert constraints_of(plain, DEFAULTS, required=True) == ()
    assert [c.max_skew for c in constraints_of(plain, DEFAULTS, required=False)] == [3, 5]
    own = class_of([service("s", app="x")], X.shape(spread=(hard,)).obj())
    assert constraints_of(own, listed, required=True) == (hard,)
    assert constraints_of(own, listed, required=False) == ()
    assert constraints_of(class_of([], pod("q").obj()), listed, required=True) == ()
