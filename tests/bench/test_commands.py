"""What the commands measure with: bounds, the other schedulers' rules, tables. Nothing here looks at a clock."""

import msgspec
import pytest

from gangsched.core.decision import BIND, PREEMPT
from gangsched.core.planning.context import Question
from gangsched.model.records import Gang
from tests.amounts import amount
from tests.bench import basic_groups, budget, peers, placement, quality_large, rivals, scale, speed
from tests.bench.publish.tables import table
from tests.bench.worlds import World
from tests.oracle import exact
from tests.oracle.case import Case, Maker, decide
from tests.oracle.generate import SIGS, case
from tests.oracle.problem import read


def without_budgets(seed, mixed):
    """A small random cluster in which nothing has a disruption budget."""
    return msgspec.structs.replace(case(seed, mixed=mixed), budgets=[])


@pytest.mark.parametrize("mixed", [False, True])
def test_the_optimum_has_no_gap_to_the_bound(mixed):
    """The bound of the large clusters is tight: given the exact optimum of a small one it leaves nothing to gain."""
    judged = 0
    for seed in range(amount(30, 14)):
        problem = read(without_budgets(seed, mixed))
        best = exact.least_harm(problem)
        if best is None or not best.taken:
            continue
        row = quality_large.Row(seed, "", PREEMPT, 0.0)
        bounds = quality_large.Bounds(problem, 30.0)
        quality_large.judge(problem, set(best.taken), bounds, row)
        assert (row.worse, row.gap, bounds.unsolved) == ("", 0.0, []), f"seed {seed}"
        judged += 1
    assert judged >= amount(10, 4)


def test_a_needless_victim_shows_as_a_gap():
    """One pod more than necessary at the highest priority is a gap or a worse component, never nothing."""
    shown = 0
    for seed in range(amount(30, 14)):
        problem = read(without_budgets(seed, mixed=False))
        best = exact.least_harm(problem)
        if best is None or not best.taken:
            continue
        top = best.harm.levels[0][0]
        for pod in problem.candidates():
            if pod.uid in best.taken or pod.priority < top:
                continue
            try:
                problem.harm({*best.taken, pod.uid})
            except ValueError:
                continue
            row = quality_large.Row(seed, "", PREEMPT, 0.0)
            quality_large.judge(problem, {*best.taken, pod.uid}, quality_large.Bounds(problem, 30.0), row)
            assert row.worse or (row.gap or 0) > 0, f"seed {seed}"
            shown += 1
            break
    assert shown >= amount(5, 2)


@pytest.mark.parametrize("rule", [*rivals.RULES.values()], ids=[*rivals.RULES])
def test_other_schedulers_rules_make_room(rule):
    """What the re-told rules evict is enough for the gang, and only ever of lower priority."""
    judged = 0
    for seed in range(40):
        question = case(seed, mixed=False)
        problem = read(question)
        plain = all(not n.taints and not n.unschedulable for n in question.nodes)
        if not plain or problem.leaving or any(m.shape.node_selector for w in problem.wants for m in w.members):
            continue  # those rules are told without anything but room
        taken = rule(problem)
        if taken is None:
            continue
        cluster = rivals.Cluster(problem)
        cluster.shift((p for p in problem.present if p.uid in taken), +1)
        assert cluster.fits(rivals.required(problem)), f"seed {seed}"
        assert all(p.priority < problem.priority for p in problem.present if p.uid in taken)
        judged += 1
    assert judged >= 3


def test_a_gang_that_loses_one_of_two_needed_members_counts_as_broken():
    """Koordinator's rules take a pod of a gang and leave the other running; this planner takes both or none."""
    make = Maker()
    shape = make.shape({"cpu": 2000})
    nodes = [make.node("n1", {"cpu": 2000}), make.node("n2", {"cpu": 2000})]
    running = [make.pod(f"low-{i}", shape, gang=(SIGS, "low"), node=n.name) for i, n in enumerate(nodes)]
    high = make.pod("want-0", shape, gang=(SIGS, "want"), priority=100)
    gangs = [Gang(SIGS, "default", "low", min_member=2), Gang(SIGS, "default", "want", min_member=1)]
    question = Case(nodes, [*running, high], gangs, [])
    problem = read(question)
    taken = rivals.koordinator(problem)
    assert taken == {running[0].uid}
    assert rivals.left_broken(problem, taken) == 1
    mine = {v.uid for v in decide(question)[0].victims}
    assert mine == {p.uid for p in running}
    assert rivals.left_broken(problem, mine) == 0


