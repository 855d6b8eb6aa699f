"""Gangs by owner are gangs in every picture, table and summary, as PodGroups are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gangsched import api
from gangsched.cli.main import main
from gangsched.cli.ui_site import Site
from gangsched.cluster.manifests import load
from tests.cli.sites import LOCAL, Objects, asked

NODE = """\
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "8", pods: "110"}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: finetune, namespace: ml, uid: "1", annotations: {gangsched.dev/gang: "true"}}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: py-gang-scheduler
      restartPolicy: Never
      containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
"""
MEMBER = """\
---
apiVersion: v1
kind: Pod
metadata:
  name: finetune-NUMBER
  namespace: ml
  uid: pNUMBER
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: finetune, uid: "1", controller: true}]
spec:
  ON
  schedulerName: py-gang-scheduler
  restartPolicy: Never
  containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
"""


@pytest.fixture(params=["waits", "runs"])
def manifest(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A Job that is declared to be a gang, with its two pods."""
    on = {"waits": "", "runs": "nodeName: n1"}[request.param]
    path = tmp_path / "job.yaml"
    path.write_text(NODE + "".join(MEMBER.replace("NUMBER", str(i)).replace("ON", on) for i in range(2)))
    return path


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_a_page_shows_the_gang(command: str, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The legend names it, and its pods have its colour."""
    assert main([command, "-f", str(manifest), "-o", "html"]) == 0
    text = capsys.readouterr().out
    assert ">ml/finetune<" in text
    assert "gang ml/finetune" in text or " · ml/finetune" in text


def test_the_page_of_a_running_scheduler_shows_the_gang(manifest: Path) -> None:
    """Among the nodes."""
    text = asked(Site(Objects(load([str(manifest)]).events), LOCAL), "/ui/nodes")[1]
    assert ("ml/finetune" in text) == ("nodeName" in manifest.read_text())


def test_tables_and_summaries_of_simulations_have_the_gang(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, as a table and as JSON, and from Python."""
    assert main(["simulate", "-f", str(manifest)]) == 0
    assert "ml/finetune-0  finetune " in capsys.readouterr().out
    assert main(["simulate", "-f", str(manifest), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pods"]["ml/finetune-0"]["gang"] == "ml/finetune"
    (gang,) = found["summary"]["gangs"].values()
    assert (gang["kind"], gang["minMember"], gang["members"], gang["bound"]) == ("Job", 2, 2, 2)
    assert set(api.simulate(api.load(str(manifest))).summary.gangs) == {"ml/finetune"}
