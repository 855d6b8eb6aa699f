"""The picture of queues: a tree, usage bars, counts."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gangsched.cli.queue_rows import Usage, rows
from gangsched.cli.render import BORROWED, FREE, LENT, OWN, bar, render_queues
from gangsched.core.quota.status import Tally
from gangsched.core.quota.workloads import Workload
from gangsched.model.queues import ResourceFlavor
from tests.core.quota.world import World, cohort, queue


def counted(world, **pending):
    """The sums of a world in which all who hold quota run, and of so many more workloads by queue that wait."""
    tally = Tally()
    for uid, admission in world.quota.admissions.items():
        tally.holds(uid, admission, admitted=True)
    for name, count in pending.items():
        for i in range(count):
            tally.waits(f"{name}-{i}", Workload("d", "w", f"{name}-{i}", name, ()))
    return tally


def picture(world, tally=None, width=140, terminal=False):
    """The lines that are printed."""
    console = Console(
        file=io.StringIO(), width=width, highlight=False, color_system=None, force_terminal=terminal, markup=False
    )
    render_queues(list(rows(world.quota, counted(world) if tally is None else tally)), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_the_tree():
    """Cohorts with what is below them, indented; queues with their workloads; a legend."""
    world = World(
        cohort("company", cpu=2), cohort("left", "company"), queue("a", "left", cpu=4), queue("b", "left", cpu=4)
    )
    world.runs("w1", "a", cpu=4)
    world.runs("w2", "a", cpu=1.5)
    tally = counted(world, b=3)
    [waits] = [uid for uid, a in world.quota.admissions.items() if a.workload.name == "w2"]
    tally.holds(waits, world.quota.admissions[waits], admitted=False)
    assert picture(world, tally) == [
        "queue    pending  reserving  admitted  flavor   resource                used  reserved  quota  borrowed",
        "company                                default  cpu       ███████░░░░░     4     5500m     10",
        "  left                                 default  cpu       █████████░░░     4     5500m      8",
        "    a          0          2         1  default  cpu       █████████▓▓▓     4     5500m      4     1500m",
        "    b          3          0         0  default  cpu       ░░░░░░░░░░░░     0         0      4",
        "█ reserved of its own quota  ▓ borrowed  ▒ lent to others  ░ free",
    ]
    assert world.quota.tree.queues["a"].usage == [5500]


def test_a_narrow_terminal_has_all_numbers():
    """At 80 columns the bar goes, and the numbers of a queue stand below its name."""
    world = World(cohort("company", cpu=2), queue("research-and-development", "company", cpu=4))
    world.runs("w1", "research-and-development", cpu=5.5)
    lines = [line.rstrip() for line in picture(world, width=80, terminal=True)]
    assert lines == [
        "company",
        "    cpu 5500m used, 5500m of 6 reserved default",
        "  research-and-development  0 pending, 1 reserving, 1 admitted",
        "      cpu 5500m used, 5500m of 4 reserved, 1500m borrowed default",
    ]


def test_lent_quota_shows():
    """What a queue does not use but cannot have now, because others borrow it, is marked."""
    world = World(queue("a", "all", cpu=0), queue("b", "all", cpu=4))
    world.runs("w", "a", cpu=3)
    assert bar_of(world, "b") == LENT * 9 + FREE * 3
    assert bar_of(world, "a") == BORROWED * 12


def bar_of(world, name):
    """The bar of the queue's only resource."""
    [row] = [r for r in rows(world.quota, counted(world)) if r.name == name]
    return bar(row.usages[0])


def test_a_queue_that_admits_nothing_says_why():
    """A missing flavor stands beside the name."""
    world = World(queue("a", cpu=4))
    world.quota.remove(ResourceFlavor, "default")
    assert picture(world)[1].startswith("a (FlavorNotFound)")


def test_no_queues():
    """An empty cluster is one sentence."""
    assert picture(World()) == ["There are no ClusterQueues."]


def test_names_cannot_steer_the_terminal():
    """Control characters in names are harmless."""
    world = World(queue("a\x1b[31m", cpu=1))
    assert "\x1b" not in "".join(picture(world))


@given(reserved=st.integers(0, 10**6), quota=st.integers(0, 10**6), available=st.integers(0, 10**6))
def test_bars_have_their_width(reserved, quota, available):
    """Every bar is as wide as the others, and shows something of each part that is not zero."""
    usage = Usage("f", "r", reserved, 0, quota, min(available, max(0, quota - reserved)))
    shown = bar(usage)
    assert len(shown) == 12
    assert (OWN in shown) == bool(min(reserved, quota))
    assert (BORROWED in shown) == bool(usage.borrowed)
