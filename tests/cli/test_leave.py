"""``gangsched leave``: what returns the workloads of a namespace to another scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import answers, leave
from gangsched.cli.leave import Step, steps
from gangsched.cluster.kube.client import ApiError
from tests.cli.on_a_cluster import pod as a_pod
from tests.cli.on_a_cluster import ran
from tests.controlplane.client import Client, wait_until

OURS, THEIRS = "py-gang-scheduler", "default-scheduler"


def made(kind: str, name: str, spec: dict[str, Any], *, by: str = "", **more: Any) -> dict[str, Any]:
    """An object as the API has it; ``by`` is the kind and name of its controller."""
    meta: dict[str, Any] = {"name": name, "namespace": "d", "uid": f"{kind}/{name}", "resourceVersion": "7"}
    if by:
        owner, called = by.split("/")
        meta["ownerReferences"] = [{"kind": owner, "name": called, "uid": by, "controller": True}]
    version = {"Job": "batch/v1", "CronJob": "batch/v1", "Pod": "v1"}.get(kind, "apps/v1")
    return {
        "apiVersion": version,
        "kind": kind,
        "path": f"/{version}/{kind}",
        "metadata": meta | more.pop("metadata", {}),
        "spec": spec,
        **more,
    }


def template(**spec: Any) -> dict[str, Any]:
    """A spec with a template of pods for this scheduler."""
    return {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"schedulerName": OURS, **spec}}}


def of_pod(node: str = "", name: str = OURS) -> dict[str, Any]:
    """The spec of a pod."""
    return {"schedulerName": name, **({"nodeName": node} if node else {})}


def taken(*objects: dict[str, Any]) -> list[tuple[str, str]]:
    """What is done with what."""
    return [(step.verb, step.object) for step in steps(objects, [OURS], THEIRS)]


def the(*objects: dict[str, Any]) -> Step:
    """The only step."""
    (step,) = steps(objects, [OURS], THEIRS)
    return step


@pytest.mark.parametrize(
    ("kind", "deleted"),
    [
        ("Deployment", False),
        ("DaemonSet", False),
        ("StatefulSet", True),
        ("ReplicaSet", True),
        ("ReplicationController", True),
    ],
)
def test_a_template_is_changed_and_what_waits_by_the_old_one_is_deleted(kind: str, deleted: bool) -> None:
    """Where its controller does not replace what waits; pods which run stay until it replaces them."""
    owner = made(kind, "web", template())
    waits = made("Pod", "web-0", of_pod(), by=f"{kind}/web")
    runs = made("Pod", "web-1", of_pod("n1"), by=f"{kind}/web")
    wanted = [("patch", f"{kind}/web"), *([("delete", "Pod/web-0")] if deleted else [])]
    assert taken(waits, runs, owner) == wanted
    first = steps([owner], [OURS], THEIRS)[0]
    at = "/spec/template/spec/schedulerName"
    assert first.body == [
        {"op": "test", "path": at, "value": OURS},
        {"op": "replace", "path": at, "value": THEIRS},
    ]


def test_what_another_controller_makes_is_left_to_it() -> None:
    """A ReplicaSet of a Deployment is not changed, and would make a pod that waits again."""
    web, old = made("Deployment", "web", template()), made("ReplicaSet", "web-1", template(), by="Deployment/web")
    waits = made("Pod", "web-1-x", of_pod(), by="ReplicaSet/web-1")
    assert taken(web, old, waits) == [("patch", "Deployment/web")]


def test_a_job_of_which_no_pod_runs_is_created_again() -> None:
    """Without what its controller wrote; one that this scheduler has suspended is resumed."""
    spec = {"suspend": True, "selector": {"matchLabels": {"controller-uid": "1"}}, **template()}
    spec["template"]["metadata"]["labels"] |= {"controller-uid": "1", "batch.kubernetes.io/job-name": "train"}
    notes = {"annotations": {"gangsched.dev/suspended-by": "py-gang-scheduler", "mine": "1"}}
    waits = made("Pod", "train-0", of_pod(), by="Job/train")
    step = the(made("Job", "train", spec, metadata=notes, status={"active": 1}), waits)
    assert (step.verb, step.uid, step.path) == ("again", "Job/train", "/batch/v1/Job/train")
    assert step.text == "deleted and created again: none of 1 pod runs"
    assert step.body == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "d", "annotations": {"mine": "1"}},
        "spec": {
            "suspend": False,
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"schedulerName": THEIRS}},
        },
    }


def test_a_job_that_runs_stays_and_one_that_is_over_is_no_matter() -> None:
    """Also when only a pod of a Job below it runs."""
    over = {"conditions": [{"type": "Complete", "status": "True"}]}
    js = made("JobSet", "set", {"replicatedJobs": [{"template": {"spec": template()}}]})
    below = made("Job", "set-a-0", template(), by="JobSet/set")
    runs = made("Pod", "set-a-0-x", of_pod("n1"), by="Job/set-a-0")
    assert taken(js, below, runs, made("Job", "old", template(), status=over)) == [("stays", "JobSet/set")]
    assert taken(js, below) == [("again", "JobSet/set")]
    again = the(js, below)
    assert again.body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] == {"schedulerName": THEIRS}


def test_a_cron_job_makes_others_and_those_that_it_made_are_looked_at_by_themselves() -> None:
    """The Job that waits stays its own."""
    cron = made("CronJob", "nightly", {"jobTemplate": {"spec": template()}})
    job = made("Job", "nightly-1", template(), by="CronJob/nightly")
    assert taken(job, cron) == [("patch", "CronJob/nightly"), ("again", "Job/nightly-1")]


def test_pods_without_a_controller() -> None:
    """One that waits is created again, one that runs stays, one that has ended or is leaving is no matter."""
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    found = taken(
        made("Pod", "runs", of_pod("n1")),
        made("Pod", "waits", of_pod()),
        made("Pod", "done", of_pod("n1"), status={"phase": "Succeeded"}),
        made("Pod", "leaves", of_pod(), metadata=deleted),
        made("Pod", "another", of_pod(name=THEIRS)),
    )
    assert found == [("again", "Pod/waits"), ("stays", "Pod/runs")]


def test_what_an_unknown_owner_makes_is_for_its_owner_to_change() -> None:
    """A pod which waits names it."""
    step = the(made("Pod", "x", of_pod(), by="Foo/x"))
    assert (step.verb, step.text) == ("yours", "made by Foo/x: set schedulerName there, then delete it")


def test_what_has_finalizers_comes_last() -> None:
    """It may hold up the others."""
    held = made("Pod", "a", of_pod(), metadata={"finalizers": ["x.example/y"]})
    assert taken(held, made("Pod", "b", of_pod()), made("Job", "z", template())) == [
        ("again", "Job/z"),
        ("again", "Pod/b"),
        ("again", "Pod/a"),
    ]


class Api:
    """A client that remembers what is asked for. A deletion is refused as often as ``conflicts`` says."""

    def __init__(self, conflicts: int = 0) -> None:
        self.conflicts, self.asked = conflicts, list[tuple[str, str, Any]]()

    async def attempt(self, method: str, path: str, *, body: bytes, **_: Any) -> bytes:
        self.asked.append((method, path, json.loads(body)))
        if method == "DELETE" and self.conflicts:
            self.conflicts -= 1
            raise ApiError(409, "Conflict", "the object has been modified")
        return b""

    async def get(self, path: str) -> bytes:
        raise ApiError(404, "NotFound", path)


async def carried_out(api: Api, todo: list[Step], *then: list[Step]) -> int:
    """The exit code, where the namespace needs the steps of ``then`` by the time of each look, the last for ever."""
    looks = list(then)

    async def look() -> list[Step]:
        return looks.pop(0) if len(looks) > 1 else looks[0]

    return await leave._carry_out(api, todo, Path("kept.json"), look)  # type: ignore[arg-type]


async def test_a_pod_that_has_started_is_not_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """What is to be done is found again right before each deletion."""
    waits, runs = made("Pod", "a", of_pod()), made("Pod", "a", of_pod("n1"))
    todo = steps([waits], [OURS], THEIRS)
    for now, why in ((steps([runs], [OURS], THEIRS), "runs on n1 and stays"), ([], "nothing is to be done with it")):
        api = Api()
        assert await carried_out(api, todo, now) == 1
        assert not api.asked
        assert why in capsys.readouterr().err


async def test_a_job_that_has_another_spec_by_now_is_not_deleted() -> None:
    """The file has it as it was."""
    todo = steps([made("Job", "a", template())], [OURS], THEIRS)
    api = Api()
    assert await carried_out(api, todo, steps([made("Job", "a", template(priority=1))], [OURS], THEIRS)) == 1
    assert not api.asked


@pytest.mark.parametrize(("conflicts", "code", "asked"), [(0, 0, 1), (2, 0, 3), (3, 1, 3)])
async def test_a_deletion_is_of_the_version_that_was_looked_at(conflicts: int, code: int, asked: int) -> None:
    """A write in between is a conflict; the object is looked at again, three times in all."""
    todo = steps([made("Pod", "a", of_pod())], [OURS], THEIRS)
    newer = [steps([made("Pod", "a", of_pod(), metadata={"resourceVersion": str(n)})], [OURS], THEIRS) for n in (8, 9)]
    api = Api(conflicts)
    assert await carried_out(api, todo, todo, *newer) == code
    deleted = [body["preconditions"] for method, _, body in api.asked if method == "DELETE"]
    assert deleted == [{"uid": "Pod/a", "resourceVersion": str(7 + n)} for n in range(asked)]
    assert [method for method, *_ in api.asked].count("POST") == (code == 0)


async def test_no_step_begins_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says which steps are left."""
    monkeypatch.setattr(leave, "_ALL_SECONDS", 0.0)
    todo = steps([made("Pod", "a", of_pod()), made("Deployment", "web", template())], [OURS], THEIRS)
    api = Api()
    assert await carried_out(api, todo, todo) == 1
    assert not api.asked
    out, errors = capsys.readouterr()
    assert out == "0 of 2 steps done\n"
    assert [line.split(": ")[1] for line in errors.splitlines()] == ["Deployment/web", "Pod/a"]


