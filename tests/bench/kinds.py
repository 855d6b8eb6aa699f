"""What a gang of members of many sizes costs to decide: seconds, steps, and how good the plan is.

    python -m tests.bench.kinds [--kinds 1 8 62 63 64 65 128 500] [--nodes 300]

Each gang has a member of every size, 60 members at least, and has to evict; with a spread constraint they are placed by
the filters, without one by counting room.
"""

from __future__ import annotations

import argparse
import sys
import time

from gangsched.core.decision import Decision
from gangsched.core.events import Event, Synced
from gangsched.core.options import STEPS_PER_MILLISECOND, Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import SpreadConstraint
from tests.bench.publish.tables import table
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import event

KINDS = (1, 8, 62, 63, 64, 65, 128, 500)
#: Members of a gang of few kinds.
MEMBERS = 60
NOW = 1000.0


def member(number: int, kinds: int, *, spread: bool) -> PodBuilder:
    """One member of the gang."""
    built = pod(f"m{number:03d}").cpu(2 + number % kinds / 100).priority(100).gang("g").label(job="g")
    if not spread:
        return built
    return built.shape(spread=(SpreadConstraint("zone", 1, selects(job="g"), required=True),))


def world(kinds: int, nodes: int, *, spread: bool) -> list[Event]:
    """One gang, and nodes full of pods of two sizes and seven priorities."""
    count = max(kinds, MEMBERS)
    found = [event(node(f"n{i:03d}").cpu(16).label(zone=f"z{i % 3}")) for i in range(nodes)]
    for i in range(nodes):
        found += [event(pod(f"low-{i}-{k}").cpu(2 + (i + k) % 2 / 4).priority(k).on(f"n{i:03d}")) for k in range(7)]
    found.append(event(gang("g").min(count)))
    return found + [event(member(i, kinds, spread=spread)) for i in range(count)]


def decide(kinds: int, nodes: int, *, spread: bool) -> tuple[Decision, float]:
    """The decision about it, and the seconds of the processor that it took."""
    core = Scheduler(Options())
    core.handle([*world(kinds, nodes, spread=spread), Synced()], NOW)
    began = time.thread_time()
    core.decide(NOW)
    seconds = time.thread_time() - began
    (decision,) = core.drain_decisions()
    return decision, seconds


def main() -> int:
    """Print a line for each number of kinds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", type=int, nargs="+", default=KINDS, help="numbers of different sizes")
    parser.add_argument("--nodes", type=int, default=300, help="nodes of the cluster (default: %(default)s)")
    args = parser.parse_args()
    rows = []
    for spread in (False, True):
        for kinds in args.kinds:
            found, seconds = decide(kinds, args.nodes, spread=spread)
            what = "room and spread" if spread else "room"
            share = seconds * 1000 * STEPS_PER_MILLISECOND / Options().search_steps
            ended = found.proof + (", cut short" if found.stopped else "")
            victims = str(len(found.victims))
            rows.append((str(kinds), what, f"{seconds:.2f}", f"{share:.1f}", str(found.steps), victims, ended))
    print(table(("sizes", "limited by", "seconds", "of the budget", "steps", "victims", "plan"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
