"""Spark's operator beside the scheduler: of two applications whose drivers make their executors one evicts the other.

The operator starts drivers with the `spark-submit` of the package `pyspark`, which needs a Java runtime. No pod runs
here, so the driver of each driver pod that runs is played: a process with what its pod and ConfigMap say, and with the
API server's address on loopback. It makes real executor pods, of which none ever answers it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.controlplane import binaries
from tests.controlplane.client import ApiError, Client, Object, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import template
from tests.e2e.scheduler import free_port, running_scheduler
from tests.producers.preemption import Rivals
from tests.producers.quota_and_groups import prepared
from tests.producers.running import HERE, isolated, running, serving_certificate, webhooks

APPLICATION = "sparkoperator.k8s.io/v1beta2/SparkApplication"
GROUPS = {
    "volcano": "scheduling.volcano.sh/v1beta1/PodGroup",
    "coscheduling": "scheduling.x-k8s.io/v1alpha1/PodGroup",
}
#: The scheduler's name, for which the operator makes PodGroups of scheduler-plugins when it is told so by a flag.
OURS = "py-gang-scheduler"
RECORDED = HERE / "recorded-spark.json"
OF_APPLICATION, LAUNCHED = "sparkoperator.k8s.io/app-name", "sparkoperator.k8s.io/launched-by-spark-operator"
ROLE = "spark-role"


def spark_home() -> Path:
    """Spark, installed into the user's cache once; a BinariesError without Java."""
    if shutil.which("java") is None:
        raise binaries.BinariesError("Spark needs a Java runtime of version 17 or newer, and there is no `java`")
    pinned = HERE / "go-spark" / "requirements.txt"
    folder = binaries.cache_root() / f"spark-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:16]}"
    if not folder.exists():
        print("spark: installing pyspark, of 430 MB, once")
        half = folder.with_suffix(".half")
        uv = Path(sys.executable).with_name("uv")
        flags = ("--quiet", "--no-deps", "--require-hashes", "--target", str(half), "-r", str(pinned))
        subprocess.run([str(uv), "pip", "install", *flags], check=True)
        half.rename(folder)
    return folder / "pyspark"