@pytest.mark.parametrize("there", [False, True])
def test_files_are_for_their_owner_alone(tmp_path: Path, there: bool) -> None:
    """Also one that was there before, for others to read."""
    file = tmp_path / "a"
    if there:
        file.write_text("old")
        file.chmod(0o644)
    with answers.open_private(file, "w") as out:
        out.write("new")
    assert (file.stat().st_mode & 0o777, file.read_text()) == (0o600, "new")


async def test_what_starts_while_the_command_waits_is_left_alone(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    control_plane: Any,
    tmp_path: Path,
) -> None:
    """A finalizer holds up the first pod; the second one starts in that time, and runs afterwards as it did."""
    await make_nodes(1, cpu=8)
    for name in ("first", "second"):
        pod = a_pod(name, schedulerName=OURS)
        pod["metadata"]["finalizers"] = ["example.com/hold"]
        await admin.create(pod, namespace)
    was = (await admin.get("Pod", "second", namespace))["metadata"]["uid"]
    file = tmp_path / "kept.json"
    kubeconfig = control_plane.admin_kubeconfig
    running = asyncio.create_task(ran(kubeconfig, "leave", "-n", namespace, "--save", str(file), "--yes"))

    async def terminates() -> bool:
        return "deletionTimestamp" in (await admin.get("Pod", "first", namespace))["metadata"]

    await wait_until(terminates, what="the command waits for the first pod")
    await admin.bind("second", "node-0", namespace)
    await admin.patch("Pod", "first", {"metadata": {"finalizers": None}}, namespace)
    code, out, errors = await running
    assert (code, out.splitlines()[-1]) == (1, "1 of 2 steps done"), errors
    assert "Pod/second: it has changed since it was read: runs on node-0 and stays; nothing was done with it" in errors
    second = (await admin.get("Pod", "second", namespace))["metadata"]
    assert (second["uid"], "deletionTimestamp" in second) == (was, False)
    assert (await admin.get("Pod", "first", namespace))["spec"]["schedulerName"] == THEIRS
    assert file.stat().st_mode & 0o777 == 0o600
    await admin.patch("Pod", "second", {"metadata": {"finalizers": None}}, namespace)


