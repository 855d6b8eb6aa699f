"""What owns pods is asked about by its kind and name, however far above them it is, and gangs are shown once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangsched.cli.main import main
from gangsched.model.dialects.operators import OPERATORS
from tests.cli.gpu_cluster import NODES, job, pod, written

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def answer(capsys):
    """A function that runs a command on an example and returns the lines that it prints, and its errors."""

    def asked(command, name, example):
        main(
            [command, *([name] if name else []), "-f", str(EXAMPLES / example if isinstance(example, str) else example)]
        )
        printed = capsys.readouterr()
        return [line.strip() for line in printed.out.splitlines()], printed.err

    return asked


@pytest.mark.parametrize(
    ("name", "example", "gang", "first"),
    [
        ("trainjob/train", "trainjob", "JobSet default/train", "NEVER FITS  3 pods x 3 cpu = 9;"),
        ("jobset/train", "trainjob", "JobSet default/train", "NEVER FITS  3 pods x 3 cpu = 9;"),
        ("job/train-node-0", "trainjob", "JobSet default/train", "NEVER FITS  3 pods x 3 cpu = 9;"),
        ("pytorchjob/train", "owners", "PyTorchJob default/train", "BIND  3 members can start now"),
        ("lws/serve", "owners", "LeaderWorkerSet default/serve-0", "BIND  1 member can start now"),
        ("rayjob/tune", "ray", "RayJob default/tune", "BIND  2 members can start now"),
        ("raycluster/tune-7x2kq", "ray", "RayJob default/tune", "BIND  2 members can start now"),
    ],
)
def test_whatever_owns_pods_has_an_answer(name, example, gang, first, answer):
    """The answer about an owner is that about the gang of its pods, in `explain` and in `get`."""
    kind, key = gang.split()
    lines, _ = answer("explain", name, example)
    assert lines[0].startswith(f"{key}  {kind} ")
    assert lines[1].startswith(first)
    rows, _ = answer("get", name, example)
    assert [line.split()[1:3] for line in rows[1:]] == [[key.partition("/")[2], kind]]


@pytest.mark.parametrize(
    ("example", "gangs"),
    [("trainjob", ["JobSet"]), ("owners", ["LeaderWorkerSet", "PyTorchJob"]), ("ray", ["Pod", "RayJob", "Pod"])],
)
def test_each_gang_has_one_line(example, gangs, answer):
    """What is above pods that are a gang of another kind, or of another name, is no gang without pods."""
    rows, _ = answer("get", "", example)
    assert [line.split()[2] for line in rows[1:]] == gangs


@pytest.mark.parametrize("kind", ["PyTorchJob", "MPIJob"])
def test_an_owner_of_an_operator_that_has_no_pods(kind, answer, tmp_path):
    """It has none yet: its controller says why, if it cannot make them. No label helps there."""
    operator = OPERATORS[kind]
    meta = {"name": "train", "annotations": {"gangsched.dev/gang": "true"}}
    api = f"{operator.group}/{operator.versions[0]}"
    file = written(tmp_path, *NODES, {"apiVersion": api, "kind": kind, "metadata": meta, "spec": {}})
    lines, _ = answer("explain", f"{kind.lower()}/train", file)
    assert lines[1:3] == [
        "WAITS  it has no pods yet",
        f"do  kubectl describe {kind.lower()} train -n default shows what its controller says",
    ]


def test_a_name_of_another_kind(answer, tmp_path):
    """What has the name is named, not offered as what was meant."""
    file = written(tmp_path, *NODES, pod("alone"), job())
    _, errors = answer("explain", "trainjob/alone", file)
    assert errors == "gangsched: there is no TrainJob default/alone; there is a Pod of that name\n"


def test_a_podgang_is_called_by_its_kind(answer, tmp_path):
    """As any other group."""
    container = {"name": "main", "image": "example.com/x", "resources": {"requests": {"cpu": "1"}}}
    pods = {"schedulerName": "py-gang-scheduler", "containers": [container]}
    clique = {"name": "c", "spec": {"replicas": 1, "podSpec": pods}}
    spec = {"template": {"cliques": [clique]}}
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "serve"}, "spec": spec}
    lines, _ = answer("explain", "podgang/serve-0", written(tmp_path, *NODES, owner))
    assert lines[0].startswith("default/serve-0  PodGang ")
    _, error = answer("explain", "podgroup/serve-0", written(tmp_path, *NODES, owner))
    assert "there is a PodGang of that name" in error
