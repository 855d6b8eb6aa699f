"""The table of a simulated run, where names are long and the terminal is not wide."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gangsched.cli.render_simulation import render
from gangsched.cli.simulation import simulate
from gangsched.core.options import Options
from tests.builders import gang, node, pod
from tests.core.harness import Built, event

GANG = "resnet152-hyperparameter-sweep-2026-11-21-experiment-42"
NODE = "gke-production-a100-pool-7f3c9b21-xk2p.c.my-project.internal"
VICTIM = "nightly-preprocessing-pipeline-worker-000017"


@pytest.fixture(params=[100, 130, 200])
def lines(request: pytest.FixtureRequest) -> list[str]:
    """A gang with a long name evicts a pod with another from a node with a third; on a terminal of this width."""
    return played(request.param, terminal=True)


def played(width: int | None, *, terminal: bool) -> list[str]:
    """The lines of that run."""
    members = [pod(f"{GANG}-worker-{n}").cpu(2).priority(9).gang(GANG) for n in range(2)]
    objects: list[Built] = [node(NODE), pod(VICTIM).cpu(3).on(NODE), gang(GANG).min(2), *members]
    out = io.StringIO()
    run = simulate([event(each) for each in objects], Options(), until_seconds=120.0)
    console = Console(file=out, width=width, highlight=False, force_terminal=terminal, color_system=None)
    render(run, console)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_in_a_pipe_names_are_whole() -> None:
    """Each pod, gang and node can be found in the line of its pod."""
    lines = played(100_000, terminal=False)
    (head,) = (n for n, line in enumerate(lines) if line.startswith("POD"))
    member = next(line for line in lines[head:] if f"d/{GANG}-worker-0" in line)
    assert member.split()[1] == GANG
    assert NODE in member
    assert any(line.strip().startswith(NODE) for line in lines)
    assert not any("…" in line for line in lines)


def test_names_break_at_separators(lines: list[str]) -> None:
    """In the timeline a name goes on in the next line after a separator, and all of it is there."""
    timeline = lines[: lines.index("")]
    start = timeline[0].index("OBJECT")
    objects = [line[start : timeline[0].index("DETAIL")].strip() for line in timeline[1:]]
    assert f"d/{GANG}-worker-1" in "".join(objects)
    assert [part for part in objects if part and not (part[-1] in "-/." or part[-1].isdigit())] == []


def test_pods_stay_apart_in_one_line_each(lines: list[str]) -> None:
    """In the table of pods names lack their middle, not their ends, and each pod has one line."""
    (head,) = (n for n, line in enumerate(lines) if line.startswith("POD"))
    rows = lines[head + 1 : head + 4]
    names = [row.split()[0] for row in rows]
    assert [name[-3:] for name in names] == ["017", "r-0", "r-1"]
    assert all(".internal" in row for row in rows)
    assert lines[head + 4].strip() == ""


def test_a_node_without_the_scarcest_resource_shows_its_cpus() -> None:
    """A bar of nothing says nothing."""
    objects: list[Built] = [
        node("gpus").cpu(8).gpu(2),
        node("cpus").cpu(8),
        pod("train").cpu(1).gpu(2).on("gpus"),
        pod("web").cpu(4).on("cpus"),
    ]
    run = simulate([event(each) for each in objects], Options(), until_seconds=1.0)
    out = io.StringIO()
    render(run, Console(file=out, width=120, highlight=False, color_system=None))
    bars = {line.split()[0]: line.rpartition("│")[2].strip() for line in out.getvalue().splitlines() if " │" in line}
    assert bars == {"cpus": "4 of 8 CPU", "gpus": "2 of 2 nvidia.com/gpu"}
