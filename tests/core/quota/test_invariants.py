"""What must hold for any queues, policies and workloads."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gangsched.core.quota.flavors import Mode
from gangsched.core.quota.preemption import ClassicRules, Need, VictimSearch, holders_of
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.workloads import Workload
from tests.amounts import amount
from tests.core.quota.naive import Naive
from tests.core.quota.random_worlds import SEEDS, asks, fill, objects, world
from tests.core.quota.world import cluster_of, has_room

either = pytest.mark.parametrize("fair", [False, True], ids=["classic", "fair"])
many = settings(max_examples=amount(200, 30), deadline=None)


def state(quota: Quota) -> list[object]:
    """All usage, and who holds it."""
    tree = quota.tree
    return [[n.usage for n in (*tree.queues.values(), *tree.cohorts.values())], sorted(quota.holders.by_uid)]


def copy_of(quota: Quota, order: list[str] | None = None) -> Quota:
    """The same objects and admissions, put in another order."""
    out = Quota(quota.fair_sharing)
    backwards = order is not None
    for _, queue in sorted(quota.queues.items(), reverse=backwards):
        out.put(queue)
    for _, cohort in sorted(quota.cohorts.items(), reverse=backwards):
        out.put(cohort)
    for _, flavor in sorted(quota.flavors.items(), reverse=backwards):
        out.put(flavor)
    for uid in order if order is not None else sorted(quota.admissions):
        out.admit(quota.admissions[uid])
    return out


def victims_of(quota: Quota, wants: Workload) -> dict[str, str]:
    """Reasons by UID of those who would have to go for quota."""
    assignment = quota.assign(wants)
    if not assignment.mode.needs_preemption:
        return {}
    found = holders_of(quota.victims(wants, assignment))
    return {h.admission.workload.uid: reason for h, reason in found}


@given(SEEDS)
def test_the_tree_is_what_the_definitions_say(seed):
    """Quota, usage and what is available equal sums over the workloads, for every queue and cohort."""
    quota, _ = world(seed)
    naive = Naive(quota)
    empty = Naive(quota)
    empty.present.clear()
    for prefix, nodes in (("q:", quota.tree.queues), ("c:", quota.tree.cohorts)):
        for name, node in nodes.items():
            for cell, i in quota.tree.cells.items():
                assert node.subtree[i] == naive.subtree(prefix + name, cell)
                assert node.local[i] == naive.local(prefix + name, cell)
                assert node.usage[i] == naive.usage(prefix + name, cell)
                assert node.available(i) == naive.available(prefix + name, cell)
                assert node.potential[i] == empty.available(prefix + name, cell)


@settings(max_examples=amount(500, 80))
@given(SEEDS, st.sampled_from(("x", "y")))
def test_victims_are_those_of_the_rules(seed, flavor):
    """The lazy search chooses the same victims with the same reasons as the rules told at length."""
    quota, wants = world(seed)
    tree = quota.tree
    amounts = tuple(((flavor, r), n) for r, n in wants.pod_sets[0].requests({}).items() if (flavor, r) in tree.cells)
    indexed = tuple(tree.indexed(amounts))
    node = tree.queues[wants.queue]
    need = frozenset(c for c, n in indexed if n > node.available(c))
    if not need:
        event("fits")
        return
    rules = ClassicRules(quota.holders, quota.queues[wants.queue], Need(wants, indexed, need))
    found = holders_of(VictimSearch(rules).run())
    expected = Naive(quota).victims(wants, amounts, {tree.names[c] for c in need})
    event(f"{len(expected)} victims, {'/'.join(sorted(set(expected.values())))}")
    assert {h.admission.workload.uid: reason for h, reason in found} == expected


@either
@given(SEEDS)
def test_asking_changes_nothing(fair, seed):
    """All questions leave usage and holders as they were."""
    quota, wants = world(seed, fair)
    before = state(quota)
    assignment = quota.assign(wants)
    victims_of(quota, wants)
    eligible = quota.eligible(wants, assignment)
    has_room(quota, wants, assignment, eligible)
    assert state(quota) == before


@either
@many
@given(SEEDS)
def test_victims_make_room_and_none_could_be_put_back(fair, seed):
    """With the victims gone the workload fits; with any one of them back it does not."""
    quota, wants = world(seed, fair)
    assignment = quota.assign(wants)
    victims = [*victims_of(quota, wants)]
    event(f"{len(victims)} victims")
    if not victims:
        return
    assert has_room(quota, wants, assignment, victims)
    node = quota.tree.queues[wants.queue]
    for back in victims:
        if has_room(quota, wants, assignment, [v for v in victims if v != back]):
            # Without a right to borrow at the expense of others it has to end within nominal quota as well.
            assert not fair
            mine = [a for uid, a in quota.admissions.items() if a.workload.queue == wants.queue and uid not in victims]
            left = [*mine, quota.admissions[back]] if quota.admissions[back].workload.queue == wants.queue else mine
            used = {cell: sum(dict(a.usage).get(cell, 0) for a in left) for cell, _ in assignment.usage}
            assert any(used[c] + n > node.nominal[quota.tree.cells[c]] for c, n in assignment.usage)


@many
@given(SEEDS)
def test_victims_are_eligible(seed):
    """Each for the reason for which it is taken."""
    quota, wants = world(seed)
    victims = victims_of(quota, wants)
    event(f"{len(victims)} victims")
    assert victims.items() <= quota.eligible(wants, quota.assign(wants)).items()


@either
@given(SEEDS)
def test_the_order_in_which_things_came_does_not_matter(fair, seed):
    """Objects and admissions in any order give the same tree, flavors and victims."""
    quota, wants = world(seed, fair)
    order = sorted(quota.admissions)
    Random(seed).shuffle(order)
    other = copy_of(quota, order)
    assert state(other) == state(quota)
    assignment = quota.assign(wants)
    assert other.assign(wants) == assignment
    assert [*victims_of(other, wants).items()] == [*victims_of(quota, wants).items()]


@given(SEEDS)
def test_coming_and_going_leaves_no_trace(seed):
    """Usage after releases is that of a quota in which the released never were."""
    quota, _ = world(seed)
    chance = Random(seed)
    for uid in sorted(quota.admissions):
        if chance.random() < 0.5:
            quota.release(uid)
        elif chance.random() < 0.5:
            quota.admit(msgspec.structs.replace(quota.admissions[uid], evicted=True))
    assert state(quota) == state(copy_of(quota))


@either
@settings(max_examples=amount(25, 10), deadline=None)
@given(SEEDS)
def test_limits_are_never_exceeded(fair, seed):
    """Whatever comes and goes, nobody is above a limit that the objects have once the victims have left."""
    chance = Random(seed)
    made = cluster_of(objects(chance, fair))
    for number in range(4):
        queues = [name for name in sorted(made.quota.queues) for _ in range(2) if chance.random() < 0.8]
        made.turns(*(asks(chance, f"w{number}-{i}", name) for i, name in enumerate(queues)))
        for _ in range(20):
            if all(p.live for p in made.cluster.pods.values()):
                break
            made.cluster.leave()
            for _, outcome, victims in made.rest():
                event(f"{outcome}, {len(victims)} victims")
        limits_hold(made.quota)
        made.ends(*(name for name in sorted(made.running()) if chance.random() < 0.3))


def limits_hold(quota: Quota) -> None:
    """No tree uses more than it has, no node borrows more than its limit or keeps others out of what is theirs."""
    for node in (*quota.tree.queues.values(), *quota.tree.cohorts.values()):
        for cell in quota.tree.cells.values():
            limit = node.borrowing[cell]
            if node.parent is None:
                assert node.usage[cell] <= node.subtree[cell]
            elif limit is not None:
                assert node.usage[cell] <= node.subtree[cell] + limit
            # What a node does not lend is there for it, whatever others use.
            assert node.available(cell) >= node.local[cell] - node.usage[cell]


@settings(max_examples=amount(500, 80))
@given(SEEDS)
def test_a_lender_gets_its_own_back(seed):
    """A queue that may reclaim from anybody gets a request within its nominal quota, whatever others borrow; and nobody
    who was within its own nominal quota loses anything for it.
    """
    chance = Random(seed)
    quota = objects(chance)
    for _ in range(3):
        fill(chance, quota)
    name = chance.choice(sorted(quota.queues))
    spec = quota.queues[name]
    # The rule is one of flat cohorts: with a lending limit, or quota that a cohort took away, nobody need be borrowing.
    flat = all(not c.parent for c in quota.cohorts.values())
    spec = msgspec.structs.replace(spec, preemption=msgspec.structs.replace(spec.preemption, reclaim="Any"))
    quota.put(spec)
    tree, node = quota.tree, quota.tree.queues[name]
    flavor = spec.groups[0].flavors[0].flavor
    own = [(tree.cells[flavor, r], n) for r in "ab" if (n := room(node, tree.cells[flavor, r])) > 0]
    need = frozenset(c for c, n in own if n > node.available(c))
    if not need or not flat:
        event("nothing to reclaim")
        return
    event("reclaims")
    wants = asks(chance, "asks", name)
    owned = {n: [n.usage[c] <= n.nominal[c] for c in need] for n in tree.queues.values()}
    targets = VictimSearch(ClassicRules(quota.holders, spec, Need(wants, tuple(own), need))).run()
    assert targets
    for holder, reason in holders_of(targets):
        if holder.node is not node:
            assert not all(owned[holder.node])
            assert reason in ("InCohortReclamation", "InCohortReclaimWhileBorrowing")


def room(node, cell):
    """What a queue does not use of its nominal quota."""
    return node.nominal[cell] - node.usage[cell]


@given(SEEDS)
def test_admission_is_refused_only_for_a_reason(seed):
    """A workload without flavors says why; one with flavors that fit says nothing."""
    quota, wants = world(seed)
    found = quota.assign(wants)
    assert bool(found.message) == (found.mode is not Mode.FIT)
    if found.mode is Mode.FIT:
        assert has_room(quota, wants, found)
