"""The first lines of answers in ordinary cases, on terminals of 80 and 120 columns and in a pipe.

`WRITE_SCREENS=1 pytest tests/cli/test_sentences.py` writes the screens anew: read the difference.
"""

from __future__ import annotations

import functools
import json
import os
import re
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from gangsched.cli import plan as planned
from gangsched.cli import render
from gangsched.cli.inputs import Input
from gangsched.cli.main import main
from gangsched.messages import failures
from gangsched.runtime.connecting import READER, StartError, by_cause
from tests.cli.gpu_cluster import CLASSES, GOING, GPU, LABEL, NODES, RACK, group, job, pod, spec

SCREENS = Path(__file__).parent / "screens"
PIPED = 0
WEB = [pod(f"web-{n}", f"gpu-{n}", priorityClassName="night") for n in range(4)]
QUEUES = yaml.safe_load_all(f"""
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {{name: any}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: cq-ml}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu, {GPU}]
    flavors: [{{name: any, resources: [{{name: cpu, nominalQuota: 99}}, {{name: {GPU}, nominalQuota: 8}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: q-ml}}
spec: {{clusterQueue: cq-ml}}
""")
ONE_RACK = json.dumps({"gatherStrategy": [{"layer": RACK, "strategy": "MustGather"}]})
DRIVER = [
    pod("driver-0", labels={LABEL: "train"}, gpus=1),
    pod("worker-0", labels={LABEL: "train"}, priorityClassName="research"),
    pod("worker-1", labels={LABEL: "train"}, priorityClassName="research"),
]
PAUSED = (
    "waits: until 2026-01-01T00:01:30Z, when it may evict others: a round of evictions has not led to its binding, for"
    " others took the room. 0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: not yet: a round of"
    " evictions has not led to its binding, for others took the room, and so the gang pauses; no pod is evicted for it"
    " until 2026-01-01T00:01:30Z."
)


def paused(name, **more):
    """A member of which the scheduler says that its gang pauses."""
    made = pod(name, labels={LABEL: "train"}, **more)
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": PAUSED}
    made["status"]["conditions"] = [said | {"lastTransitionTime": "2026-01-01T00:00:10Z"}]
    return made


REPLICA = {"replicas": 1, "template": {"spec": spec(containers=[spec()["containers"][0] | {"name": "pytorch"}])}}
PYTORCHJOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "train", "annotations": {"gangsched.dev/gang": "true"}},
    "spec": {"pytorchReplicaSpecs": {"Master": REPLICA, "Worker": REPLICA | {"replicas": 3}}},
}
#: What a tenant may not read of the whole cluster.
CLOSED = ("nodes", "pods", "jobs.batch", "poddisruptionbudgets.policy", "priorityclasses.scheduling.k8s.io")

#: What is asked, of which objects.
ASKED = {
    "more than a node has": (["explain", "job/train"], [job(gpus=16)]),
    "more than the cluster has": (["explain", "job/train"], [job(pods=8)]),
    "a Job beside its PodGroup": (["explain", "job/train"], [group(), job(notes={}, labels={LABEL: "train"})]),
    "a Job without pods": (["explain", "job/train"], [job(suspend=True)]),
    "room that is being freed": (
        ["explain", "a"],
        [*(pod(f"old-{n}", f"gpu-{n}", meta=GOING) for n in range(4)), pod("a")],
    ),
    "why a pod is evicted": (["explain", "web-0"], [*WEB, job(pods=4, priorityClassName="research")]),
    "a member without a class": (["explain", "train"], [*WEB, group(members=3), *DRIVER]),
    "a taint": (["explain", "job/train"], [job(tolerations=[])]),
    "a group of another name": (["explain", "a"], [group(), pod("a", labels={LABEL: "trian"})]),
    "more than a queue may hold": (
        ["explain", "job/train"],
        [*QUEUES, job(on_job={"kueue.x-k8s.io/queue-name": "q-ml"})],
    ),
    "a rack that is too small": (
        ["explain", "train"],
        [
            group(members=4, **{"gang.scheduling.koordinator.sh/network-topology-spec": ONE_RACK}),
            *(pod(f"w-{n}", labels={LABEL: "train"}) for n in range(4)),
        ],
    ),
    "one of equal pods": (["explain", "job/train"], [*WEB[:2], job(pods=3)]),
    "another scheduler": (["plan"], [job(notes={}, schedulerName="default-scheduler")]),
    "a pod that stays": (["explain", "web-0"], WEB),
    "a priority that is too low": (["explain", "job/train"], [*WEB, job(priorityClassName="night")]),
    "a pause of the scheduler": (
        ["explain", "train"],
        [*WEB, group(members=2), *(paused(f"train-{n}", priorityClassName="research") for n in range(2))],
    ),
    "a PyTorchJob that has no pods yet": (["plan"], [PYTORCHJOB]),
    "what a tenant may not read": (["plan", "--cluster"], []),
    "a group without pods": (["get"], [group(), pod("a", labels={LABEL: "other"})]),
}


def refuse(args):
    """What happens when a tenant asks about the whole cluster."""
    problem = by_cause({name: f"403 Forbidden: {name} is forbidden at the cluster scope" for name in CLOSED})
    asks = failures.ask_for_role(role=READER)
    raise StartError(failures.unreadable(source="kubeconfig config, context team-a", error=problem), asks)


@pytest.mark.parametrize("width", [80, 120, PIPED])
def test_first_lines(width, tmp_path, monkeypatch, capsys):
    """As the file has them; no line is wider than the terminal, but for those of `get`, which are kubectl's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    if width:
        terminal = functools.partial(Console, force_terminal=True, color_system=None, width=width, legacy_windows=False)
        monkeypatch.setattr(render, "Console", terminal)
    shown = []
    for name, (command, objects) in ASKED.items():
        whole = [{"apiVersion": "v1", **each} for each in (*NODES, *CLASSES, *objects)]
        Path("objects.yaml").write_text(yaml.safe_dump_all(whole))
        if command[-1] == "--cluster":
            monkeypatch.setattr(planned, "read_cluster", refuse)
        with monkeypatch.context() as patched:
            patched.setattr(Input, "leads", "pause" in name)
            now = ["--now", "2026-01-01T00:01:00Z"] if command[0] != "get" else []
            main([*command, "-f", "objects.yaml", *now])
        printed = capsys.readouterr()
        lines = [line.rstrip() for line in (printed.out + printed.err).splitlines()]
        if width and command[0] == "explain":
            assert max(map(len, lines)) <= width, name
        shown += [f"# {name}: gangsched {' '.join(command)}", *lines, ""]
    text = re.sub(r"planned in [0-9.]+ ms", "planned in 1.0 ms", "\n".join(shown)) + "\n"
    file = SCREENS / f"sentences-{width or 'piped'}.txt"
    if os.environ.get("WRITE_SCREENS"):
        file.write_text(text)
    assert text == file.read_text(), "WRITE_SCREENS=1 pytest tests/cli writes the screens again: read the difference"
