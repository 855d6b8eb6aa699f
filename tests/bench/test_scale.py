"""What the benchmark of growth writes besides its tables: a picture, and the cluster itself."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from gangsched.cli.simulation import simulate
from gangsched.cluster.manifests import load
from gangsched.core.events import records
from gangsched.model.records import Gang, Node, Pod
from tests.bench import cluster_file, scale
from tests.builders import pod
from tests.oracle.case import Case


def figures(nodes: int) -> scale.Figures:
    """Made-up ones, all linear."""
    names = [name for name in scale.Figures.__struct_fields__ if name not in ("nodes", "pods", "cut_short")]
    return scale.Figures(nodes=nodes, pods=20 * nodes, cut_short=False, **dict.fromkeys(names, nodes / 100))


def test_the_picture_of_growth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is drawn of an earlier run, says where and when that was, and has a curve for each cost with its exponent."""
    kept, drawn = tmp_path / "growth.json", tmp_path / "growth.svg"
    kept.write_bytes(msgspec.json.encode(scale.Growth("a machine", "2026-01-31", 0.5, [figures(100), figures(1000)])))
    assert scale.main(["--show", str(kept), "--svg", str(drawn)]) == 0
    assert "1,000 / 20,000" in capsys.readouterr().out
    root = ElementTree.fromstring(drawn.read_text(encoding="utf-8"))
    told = [each.text or "" for each in root.iter() if each.tag.endswith("}text")]
    assert told[-1].endswith("a machine; measured 2026-01-31.")
    assert {"2k", "20k", "a decision, ms", "a pod changed  ^1.00", "gang of 8 that fits  ^1.00"} <= set(told)
    curves = [each for each in root.iter() if each.tag.endswith("polyline")]
    assert len(curves) == sum(len(fields) for _, fields in scale._CURVES)


def test_a_written_cluster_is_read_as_the_same_one(tmp_path: Path) -> None:
    """Nodes, gangs, and pods with requests, priorities, places and arrivals; played, the gangs get what is measured."""
    case = scale.scene(40, large=10)
    path = tmp_path / "cluster.json"
    assert cluster_file.write(case, path) == 40 + len(case.gangs) + len(case.pods) + 5
    loaded = load([str(path)])
    nodes = list(records(loaded.events, Node))
    gangs = list(records(loaded.events, Gang))
    pods = list(records(loaded.events, Pod))
    assert [(n.name, n.labels, n.allocatable) for n in nodes] == [(n.name, n.labels, n.allocatable) for n in case.nodes]
    assert [(g.key, g.min_member) for g in gangs] == [(g.key, g.min_member) for g in case.gangs]

    def told(each: object) -> tuple[object, ...]:
        return tuple(
            getattr(each, name) for name in ("key", "gang", "priority", "node", "phase", "started", "grace_seconds")
        )

    assert [told(p) for p in pods] == [told(p) for p in case.pods]
    assert [p.shape.requests for p in pods] == [p.shape.requests for p in case.pods]
    played = simulate(loaded.events, case.options, until_seconds=240.0, start=loaded.now)
    outcomes = {(d.gang.name[:4], d.outcome) for _, d in played.decisions}
    assert {("fits", "bind"), ("neve", "unschedulable"), ("want", "preempt"), ("more", "preempt")} <= outcomes
    assert not {("fits", "unschedulable"), ("neve", "bind")} & outcomes


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A pod that asks for more than resources would come back as another one."""
    picky = pod("a").cpu(1).selector(disk="ssd").obj()
    with pytest.raises(ValueError, match="only what it requests"):
        cluster_file.write(Case([], [picky], [], []), tmp_path / "x.json")
