"""``gangsched simulate`` of gangs that announce members, where quota is short."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli.main import main

_QUEUE = """\
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: ResourceFlavor
    metadata: {{name: default-flavor}}
    ---
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: ClusterQueue
    metadata: {{name: team}}
    spec:
      namespaceSelector: {{}}
      resourceGroups:
        - coveredResources: [cpu]
          flavors: [{{name: default-flavor, resources: [{{name: cpu, nominalQuota: {cores}}}]}}]
    ---
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: LocalQueue
    metadata: {{name: team, namespace: default}}
    spec: {{clusterQueue: team}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {{name: n1}}
    status: {{capacity: {{cpu: "32", memory: 64Gi, pods: "110"}}}}
    ---
    apiVersion: scheduling.volcano.sh/v1beta1
    kind: PodGroup
    metadata: {{name: spark, namespace: default}}
    spec: {{minMember: 1, minResources: {{cpu: "8"}}}}
    ---
"""
_POD = """\
    apiVersion: v1
    kind: Pod
    metadata:
      name: {name}
      namespace: default
      labels: {{kueue.x-k8s.io/queue-name: team}}
      annotations: {{{notes}}}
    spec:
      schedulerName: py-gang-scheduler
      containers: [{{name: main, image: registry.example.com/a:1, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
    ---
"""


def _played(capsys: pytest.CaptureFixture[str], folder: Path, cores: int, until: str) -> dict[str, Any]:
    """The pods after this time: a driver that announces eight cores, and 5 s later another pod of its queue."""
    later = 'sim.gangsched.dev/arrive-after: "5s"'
    text = _QUEUE.format(cores=cores)
    text += _POD.format(name="driver", notes="scheduling.k8s.io/group-name: spark", cpu=1)
    text += _POD.format(name="other", notes=later, cpu=2)
    path = folder / "input.yaml"
    path.write_text(textwrap.dedent(text))
    assert main(["simulate", "-o", "json", "-f", str(path), "--until", until]) == 0
    pods: dict[str, Any] = json.loads(capsys.readouterr().out)["pods"]
    return pods


def test_a_driver_waits_for_the_quota_of_its_executors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It would have quota by itself, as the pod behind it has, and is told what is missing."""
    pods = _played(capsys, tmp_path, 7, "1m")
    assert pods["default/driver"]["phase"] == "Pending"
    assert "insufficient quota for cpu" in pods["default/driver"]["message"]
    assert pods["default/other"]["phase"] == "Running"


def test_quota_is_kept_for_executors_until_they_have_had_their_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Others of the queue get it when the room is given back."""
    pods = _played(capsys, tmp_path, 8, "5m")
    assert (pods["default/driver"]["phase"], pods["default/other"]["phase"]) == ("Running", "Pending")
    pods = _played(capsys, tmp_path, 8, "12m")
    assert pods["default/other"]["phase"] == "Running"
    assert pods["default/other"]["boundAt"] >= 600