async def test_a_namespace_is_left_on_a_cluster(
    admin: Client,
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
    control_plane: Any,
    tmp_path: Path,
) -> None:
    """Nothing changes without --yes; with it whatever waits names the other scheduler, and what runs still runs."""
    await make_nodes(1, cpu=4)
    of_pods: dict[str, Any] = {"schedulerName": OURS, "containers": [{"name": "c", "image": "x"}]}
    web = {"metadata": {"labels": {"app": "web"}}, "spec": of_pods}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": web}
    await admin.create(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec}, namespace
    )
    of_job = {"spec": {**of_pods, "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"template": of_job}}
    was = await admin.create(job, namespace)
    await admin.create(a_pod("waits", schedulerName=OURS), namespace)
    await admin.create(a_pod("runs", schedulerName=OURS, nodeName="node-0"), namespace)

    async def names(count: int) -> dict[str, str]:
        """Once there are so many pods: each by the beginning of its name, and the scheduler that it names."""
        pods: list[dict[str, Any]] = []

        async def there() -> bool:
            pods[:] = [p for p in await admin.list("Pod", namespace) if "deletionTimestamp" not in p["metadata"]]
            return len(pods) == count

        await wait_until(there, what=f"{count} pods")
        return {p["metadata"]["name"].partition("-")[0]: p["spec"]["schedulerName"] for p in pods}

    kubeconfig, file = control_plane.admin_kubeconfig, tmp_path / "kept.json"
    ours = ("web", "train", "waits", "runs")
    assert await names(4) == dict.fromkeys(ours, OURS)
    code, out, errors = await ran(kubeconfig, "leave", "-n", namespace, "--save", str(file))
    printed = [("patch", "StatefulSet/web"), ("delete", "Pod/web-0"), ("again", "Job/train"), ("again", "Pod/waits")]
    assert (code, rows(out)) == (0, [*printed, ("stays", "Pod/runs")]), errors
    assert not file.exists()
    assert await names(4) == dict.fromkeys(ours, OURS)
    code, out, errors = await ran(kubeconfig, "leave", "-n", namespace, "--save", str(file), "--yes")
    assert (code, out.splitlines()[-1]) == (0, "4 of 4 steps done"), errors
    assert [each["metadata"]["name"] for each in json.loads(file.read_text())["items"]] == ["train", "waits"]
    await wait_until(lambda: _named(admin, namespace), what="all that waits names the other scheduler")
    assert (await admin.get("Job", "train", namespace))["metadata"]["uid"] != was["metadata"]["uid"]
    code, out, errors = await ran(kubeconfig, "leave", "-n", namespace, "--save", str(file), "--yes")
    assert rows(out) == [("stays", "Pod/runs")], errors


def rows(out: str) -> list[tuple[str, ...]]:
    """What is printed of each step: the verb and the object."""
    verbs = ("patch", "delete", "again", "stays", "yours")
    return [tuple(line.split()[:2]) for line in out.splitlines() if line.split()[0] in verbs]


async def _named(admin: Client, namespace: str) -> bool:
    pods = await admin.list("Pod", namespace)
    found = {p["metadata"]["name"].partition("-")[0]: p["spec"]["schedulerName"] for p in pods}
    there = {"web": THEIRS, "train": THEIRS, "waits": THEIRS, "runs": OURS}
    return len(pods) == 4 and found == there
