"""Each structure that is kept incrementally is altered by hand, and `verify` names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gangsched.core.events import Changed
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import PodTerm, SpreadConstraint
from gangsched.model.records import Job, Owner, PodSelector
from tests.builders import MADE, bound_claim, node, pod, selects
from tests.core.devices.worlds import DEVICES
from tests.core.harness import Cluster
from tests.core.queues import objects, queued
from tests.core.quota.world import flavor, group, queue
from tests.core.volumes.worlds import LIMITS, csi
from tests.verify import DriftError, Verified, drifts, verify

HOST = "kubernetes.io/hostname"
APART = PodTerm(HOST, selects(app="db"), ("d",))
SPREAD = SpreadConstraint(HOST, 1, selects(app="db"), required=True)


@pytest.fixture
def core() -> Scheduler:
    """A scheduler that knows some of everything, with a plan whose victims are leaving."""
    image = (("registry.test/app:v1", 1000),)
    nodes = [
        msgspec.structs.replace(node(name).cpu(4).label(**{HOST: name}).obj(), images=image) for name in ("n1", "n2")
    ]
    cluster = Cluster(
        *map(Changed, nodes),
        *LIMITS,
        MADE,
        csi("v1"),
        *DEVICES,
        bound_claim("c1", "v1"),
        Changed(PodSelector("Service", "d", "web", selects(app="db"))),
        Changed(Job("d", "job", "uid-Job-job", parallelism=1, completions=1)),
        *objects(queue("a", "co", group(flavor("f", cpu=8)))),
        pod("db-1").cpu(1).label(app="db").shape(anti_affinity=(APART,), spread=(SPREAD,)).claims("c1").on("n1"),
        pod("db-2").cpu(1).label(app="db").shape(anti_affinity=(APART,), spread=(SPREAD,)).terminating().on("n2"),
        pod("with-devices").cpu(0.1).devices("dc1").on("n1"),
        pod("of-job").cpu(1).owner("Job", "job").on("n1"),
        pod("of-set").cpu(99).owner("ReplicaSet", "rs"),
        queued("held", "a", 1).on("n2"),
        queued("waits", "a", 99),
        pod("large").cpu(99).label(app="db").shape(anti_affinity=(APART,), spread=(SPREAD,)),
        pod("victim").cpu(2).priority(-5).on("n2"),
        pod("strong").cpu(2.5).priority(9),
    )
    cluster.run()
    verify(cluster.core)
    assert cluster.core.ledger.condemned.records
    assert any(cluster.core.ledger.awaited.values())
    cluster.core.world.snapshot.devices.in_use()
    cluster.core.world.snapshot.devices.inventory.pools("n1", {})
    return cluster.core


def of_table(core: Scheduler, column: str) -> None:
    """The pod of the Job has another value in this column."""
    table = core.world.snapshot.table
    getattr(table, column)[table.slot_of["uid-d-of-job"]] += 1


def other_key(mapping: dict[Any, Any]) -> None:
    """The first key is another one."""
    mapping["other"] = mapping.pop(next(iter(mapping)))


def first(mapping: Any) -> Any:
    """The first value."""
    return next(iter(mapping.values()))


def hints(core: Scheduler) -> Any:
    """The hint index."""
    return core._run.gangs.unschedulable._for_more


def agenda(core: Scheduler) -> None:
    """What is intended is never looked at again."""
    core.world.agenda.intended.soonest.when = 1e300  # type: ignore[union-attr]


def unread(core: Scheduler) -> None:
    """A timer is over, and its page has no ``on_due``."""
    core.ledger.agenda.page().at("forgotten", core.world.now - 60.0)


ALTERED: dict[str, tuple[str, Callable[[Scheduler], Any]]] = {
    "used": ("node matrix used", lambda c: c.world.snapshot.used.__setitem__((1, 0), 7.0)),
    "allocatable": ("node matrix allocatable", lambda c: c.world.snapshot.allocatable.__setitem__((1, 0), 7.0)),
    "scored": ("node matrix scored", lambda c: c.world.snapshot.scored.__setitem__((0, 0), 7.0)),
    "row": ("rows by name", lambda c: other_key(c.world.snapshot.row_of)),
    "labels": ("node label column", lambda c: c.world.snapshot.columns.label(HOST).codes.fill(0)),
    "flags": ("node column ready", lambda c: c.world.snapshot.columns.flag("ready").fill(0)),
    "vectors": ("shape vector", lambda c: c.world.snapshot._vectors[0][1].fill(5)),
    "priority": ("pod table", lambda c: of_table(c, "priority")),
    "pod flags": ("pod table", lambda c: of_table(c, "flags")),
    "slots": ("pod table free slots", lambda c: c.world.snapshot.table._free.append(0)),
    "pods on": ("pods by node", lambda c: first(c.world.snapshot._pods_on).popitem()),
    "node numbers": ("users of node numbers", lambda c: c.world.snapshot.node_ids._users.__setitem__(0, 99)),
    "carried": ("counts of carried terms", lambda c: first(c.world.snapshot.terms.carried).pods.add(0, 1)),
    "selected": ("counts of selected pods", lambda c: first(c.world.snapshot.terms._selected).live.add(0, 1)),
    "images": ("images by node", lambda c: first(c.world.snapshot.images).add(0, 1)),
    "services": ("services by label", lambda c: c.world.snapshot.selectors._services.clear()),
    "members": ("members of gangs", lambda c: first(c.world.membership.members).clear()),
    "schedulers": ("gangs by scheduler name", lambda c: c.world.membership.of_scheduler.update(["py-gang-scheduler"])),
    "owners": ("pods that wait below owners", lambda c: c.world.ownership._pods.clear()),
    "jobs": ("pods of Jobs", lambda c: c.world.jobs._pods.clear()),
    "names": ("pods by name", lambda c: other_key(c.world.uid_of)),
    "terminating": ("terminating pods", lambda c: c.world.sightings.leaves_by.clear()),
    "claims": ("users of claims", lambda c: c.world.snapshot.volumes.users.clear()),
    "mentions": ("mentions of claims", lambda c: c.world.snapshot.volumes.mentions.clear()),
    "attached": ("attached volumes", lambda c: c.world.snapshot.volumes.attachments.nodes_of.clear()),
    "device claims": ("users of claims for devices", lambda c: c.world.snapshot.devices.users.clear()),
    "reserved claims": ("claims by the pods", lambda c: c.world.snapshot.devices._reserving.clear()),
    "devices in use": ("devices in use", lambda c: c.world.snapshot.devices.in_use().devices.clear()),
    "pools": ("pools of n1", lambda c: c.world.snapshot.devices.inventory._found["n1"][1].clear()),
    "usage": ("quota tree queues", lambda c: first(c.world.managed.quota.tree.queues).usage.__setitem__(0, 1)),
    "holders": ("holders of quota", lambda c: c.world.managed.quota.holders.by_uid.clear()),
    "sums": ("sums by ClusterQueue", lambda c: setattr(first(c.world.managed.tally.queues), "pending", 9)),
    "pending": ("workloads that wait, by queue", lambda c: c.world.managed._pending.clear()),
    "parked": ("gangs without a time", lambda c: c._run.queue._due._entries.clear()),
    "asleep": ("gangs by signature", lambda c: first(c._run.gangs.unschedulable._alike).asleep.append((0, 0.0, "x"))),
    "hint rows": ("hint index rows", lambda c: hints(c).asks.fill(0)),
    "hint selections": ("hint index selections", lambda c: hints(c).selecting.add("other", 0)),
    "agenda": ("the next time of the agenda", agenda),
    "unread": ("timers of page", unread),
    "kept room": ("kept room by node", lambda c: c.ledger._holders_on.clear()),
    "awaited": ("pods that groups wait for", lambda c: c.ledger.awaited.clear()),
    "suspends": ("pods of Jobs that are suspended", lambda c: c.ledger.condemned.suspends.update(["x"])),
    "evictions": ("owners without an eviction", lambda c: c.ledger.condemned.evictions.clear()),
    "holds": ("holds by node", lambda c: c._run.gangs.holding._on.update(n9={"x"})),
    "held nodes": ("held nodes without a plan", lambda c: c.ledger.held.update(n9="x")),
}


@pytest.mark.parametrize("name", ALTERED)
def test_what_has_drifted_is_named(core: Scheduler, name: str) -> None:
    """Whatever structure is altered, the report begins with its name."""
    said, alter = ALTERED[name]
    alter(core)
    assert any(text.startswith(said) for text in drifts(core)), drifts(core)


def test_a_drift_ends_the_run() -> None:
    """At the batch after which it is found."""
    core = Verified(Options())
    core.handle([Changed(node("n").cpu(4).obj())], 0.0)
    core.world.snapshot.align_rows()
    core.world.snapshot.used[1, 0] = 1
    with pytest.raises(DriftError, match="node matrix used"):
        core.handle([*Cluster(node("m").cpu(4))._events], 1.0)


def test_census_and_owner(core: Scheduler) -> None:
    """What is kept of one gang is compared, too."""
    census = core.world.membership.census(core.world.pods["uid-d-of-job"].gang)
    census.running += 1
    assert [text.partition(":")[0] for text in drifts(core)] == ["census of d/of-job"]
    assert Owner("Job", "job", "uid-Job-job") == core.world.pods["uid-d-of-job"].owner