def application(plane: ControlPlane, scheduler: str, name: str, priority: str = "", executors: int = 3) -> Object:
    """A driver and its executors, of 2 CPU each, started anew when it ends otherwise than well."""
    pod: Object = {"memory": "512m", "terminationGracePeriodSeconds": 2}
    pod |= {"priorityClassName": priority} if priority else {}
    again = {"type": "OnFailure", "onFailureRetries": 5, "onFailureRetryInterval": 1}
    again |= {"onSubmissionFailureRetries": 5, "onSubmissionFailureRetryInterval": 1}
    spec = {
        "type": "Python",
        "mode": "cluster",
        "sparkVersion": "4.0.1",
        "image": "example.com/spark:4",
        "mainApplicationFile": "local:///opt/spark/examples/src/main/python/pi.py",
        "batchScheduler": scheduler,
        "batchSchedulerOptions": {"priorityClassName": priority} if priority else {},
        "restartPolicy": again,
        "sparkConf": {"spark.ui.enabled": "false"},
        "driver": {**pod, "cores": 2, "serviceAccount": "default", "kubernetesMaster": plane.server},
        "executor": {**pod, "cores": 2, "instances": executors},
    }
    version, _, kind = APPLICATION.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def environment(plane: ControlPlane, home: Path) -> dict[str, str]:
    """Of what is Spark's: where it is, and where the API server."""
    host, _, port = plane.server.removeprefix("https://").rpartition(":")
    return {
        **os.environ,
        "SPARK_HOME": str(home),
        "KUBECONFIG": str(plane.admin_kubeconfig),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def started(command: list[str], variables: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A process that writes into a log."""
    with log.open("wb") as out:
        return subprocess.Popen(command, env=variables, stdout=out, stderr=out)


class Drivers:
    """Plays the drivers of the driver pods that run: each until its pod is told to end."""

    def __init__(self, admin: Client, plane: ControlPlane, folder: Path, home: Path) -> None:
        self._admin, self._plane, self._folder, self._home = admin, plane, folder, home
        self._processes: dict[str, subprocess.Popen[bytes]] = {}  # by the pods' UIDs

    async def look(self) -> None:
        """Start and end drivers as the pods ask for it."""
        pods = [p for p in await self._admin.list("Pod") if p["metadata"].get("labels", {}).get(ROLE) == "driver"]
        alive = [p for p in pods if p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"]]
        for uid in self._processes.keys() - {p["metadata"]["uid"] for p in alive}:
            self._processes.pop(uid).terminate()
        for pod in alive:
            volumes = pod["spec"]["volumes"]
            name = next(v["configMap"]["name"] for v in volumes if v["name"].startswith("spark-conf-volume"))
            uid, found = pod["metadata"]["uid"], await self._admin.find("ConfigMap", name)
            if uid not in self._processes and found is not None:  # it is made after the pod, which waits for it
                self._processes[uid] = self._start(uid, found["data"]["spark.properties"])

    def _start(self, uid: str, says: str) -> subprocess.Popen[bytes]:
        properties = self._folder / f"driver-{uid}.properties"
        properties.write_text(says)
        main = self._home / "examples" / "src" / "main" / "python" / "pi.py"
        here = ("bindAddress=127.0.0.1", "host=127.0.0.1", "port=0", "blockManager.port=0")
        flags = [word for each in here for word in ("--conf", f"spark.driver.{each}")]
        words = [str(self._home / "bin" / "spark-submit"), "--deploy-mode", "client"]
        words += ["--properties-file", str(properties), *flags, str(main), "2"]
        own = {**environment(self._plane, self._home), "PYSPARK_PYTHON": sys.executable}
        return started(words, own, self._folder / f"driver-{uid}.log")

    @asynccontextmanager
    async def played(self) -> AsyncIterator[None]:
        """While the block lasts."""

        async def forever() -> None:
            while True:
                await self.look()
                await asyncio.sleep(0.3)

        try:
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(forever())
                yield
                task.cancel()
        finally:
            for process in self._processes.values():
                process.kill()
                process.wait()


@asynccontextmanager
async def operator(
    admin: Client, plane: ControlPlane, folder: Path, binary: Path, sources: Path, home: Path
) -> AsyncIterator[None]:
    """The operator and its webhooks while the block lasts. The latter listen on all interfaces, which no flag changes:
    they have a network of their own, and the certificate of a Secret, as if cert-manager had made it.
    """
    port, secret, space = free_port(), "spark-operator-webhook-certs", "default"
    authority = serving_certificate(folder / "webhook", rsa_key=True)
    files = ("ca.crt", "tls.crt", "tls.key")
    data = {name: base64.b64encode((folder / "webhook" / name).read_bytes()).decode() for name in files}
    await admin.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "data": data}, space)
    found = webhooks(sources / "config" / "webhook" / "manifests.yaml", port, authority, ["pods", "sparkapplications"])
    for each in (hook for configuration in found for hook in configuration["webhooks"]):
        if "pods" in each["rules"][0]["resources"]:
            each["objectSelector"] = {"matchLabels": {LAUNCHED: "true"}}
    common = ("--kubeconfig", plane.admin_kubeconfig, "--namespaces=default")
    probes = [f"--health-probe-bind-address=127.0.0.1:{free_port()}" for _ in range(2)]
    certificate = (f"--webhook-secret-name={secret}", f"--webhook-secret-namespace={space}", "--enable-cert-manager")
    serving = (f"--webhook-port={port}", f"--webhook-cert-dir={folder / 'serving'}", *certificate, probes[0])
    schedulers = ("--enable-batch-scheduler", f"--kube-scheduler-names={OURS}", "--enable-ui-service=false")
    own = environment(plane, home)
    shown = [f"{name}={own[name]}" for name in own.keys() - os.environ.keys() | {"KUBECONFIG", "SPARK_HOME"}]
    with (
        running(folder, "spark-webhook", *isolated(plane, folder, port), binary, "webhook", "start", *common, *serving),
        running(
            folder, "spark-operator", "env", *shown, binary, "controller", "start", *common, *schedulers, probes[1]
        ),
    ):
        await admin.apply(found)
        yield


async def executors_leave(rivals: Rivals, plane: ControlPlane, folder: Path) -> None:
    """The room of executors is held while they do not exist yet: a pod that comes meanwhile waits. One executor is all
    that a second application has: two of the first make room, and its driver stays. It makes others, which start when
    the second application is gone. The groups are those of scheduler-plugins.
    """
    other = {"apiVersion": "v1", "kind": "Pod", **template("2")}
    other["metadata"] |= {"name": "other", "namespace": "default"}
    low, high = application(plane, OURS, "low"), application(plane, OURS, "high", "urgent", executors=1)
    async with running_scheduler(plane.scheduler_kubeconfig, folder):
        await rivals.admin.apply(low)
        await rivals.all_in("low", "Running", 1)
        await rivals.admin.apply(other)
        await rivals.all_in("low", "Running")
        waits = (await rivals.admin.get("Pod", "other"))["status"]
        assert waits["phase"] == "Pending", "it has taken the room of an executor"
        await rivals.admin.delete("Pod", "other")
        (driver,) = [p for p in await rivals.pods("low") if p["metadata"]["labels"][ROLE] == "driver"]
        await rivals.admin.apply(high)
        await rivals.all_in("high", "Running", 2)
        await rivals.all_in("low", "Pending", 2)
        found = await rivals.admin.get("Pod", driver["metadata"]["name"])
        assert found["metadata"]["uid"] == driver["metadata"]["uid"], "its driver was evicted"
        group = await rivals.admin.get(GROUPS["coscheduling"], "high-pg")
        await rivals.clear(high)
        await rivals.all_in("low", "Running")
    await rivals.clear(low)
    print("a pod that came before the executors waited for their room")
    print(f"two executors made room for {group['spec']['minResources']}; their driver stayed, and made others")


async def spark_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of two applications the one of higher priority evicts the other, which its operator starts again, and only
    executors of it where these are enough.
    """
    home, definition = spark_home(), sources / "config" / "crd" / "bases"
    async with Client(plane.admin_kubeconfig) as admin:
        groups = [MANIFESTS / name / "crd-podgroups.yaml" for name in GROUPS]
        await prepared(admin, *sorted(definition.glob("*.yaml")), *groups)
        await wait_until_served(admin, APPLICATION, *GROUPS.values())
        rivals = Rivals(admin, OF_APPLICATION, 4, first=1)
        async with operator(admin, plane, folder, binary, sources, home):

            async def answers() -> bool:
                try:
                    await rivals.clear((await admin.apply(application(plane, "volcano", "probe")))[0])
                except ApiError:
                    return False
                return True

            await wait_until(answers, what="the webhooks of Spark's operator answer", timeout=60)
            async with Drivers(admin, plane, folder, home).played():
                low, high = (application(plane, "volcano", n, p) for n, p in (("low", ""), ("high", "urgent")))
                recorded = (("PriorityClass", "Node", APPLICATION, GROUPS["volcano"], "Pod"), RECORDED)
                settings: dict[str, Any] = {"profiles": [{"schedulerName": "volcano"}], "announced": {"evict": True}}
                await rivals.meet(plane, folder, [low], [high], recorded, **settings)
                await executors_leave(rivals, plane, folder)
