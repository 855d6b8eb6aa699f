"""What `kubectl apply -k manifests/` installs, and how the pods run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

import gangsched
from tests.manifests.shipped import (
    MANIFESTS,
    SCHEDULER_NAME,
    Object,
    configuration,
    container,
    installed,
    load_all,
    one,
    pod_spec,
    pod_template,
    quantity,
    seconds,
)

# ------------------------------------------------------------------------------------------------------- kustomization


def test_kustomization_lists_exactly_the_files_of_the_folder() -> None:
    """Every manifest is installed, and nothing is listed that is not there."""
    listed = load_all(MANIFESTS / "kustomization.yaml")[0]["resources"]
    present = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert Counter(listed) == Counter(present)


def test_image_in_kustomization_is_the_one_of_the_deployment_and_of_this_version() -> None:
    """The image that is installed is the one of the version of the package."""
    (image,) = load_all(MANIFESTS / "kustomization.yaml")[0]["images"]
    version = gangsched.__version__
    assert "newName" not in image, "a registry of your own, in a file of everybody's"
    assert not re.fullmatch("[a-z0-9./-]+", image["name"]), "a name that some registry may have"
    assert image["newTag"] == version
    assert container()["image"] == f"{image['name']}:{version}"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_builds_the_same_objects() -> None:
    """Kustomize accepts the base and neither loses nor adds nor changes an object."""
    built = subprocess.run(
        ["kubectl", "kustomize", str(MANIFESTS)], capture_output=True, text=True, check=True, timeout=60
    )

    def by_key(objects: list[Object]) -> dict[str, Object]:
        return {f"{o['kind']}/{o['metadata'].get('namespace')}/{o['metadata']['name']}": o for o in objects}

    assert by_key(list(yaml.safe_load_all(built.stdout))) == by_key(installed())


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("name", sorted(path.name for path in (MANIFESTS / "components").iterdir()))
def test_kubectl_builds_with_each_component(name: str, tmp_path: Path) -> None:
    """An overlay as the component's first lines show it is one that kustomize takes, and no object is lost but those
    that the component removes by name.
    """
    (tmp_path / "py-gang-scheduler").symlink_to(MANIFESTS.parent)
    head_and_rest = (MANIFESTS / "components" / name / "kustomization.yaml").read_text()
    lines = head_and_rest[: head_and_rest.index("\napiVersion")].splitlines()
    first = next(number for number, line in enumerate(lines) if "apiVersion" in line)
    overlay = "\n".join(line.removeprefix("#   ") for line in lines[first : first + 4])
    tmp_path.joinpath("kustomization.yaml").write_text(overlay)
    command = ["kubectl", "kustomize", "--load-restrictor=LoadRestrictionsNone", str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert built.returncode == 0, built.stderr
    kinds = Counter((o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(built.stdout))
    patches = [each.get("patch", "") for each in yaml.safe_load(head_and_rest).get("patches", [])]
    removed = [yaml.safe_load(patch) for patch in patches if "$patch: delete" in patch]
    lost = Counter((o["kind"], o["metadata"]["name"]) for o in removed)
    assert kinds + lost >= Counter((o["kind"], o["metadata"]["name"]) for o in installed())
    assert not kinds & lost


def test_every_object_says_that_it_is_ours() -> None:
    """One label finds everything that was installed, for a look or a clean-up."""
    unlabelled = [
        f"{o['kind']}/{o['metadata']['name']}"
        for o in installed()
        if o["metadata"].get("labels", {}).get("app.kubernetes.io/name") != "gangsched"
    ]
    assert unlabelled == []


# ---------------------------------------------------------------------------------------------------------- Deployment


def test_pods_run_with_the_least_privileges() -> None:
    """The pods meet the restricted Pod Security Standard that their namespace enforces, with a read-only root."""
    pod, security = pod_spec()["securityContext"], container()["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert pod["runAsUser"] > 0
    assert pod["runAsGroup"] > 0
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod_spec())
    labels = one(installed(), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_only_an_empty_directory_is_writable() -> None:
    """Each mount has a volume, and whatever is not an emptyDir is mounted read-only."""
    volumes = {volume["name"]: volume for volume in pod_spec()["volumes"]}
    mounts = {mount["name"]: mount for mount in container()["volumeMounts"]}
    assert set(volumes) == set(mounts)
    writable = {name for name, mount in mounts.items() if not mount.get("readOnly", False)}
    assert writable == {name for name, volume in volumes.items() if "emptyDir" in volume}
    assert all("sizeLimit" in volumes[name]["emptyDir"] for name in writable)


def test_pods_ask_for_resources_and_are_limited() -> None:
    """Requests and limits are set for CPU and memory, and no request is above its limit."""
    resources = container()["resources"]
    for name in ("cpu", "memory"):
        assert 0 < quantity(resources["requests"][name]) <= quantity(resources["limits"][name])


def test_probes_and_metrics_use_the_port_that_is_declared() -> None:
    """Probes name the HTTP port of the container, and so do the Service and the scrape annotations."""
    (port,) = container()["ports"]
    assert (port["name"], port["containerPort"]) == ("http", 10259)
    assert container()["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http", "scheme": "HTTP"}
    assert container()["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http", "scheme": "HTTP"}
    annotations = pod_template()["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    (service_port,) = one(installed(), "Service")["spec"]["ports"]
    assert service_port["targetPort"] == port["name"]


def test_liveness_probe_is_more_patient_than_leader_election() -> None:
    """A process that stalls loses its Lease before the kubelet kills it, so a pause alone restarts nobody."""
    probe = container()["livenessProbe"]
    patience = probe["periodSeconds"] * probe["failureThreshold"]
    assert patience > seconds(configuration()["leaderElection"]["leaseDuration"])


def test_every_selector_finds_the_pods() -> None:
    """Deployment, PDB, Service, anti-affinity and spread constraints all select the labels of the template."""
    labels = pod_template()["metadata"]["labels"]
    (anti,) = pod_spec()["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (spread,) = pod_spec()["topologySpreadConstraints"]
    selectors = [
        one(installed(), "Deployment")["spec"]["selector"]["matchLabels"],
        one(installed(), "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(installed(), "Service")["spec"]["selector"],
        anti["podAffinityTerm"]["labelSelector"]["matchLabels"],
        spread["labelSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"


def test_scheduler_survives_drains_and_does_not_wait_for_itself() -> None:
    """Two replicas elect a leader, one may always be drained, and another scheduler places them."""
    deployment, budget = one(installed(), "Deployment")["spec"], one(installed(), "PodDisruptionBudget")["spec"]
    assert deployment["replicas"] >= 2
    assert configuration()["leaderElection"]["leaderElect"] is True
    assert 1 <= budget["minAvailable"] < deployment["replicas"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert pod_spec().get("schedulerName", "default-scheduler") != SCHEDULER_NAME
    assert pod_spec()["priorityClassName"] == "system-cluster-critical"


def test_quota_admits_the_priority_class_with_room_for_a_surge() -> None:
    """Where the cluster limits critical pods to namespaces with a quota, replicas and a rolling update fit in ours."""
    spec = one(installed(), "ResourceQuota")["spec"]
    (expression,) = spec["scopeSelector"]["matchExpressions"]
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [pod_spec()["priorityClassName"]]}
    assert expression == scope
    # Pods that still terminate count too: twice the replicas, and the surge.
    assert int(spec["hard"]["pods"]) >= 2 * one(installed(), "Deployment")["spec"]["replicas"] + 1