def test_clusters_for_speed_need_victims():
    """The shapes whose time is measured are smaller here, but of the same kind: no member fits without evictions."""
    small = {"nodes": 60, "pods": 768, "members": 12}
    for more in ({}, {"gang_size": 1}, {"shapes": 5}, {"rule": "apart"}, {"rule": "spread"}, {"budgets": 2}):
        found = speed.measure(speed.full(**small, **more), repeat=1, memory=False)
        assert (found.outcome, found.victims > 0) == (PREEMPT, True), more
    found = speed.measure(speed.full(**small, member=(60, 32), blocked=54), repeat=1, memory=False)
    assert found.outcome == "unschedulable"


def test_a_peer_shape_is_decided_whole():
    """Five gangs of 100 leave for one gang of 100, and no pod more."""
    found = peers.run(peers.SHAPES[2].make())
    assert (found.outcomes, found.victims, found.placed) == ("1 preempt", 500, 100)


@pytest.mark.parametrize("number", [4, 5])
def test_a_small_world_is_decided_to_the_end(number):
    """Gangs that are all alike, and members that must run beside others: no search is cut short."""
    found = peers.run(peers.SHAPES[number - 1].make())
    assert (found.victims, found.stopped) == (peers.SHAPES[number - 1].least, False)


@pytest.mark.parametrize("size", [1, 8])
def test_a_backlog_has_room(size):
    """What is placed to measure the time does fit, and as many decisions are timed as were asked for."""
    case, gangs = placement.backlog(3, size)
    world = World(case)
    placement.hold(world, gangs[0], 16)
    assert len(world.decider.ledger.holders()) == 2
    assert {world.decider.decide(Question((g,))).outcome for g in gangs} == {BIND}


def test_tables_are_aligned():
    """Numbers stand right, words left."""
    assert table(["name", "n"], [["a", 5], ["long", 12.5]]) == "name     n\n----  ----\na        5\nlong  12.5\n"


def test_a_small_cluster_has_a_price_for_everything():
    """What is measured at each size happens: all gangs are decided as they should be, every change is taken in."""
    found = scale.measure(120, large=10)
    values = {name: getattr(found, name) for _, _, name in scale._COLUMNS if name not in ("core_mib", "simulate_s")}
    assert found.pods == 2400
    assert [name for name, value in values.items() if value <= 0] == []
    assert "120 / 2,400" in scale.show([found])


def test_what_gives_in_first_comes_first():
    """Exponents are those of the power law, and limits stand in the order in which they are reached."""
    assert scale.exponent([10, 100, 1000], [3, 30, 300]) == pytest.approx(1.0)
    assert scale.exponent([10, 100, 1000], [7, 7, 7]) == pytest.approx(0.0)
    names = [name for name in scale.Figures.__struct_fields__ if name not in ("nodes", "pods", "cut_short")]
    found = [
        scale.Figures(nodes=n, pods=20 * n, cut_short=False, **{**dict.fromkeys(names, 1.0), "evicts_ms": n / 10})
        for n in (1000, 2000)
    ]
    rows = scale.breaking_points(found)
    assert rows[0] == ["gang of 100 that evicts", "200", "1.00", "500 ms: the budget of a search", "100,000"]
    assert rows[-1][-1] == "never"


def test_every_phase_of_a_pod_costs_something():
    """Pods are read, taken in, decided and followed up to the end, and what is written is answered."""
    assert min(budget.reading(20)) > 0
    assert min(budget.write_costs(20)) > 0
    for size in (1, 8):
        assert min(budget.deciding(64, size)) > 0


@pytest.mark.parametrize("grouped", [False, True])
def test_all_pods_are_bound_before_their_cost_is_told(grouped):
    """What pods with and without basic groups cost is measured up to the last binding."""
    total, statuses = basic_groups.measure(30, grouped=grouped)
    assert total > statuses > 0.0
