"""What is shipped as YAML: the rights that are asked for, how the pods run, the PodGroup CRD, and the examples."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from gangsched.runtime import config, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
EXAMPLES = ROOT / "examples"
SCHEDULER_NAME = "py-gang-scheduler"

Object = dict[str, Any]


class StrictLoader(yaml.SafeLoader):
    """A loader that refuses what PyYAML accepts in silence and an API server does not: the same key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, or raise when a key is repeated."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = [key for key, count in Counter(keys).items() if count > 1]
        if repeated:
            raise yaml.constructor.ConstructorError(None, None, f"repeated keys: {repeated}", node.start_mark)
        return super().construct_mapping(node, deep)


def load_all(path: Path) -> list[Object]:
    """All documents of a file; none of them may be empty."""
    documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=StrictLoader))
    assert all(documents), f"{path} has an empty document"
    return documents


def load_folder(folder: Path) -> list[Object]:
    """All objects of a folder, in the order of its file names."""
    return [document for path in sorted(folder.glob("*.yaml")) for document in load_all(path)]


def installed() -> list[Object]:
    """All objects that `kubectl apply -k manifests/` creates."""
    return [document for document in load_folder(MANIFESTS) if document["kind"] != "Kustomization"]


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    """The only object of this kind (and name)."""
    found = [o for o in objects if o["kind"] == kind and name in {None, o["metadata"]["name"]}]
    assert len(found) == 1, f"{len(found)} objects of kind {kind} and name {name}"
    return found[0]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """All objects of this kind."""
    return [o for o in objects if o["kind"] == kind]


# ------------------------------------------------------------------------------------------------------- kustomization


def test_kustomization_lists_exactly_the_files_of_the_folder() -> None:
    """Every manifest is installed, and nothing is listed that is not there."""
    listed = load_all(MANIFESTS / "kustomization.yaml")[0]["resources"]
    present = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert Counter(listed) == Counter(present)


def test_image_in_kustomization_is_the_one_of_the_deployment_and_of_this_version() -> None:
    """The image that is installed is the one of the version in pyproject.toml."""
    (image,) = load_all(MANIFESTS / "kustomization.yaml")[0]["images"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
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


def test_every_object_says_that_it_is_ours() -> None:
    """One label finds everything that was installed, for a look or a clean-up."""
    unlabelled = [
        f"{o['kind']}/{o['metadata']['name']}"
        for o in installed()
        if o["metadata"].get("labels", {}).get("app.kubernetes.io/name") != "gangsched"
    ]
    assert unlabelled == []


# ---------------------------------------------------------------------------------------------------------------- RBAC

READ = {"get", "list", "watch"}

# (API group, resource) -> verbs, in the whole cluster. A change here is a change of what operators have to trust.
CLUSTER_RIGHTS = {
    ("", "pods"): READ | {"delete"},
    ("", "pods/status"): {"patch"},
    ("", "pods/binding"): {"create"},
    ("", "pods/eviction"): {"create"},
    ("", "nodes"): READ,
    ("", "namespaces"): READ,
    ("", "services"): READ,
    ("", "replicationcontrollers"): READ,
    ("apps", "replicasets"): READ,
    ("apps", "statefulsets"): READ,
    ("", "events"): {"create", "patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
    ("policy", "poddisruptionbudgets"): READ,
    ("scheduling.k8s.io", "priorityclasses"): READ,
    ("scheduling.k8s.io", "podgroups"): READ,
    ("scheduling.k8s.io", "podgroups/status"): {"patch"},
    ("scheduling.k8s.io", "workloads"): READ,
    ("scheduling.sigs.k8s.io", "podgroups"): READ | {"patch"},
    ("scheduling.sigs.k8s.io", "podgroups/status"): {"patch"},
    ("scheduling.x-k8s.io", "podgroups"): READ,
    ("batch", "jobs"): READ | {"patch"},
    ("", "persistentvolumes"): READ | {"patch"},
    ("", "persistentvolumeclaims"): READ | {"patch"},
    ("kueue.x-k8s.io", "clusterqueues"): READ,
    ("kueue.x-k8s.io", "cohorts"): READ,
    ("kueue.x-k8s.io", "localqueues"): READ,
    ("kueue.x-k8s.io", "resourceflavors"): READ,
    ("kueue.x-k8s.io", "workloadpriorityclasses"): READ,
    ("storage.k8s.io", "storageclasses"): READ,
    ("storage.k8s.io", "csinodes"): READ,
    ("storage.k8s.io", "csidrivers"): READ,
    ("storage.k8s.io", "csistoragecapacities"): READ,
    ("storage.k8s.io", "volumeattachments"): READ,
}

# (API group, resource, name or None for any) -> verbs, in the namespace of the scheduler.
NAMESPACE_RIGHTS = {
    ("coordination.k8s.io", "leases", None): {"create"},
    ("coordination.k8s.io", "leases", "py-gang-scheduler"): {"get", "update"},
}


def rights(role: Object) -> dict[tuple[str, str, str | None], set[str]]:
    """Everything a role grants, by (API group, resource, object name or None)."""
    granted: dict[tuple[str, str, str | None], set[str]] = {}
    for rule in role["rules"]:
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}, f"unexpected key in {rule}"
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [None]):
                    granted.setdefault((group, resource, name), set()).update(rule["verbs"])
    return granted


def test_cluster_role_grants_exactly_the_table() -> None:
    """The ClusterRole grants what the table above says: nothing more, nothing less."""
    expected = {(group, resource, None): verbs for (group, resource), verbs in CLUSTER_RIGHTS.items()}
    assert rights(one(installed(), "ClusterRole")) == expected


def test_role_grants_exactly_the_table() -> None:
    """The Role grants the one Lease, and create, which cannot be restricted by name."""
    role = one(installed(), "Role")
    assert role["metadata"]["namespace"] == "gangsched-system"
    assert rights(role) == NAMESPACE_RIGHTS


def test_no_role_grants_wildcards_secrets_or_rights_over_rights() -> None:
    """Not even by a change of the tables: no wildcard, no secret, no CRD, nothing that could widen the rights."""
    forbidden_resources = {"*", "secrets", "configmaps", "customresourcedefinitions", "serviceaccounts/token"}
    forbidden_verbs = {"*", "deletecollection", "impersonate", "bind", "escalate"}
    for role in [*of_kind(installed(), "ClusterRole"), *of_kind(installed(), "Role")]:
        for (group, resource, _), verbs in rights(role).items():
            assert group not in {"*", "rbac.authorization.k8s.io", "apiextensions.k8s.io"}
            assert resource not in forbidden_resources
            assert "*" not in resource
            assert not verbs & forbidden_verbs


def test_every_rule_says_why_it_is_there() -> None:
    """The line above each RBAC rule is a comment."""
    lines = (MANIFESTS / "rbac.yaml").read_text(encoding="utf-8").splitlines()
    rules = [index for index, line in enumerate(lines) if line.lstrip().startswith("- apiGroups:")]
    roles = [*of_kind(installed(), "ClusterRole"), *of_kind(installed(), "Role")]
    assert len(rules) == sum(len(role["rules"]) for role in roles)
    assert [lines[index] for index in rules if not lines[index - 1].lstrip().startswith("# ")] == []


def test_bindings_join_our_roles_and_our_service_account() -> None:
    """Each role is bound once, to the service account that the pods run as and to nobody else."""
    account = one(installed(), "ServiceAccount")["metadata"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    for role_kind in ("ClusterRole", "Role"):
        role = one(installed(), role_kind)
        binding = one(installed(), f"{role_kind}Binding")
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role["metadata"]["name"]}
        assert binding["roleRef"] == reference
        assert binding["subjects"] == [subject]
        assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
    assert pod_spec()["serviceAccountName"] == account["name"]


# ---------------------------------------------------------------------------------------------------------- Deployment


def pod_template() -> Object:
    """The pod template of the Deployment."""
    template: Object = one(installed(), "Deployment")["spec"]["template"]
    return template


def pod_spec() -> Object:
    """The pod spec of the Deployment."""
    spec: Object = pod_template()["spec"]
    return spec


def container() -> Object:
    """The only container of the Deployment."""
    (only,) = pod_spec()["containers"]
    result: Object = only
    return result


def configuration() -> Object:
    """The configuration file in the ConfigMap."""
    (text,) = one(installed(), "ConfigMap")["data"].values()
    document: Object = yaml.load(text, Loader=StrictLoader)
    return document


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


# ------------------------------------------------------------------------------------------------------- configuration


def seconds(duration: str) -> Decimal:
    """Seconds of a duration such as 15s or 500ms."""
    match = re.fullmatch(r"([0-9]+)(ms|s|m)", duration)
    assert match, f"{duration!r} is no duration"
    return Decimal(match[1]) * {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60)}[match[2]]


def example_configuration() -> Path:
    """The configuration file that documents every setting."""
    return EXAMPLES / "config" / "scheduler-configuration.yaml"


def leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of each scalar and each empty list in a document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(document, (list, tuple)) and document:
        for value in document:
            yield from leaves(value, f"{path}[]")
    else:
        yield path, document


def test_configuration_file_is_where_the_command_looks_for_it() -> None:
    """The path in --config is a key of the ConfigMap below the mount of its volume."""
    command, option = container()["args"]
    path = Path(option.removeprefix("--config="))
    (mount,) = (mount for mount in container()["volumeMounts"] if mount["mountPath"] == str(path.parent))
    (volume,) = (volume for volume in pod_spec()["volumes"] if volume["name"] == mount["name"])
    config_map = one(installed(), "ConfigMap")
    assert command == "run"
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    assert path.name in config_map["data"]


def test_lease_in_the_configuration_is_the_one_that_rbac_allows() -> None:
    """The scheduler may write the Lease that it is told to take."""
    election, role = configuration()["leaderElection"], one(installed(), "Role")
    assert election["resourceNamespace"] == role["metadata"]["namespace"]
    lease = ("coordination.k8s.io", "leases", election["resourceName"])
    assert {"get", "update"} <= rights(role).get(lease, set())


@pytest.mark.parametrize("source", ["installed", "example"])
def test_configuration_is_consistent(source: str) -> None:
    """Kind, scheduler name and mode names are ours, and the leader gives up before a standby may take over."""
    example = load_all(example_configuration())[0]
    config = configuration() if source == "installed" else example
    assert (config["apiVersion"], config["kind"]) == ("gangsched.dev/v1alpha1", "GangSchedulerConfiguration")
    assert [profile["schedulerName"] for profile in config["profiles"]] == [SCHEDULER_NAME]
    assert config["clientConnection"]["qps"] <= config["clientConnection"]["burst"]
    election = config["leaderElection"]
    times = [seconds(election[key]) for key in ("retryPeriod", "renewDeadline", "leaseDuration")]
    assert times == sorted(set(times))
    assert config["preemption"]["gangMode"] in {"elastic", "atomic", "minimal", "off"}
    assert config["preemption"]["pdb"] in {"preferred", "strict"}


def test_scheduler_reads_both_files_and_they_change_no_default() -> None:
    """The loader of the scheduler accepts what is installed and what is documented, and both mean the defaults."""
    (text,) = one(installed(), "ConfigMap")["data"].values()
    assert config.parse(text) == settings.Configuration()
    assert config.load(example_configuration()) == settings.Configuration()


def test_example_configuration_shows_every_setting() -> None:
    """No setting of the scheduler is missing from the example."""
    (example,) = load_all(example_configuration())
    every = {path for path, _ in leaves(msgspec.to_builtins(settings.Configuration(), builtin_types=(list,)))}
    assert {path for path, _ in leaves(example)} == every


def test_port_in_the_configuration_is_the_one_that_is_probed() -> None:
    """The server listens where the kubelet and Prometheus look for it."""
    assert config.load(example_configuration()).http.port == container()["ports"][0]["containerPort"]
    assert "http" not in configuration()


def test_example_configuration_documents_every_installed_key() -> None:
    """Whatever the ConfigMap sets is in the example with the same value."""
    (example,) = load_all(example_configuration())
    documented = dict(leaves(example))
    assert {path: documented.get(path) for path, _ in leaves(configuration())} == dict(leaves(configuration()))


# ------------------------------------------------------------------------------------------------------------- the CRD


def crd() -> Object:
    """The CustomResourceDefinition of PodGroup."""
    return one(installed(), "CustomResourceDefinition")


def crd_version() -> Object:
    """Its only version."""
    (version,) = crd()["spec"]["versions"]
    result: Object = version
    return result


def crd_schema() -> Object:
    """The schema of its only version."""
    schema: Object = crd_version()["schema"]["openAPIV3Schema"]
    return schema


def schema_nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """(path, schema) of a schema and of every schema of a field, element or map value in it."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from schema_nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from schema_nodes(schema[key], f"{path}[]")


def violations(schema: Object, value: Any, path: str = "") -> list[str]:
    """What an API server would reject or prune in `value`; only the keywords that our schema uses are understood."""
    understood = {
        *("type", "format", "description", "properties", "additionalProperties", "items", "required", "enum"),
        *("minimum", "minLength", "maxLength", "pattern", "anyOf"),
        *("x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    }
    assert set(schema) <= understood, f"{path}: this test does not know {set(schema) - understood}"
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, (int, str)) and not isinstance(value, bool)
    else:
        python_type = {"object": dict, "array": list, "string": str, "integer": int}[schema["type"]]
        fits = isinstance(value, python_type) and not isinstance(value, bool)
    if not fits:
        return [f"{path}: {value!r} has the wrong type"]
    found = []
    if isinstance(value, dict) and path != ".metadata":
        properties = schema.get("properties", {})
        found += [f"{path}.{name}: missing" for name in schema.get("required", []) if name not in value]
        for name, child in value.items():
            child_schema = properties.get(name) or schema.get("additionalProperties")
            if child_schema is None:
                found.append(f"{path}.{name}: unknown field")
            else:
                found += violations(child_schema, child, f"{path}.{name}")
    if isinstance(value, list):
        for index, child in enumerate(value):
            found += violations(schema["items"], child, f"{path}[{index}]")
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append(f"{path}: {value} is below the minimum")
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            found.append(f"{path}: {value!r} does not match")
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            found.append(f"{path}: length {len(value)}")
        if value not in schema.get("enum", [value]):
            found.append(f"{path}: {value!r} is none of {schema['enum']}")
    return found


def test_crd_is_the_api_that_people_already_use() -> None:
    """Group, version, names and scope are those of Koordinator's and scheduler-plugins' PodGroup."""
    spec = crd()["spec"]
    assert (spec["group"], crd_version()["name"], spec["scope"]) == ("scheduling.sigs.k8s.io", "v1alpha1", "Namespaced")
    names = spec["names"]
    assert (names["kind"], names["listKind"], names["plural"]) == ("PodGroup", "PodGroupList", "podgroups")
    assert names["singular"] == "podgroup"
    assert "pg" in names["shortNames"]
    # A short name that repeats a name is ambiguous with the resource of the same name in scheduling.k8s.io.
    assert not {names["plural"], names["singular"]} & set(names["shortNames"])
    assert crd()["metadata"]["name"] == f"{names['plural']}.{spec['group']}"
    assert crd_version()["served"] is True
    assert crd_version()["storage"] is True


def test_crd_carries_the_approval_that_its_protected_group_needs() -> None:
    """Without a URL or "unapproved…" in this annotation the API server refuses CRDs of groups under k8s.io."""
    approval = crd()["metadata"]["annotations"]["api-approved.kubernetes.io"]
    assert approval == "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"


def test_crd_schema_is_structural() -> None:
    """Each field has a type (or is int-or-string, which must not have one), and each array and map says of what."""
    for path, node in schema_nodes(crd_schema()):
        if node.get("x-kubernetes-int-or-string"):
            assert "type" not in node, path
            assert node.get("anyOf", [{"type": "integer"}, {"type": "string"}]) == [
                {"type": "integer"},
                {"type": "string"},
            ]
            continue
        assert node.get("type") in {"object", "array", "string", "integer"}, f"{path} has no type"
        assert ("items" in node) == (node["type"] == "array"), path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert set(node.get("required", [])) <= set(node.get("properties", {})), path
        if node.get("x-kubernetes-list-type") == "map":
            assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"]), path


def test_crd_describes_every_field() -> None:
    """`kubectl explain podgroups` has a sentence for everything but metadata, where the API server refuses one."""
    silent = [path for path, node in schema_nodes(crd_schema()) if not node.get("description", "").endswith(".")]
    assert silent == [".metadata"]
    assert crd_schema()["properties"]["metadata"] == {"type": "object"}


def test_crd_has_the_fields_and_types_of_the_published_one() -> None:
    """No field that users or other controllers write would be pruned or refused for its type."""
    fields = {path: (node.get("type"), node.get("format")) for path, node in schema_nodes(crd_schema())}
    number, text = ("integer", "int32"), ("string", None)
    published = {
        ".spec.minMember": number,
        ".spec.minResources": ("object", None),
        ".spec.minResources[]": (None, None),
        ".spec.scheduleTimeoutSeconds": number,
        ".status.phase": text,
        ".status.occupiedBy": text,
        ".status.scheduled": number,
        ".status.running": number,
        ".status.succeeded": number,
        ".status.failed": number,
        ".status.scheduleStartTime": ("string", "date-time"),
    }
    assert {path: fields.get(path) for path in published} == published
    assert "enum" not in crd_schema()["properties"]["status"]["properties"]["phase"]
    assert "required" not in crd_schema()
    assert "required" not in crd_schema()["properties"]["spec"]


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({"minMember": 2, "scheduleTimeoutSeconds": 300}, True),
        ({"minMember": 1, "minResources": {"cpu": 4, "memory": "16Gi", "nvidia.com/gpu": "0.5"}}, True),
        ({"minMember": 3, "minResources": {"cpu": "500m", "memory": "1e9", "pods": "+3."}}, True),
        ({"minMember": 3, "scheduleTimeoutSeconds": -1}, True),
        ({}, True),
        ({"minMember": 0}, False),
        ({"minMember": "2"}, False),
        ({"minMember": 2, "minResources": {"cpu": "four"}}, False),
        ({"minMember": 2, "minResources": {"memory": "16 Gi"}}, False),
        ({"minMember": 2, "minResources": {"memory": ""}}, False),
        ({"minMembers": 2}, False),
    ],
)
def test_crd_accepts_what_users_write_and_nothing_else(spec: Object, accepted: bool) -> None:
    """Specs in use are valid and keep all of their fields; mistakes are refused or show as unknown fields."""
    found = violations(crd_schema(), {"metadata": {"name": "a"}, "spec": spec})
    assert (found == []) is accepted, found


def test_crd_accepts_the_status_that_we_write() -> None:
    """Counts and a condition go in whole; a condition without a transition time is refused."""
    condition = {
        "type": "PodGroupScheduled",
        "status": "False",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
    }
    status = {"phase": "Scheduling", "scheduled": 1, "running": 0, "conditions": [condition]}
    assert violations(crd_schema(), {"status": status}) == []
    del condition["lastTransitionTime"]
    assert violations(crd_schema(), {"status": status}) == [".status.conditions[0].lastTransitionTime: missing"]


def test_crd_status_is_a_subresource_and_conditions_are_merged_by_type() -> None:
    """Users cannot write the status with the spec, and two writers of conditions do not overwrite each other."""
    assert crd_version()["subresources"] == {"status": {}}
    conditions = crd_schema()["properties"]["status"]["properties"]["conditions"]
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])


def test_crd_columns_point_at_fields_of_the_schema() -> None:
    """`kubectl get podgroups` shows min, scheduled, running, phase and age, each from a field of that type."""
    columns = crd_version()["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == ["Min", "Scheduled", "Running", "Phase", "Age"]
    fields = dict(schema_nodes(crd_schema()))
    for column in columns:
        if column["jsonPath"] == ".metadata.creationTimestamp":
            assert column["type"] == "date"
        else:
            assert fields[column["jsonPath"]]["type"] == column["type"]


# -------------------------------------------------------------------------------------------------------------- image


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, arguments) of the Dockerfile, with continued lines joined."""
    text = (MANIFESTS / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    instructions = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in instructions]


def test_image_runs_as_the_user_of_the_deployment() -> None:
    """The last stage sets the numeric user and group that the Deployment asks for, and starts our command."""
    steps = dockerfile()
    last_stage = steps[max(index for index, (name, _) in enumerate(steps) if name == "FROM") :]
    (user,) = (value for name, value in last_stage if name == "USER")
    security = pod_spec()["securityContext"]
    assert user == f"{security['runAsUser']}:{security['runAsGroup']}"
    (entrypoint,) = (value for name, value in last_stage if name == "ENTRYPOINT")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    (command,) = json.loads(entrypoint)
    assert command in scripts
    assert "command" not in container()
    (exposed,) = (value for name, value in last_stage if name == "EXPOSE")
    assert int(exposed) == container()["ports"][0]["containerPort"]
    assert any(name == "ENV" and "PYTHONDONTWRITEBYTECODE=1" in value for name, value in last_stage)


def test_image_installs_nothing_without_a_hash() -> None:
    """Each `pip install` or `pip wheel` requires hashes, or can reach nothing but what this repository built."""
    commands = [
        command
        for name, value in dockerfile()
        if name == "RUN"
        for command in value.split("&&")
        if re.search(r"pip (install|wheel|download)", command)
    ]
    assert len(commands) >= 3
    for command in commands:
        from_the_lock = "--require-hashes" in command and "--only-binary=:all:" in command
        from_here = "--no-deps" in command and ("--no-index" in command or "--no-build-isolation" in command)
        assert from_the_lock or from_here, command


def test_image_build_takes_the_whole_build_backend_from_the_lock() -> None:
    """The list in the Dockerfile names the build backend and everything that the lock says is there because of it."""
    (script,) = (value for name, value in dockerfile() if name == "RUN" and "awk" in value)
    match = re.search(r"/\^\(([a-z|-]+)\)==/", script)
    assert match
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^([a-z0-9-]+)==.*\n((?:[ ]+.*\n)*)", lock, re.MULTILINE)
    wanted = {name for name, notes in entries if name == "hatchling" or re.search(r"#\s+(via )?hatchling\n", notes)}
    assert wanted
    assert wanted <= set(match[1].split("|"))


def test_image_build_sees_what_it_copies_and_little_else() -> None:
    """The ignore file refuses everything, then lets in exactly what the Dockerfile copies from the repository."""
    copied = {
        source.rstrip("*")
        for name, value in dockerfile()
        if name == "COPY" and not value.startswith("--from")
        for source in value.split()[:-1]
    }
    patterns = (MANIFESTS / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in patterns if line and not line.startswith("#")]
    assert patterns[0] == "*"
    assert {line[1:] for line in patterns if line.startswith("!")} == copied


# ------------------------------------------------------------------------------------------------------------ examples

CLUSTERS = ["koordinator", "workload"]


SUFFIXES = {"m": Decimal("0.001"), "": Decimal(1), "Mi": Decimal(2**20), "Gi": Decimal(2**30)}


def quantity(value: str | int) -> Decimal:
    """A quantity in base units; only the suffixes that our files use."""
    match = re.fullmatch(r"([0-9]+)(m|Mi|Gi|)", str(value))
    assert match, f"{value!r} is no quantity"
    return Decimal(match[1]) * SUFFIXES[match[2]]


def cpu(pod: Object) -> Decimal:
    """CPU that a pod requests."""
    return sum((quantity(c["resources"]["requests"]["cpu"]) for c in pod["spec"]["containers"]), Decimal(0))


def group_of(pod: Object) -> str | None:
    """Name of the PodGroup that a pod belongs to, by the label or the field of its API."""
    label = pod["metadata"].get("labels", {}).get("pod-group.scheduling.sigs.k8s.io")
    field = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    name: str | None = label or field
    return name


def minimum_of(group: Object) -> int:
    """Members that a group needs, in either API."""
    spec = group["spec"]
    return int(spec["minMember"] if "minMember" in spec else spec["schedulingPolicy"]["gang"]["minCount"])


def test_every_example_is_tested() -> None:
    """A new folder of examples has to be named in this file, and in the README of the examples."""
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    # Elsewhere: tests/runtime/test_example_plugin.py and tests/cli/test_queues.py.
    assert folders == {*CLUSTERS, "config", "plugin-gpu-reserve", "quota-gpu"}
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert folders == set(re.findall(r"^\| \[`([a-z-]+)/`\]", readme, re.MULTILINE))


@pytest.mark.parametrize("folder", CLUSTERS)
def test_files_of_an_example_sort_in_the_order_of_creation(folder: str) -> None:
    """Nodes come first, then priority classes, then what names them, and a group comes before its members."""
    rank = {"Node": 0, "PriorityClass": 1, "Workload": 2, "PodGroup": 3, "Pod": 4}
    paths = sorted((EXAMPLES / folder).glob("*"))
    assert all(re.fullmatch(r"[0-9]0-[a-z-]+\.yaml", path.name) for path in paths)
    for path in paths:
        ranks = [rank[o["kind"]] for o in load_all(path)]
        assert ranks == sorted(ranks), path
    kinds = [o["kind"] for o in load_folder(EXAMPLES / folder)]
    first = {kind: kinds.index(kind) for kind in kinds}
    assert first["Node"] < first["PriorityClass"] < first["Pod"]


@pytest.mark.parametrize("folder", CLUSTERS)
def test_names_in_an_example_are_unique_and_resolve(folder: str) -> None:
    """Every class, node, group and workload that an object names is in the same folder, and nothing is there twice."""
    objects = load_folder(EXAMPLES / folder)
    keys = Counter((o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects)
    assert max(keys.values()) == 1
    known: dict[str, set[str]] = {}
    for o in objects:
        known.setdefault(o["kind"], set()).add(o["metadata"]["name"])
    for group in of_kind(objects, "PodGroup"):
        template = group["spec"].get("podGroupTemplateRef", {}).get("workload")
        if template is not None:
            workload = one(objects, "Workload", template["workloadName"])
            templates = {t["name"]: t for t in workload["spec"]["podGroupTemplates"]}
            policy = templates[template["podGroupTemplateName"]]["schedulingPolicy"]
            assert policy == group["spec"]["schedulingPolicy"]
        assert group["spec"].get("priorityClassName", "high-priority") in known["PriorityClass"]
    for pod in of_kind(objects, "Pod"):
        assert pod["spec"]["priorityClassName"] in known["PriorityClass"]
        assert pod["spec"].get("nodeName", objects[0]["metadata"]["name"]) in known["Node"]
        assert group_of(pod) is None or group_of(pod) in known["PodGroup"]


@pytest.mark.parametrize("folder", CLUSTERS)
def test_pods_of_an_example_are_ours(folder: str) -> None:
    """Every pod asks for our scheduler and has one of the two states that an example starts from."""
    pods = of_kind(load_folder(EXAMPLES / folder), "Pod")
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER_NAME}
    for pod in pods:
        running = pod.get("status", {}).get("phase") == "Running"
        assert running == ("nodeName" in pod["spec"])
        assert running or "status" not in pod


@pytest.mark.parametrize("folder", CLUSTERS)
def test_low_priority_pods_go_quickly(folder: str) -> None:
    """Victims end within seconds, so that nobody who tries an example waits half a minute."""
    victims = [
        pod
        for pod in of_kind(load_folder(EXAMPLES / folder), "Pod")
        if pod["spec"]["priorityClassName"] == "low-priority"
    ]
    assert {pod["spec"]["terminationGracePeriodSeconds"] for pod in victims} == {3}


@pytest.mark.parametrize("folder", CLUSTERS)
def test_an_example_needs_preemption_and_can_be_solved_by_it(folder: str) -> None:
    """What runs fits; the pending gang fits nowhere beside it, not even in part; it fits when all of that is gone."""
    objects = load_folder(EXAMPLES / folder)
    pods = of_kind(objects, "Pod")
    free = {n["metadata"]["name"]: quantity(n["status"]["allocatable"]["cpu"]) for n in of_kind(objects, "Node")}
    room = sorted(free.values(), reverse=True)
    for pod in pods:
        if "nodeName" in pod["spec"]:
            free[pod["spec"]["nodeName"]] -= cpu(pod)
    assert min(free.values()) >= 0
    pending = [pod for pod in pods if "nodeName" not in pod["spec"]]
    (group_name,) = {group_of(pod) for pod in pending}
    group = one(objects, "PodGroup", group_name)
    assert minimum_of(group) == len(pending) == len(free)
    needs = sorted((cpu(pod) for pod in pending), reverse=True)
    assert max(free.values()) < needs[-1]
    assert all(need <= node for need, node in zip(needs, room, strict=True))
    priority = {c["metadata"]["name"]: c["value"] for c in of_kind(objects, "PriorityClass")}
    running = [pod for pod in pods if "nodeName" in pod["spec"]]
    assert max(priority[pod["spec"]["priorityClassName"]] for pod in running) < min(
        priority[pod["spec"]["priorityClassName"]] for pod in pending
    )


@pytest.mark.parametrize("folder", CLUSTERS)
def test_nodes_of_an_example_can_be_created_on_a_cluster_of_fake_nodes(folder: str) -> None:
    """KWOK looks after the nodes, and they offer what the text says: 4 CPU, 16Gi, 110 pods."""
    for node in of_kind(load_folder(EXAMPLES / folder), "Node"):
        assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]
        assert node["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}
        assert node["status"]["capacity"] == node["status"]["allocatable"]


def test_pod_group_of_the_koordinator_example_is_valid_under_our_crd() -> None:
    """Our CRD neither refuses nor prunes anything of the PodGroup as users write it."""
    group = one(load_folder(EXAMPLES / "koordinator"), "PodGroup")
    assert group["apiVersion"] == f"{crd()['spec']['group']}/{crd_version()['name']}"
    assert violations(crd_schema(), group) == []


def test_groups_of_the_workload_example_are_taken_whole() -> None:
    """The example shows what it says: upstream groups that are disrupted as a whole, with four pods each."""
    objects = load_folder(EXAMPLES / "workload")
    groups = of_kind(objects, "PodGroup")
    members = Counter(group_of(pod) for pod in of_kind(objects, "Pod"))
    assert members == {group["metadata"]["name"]: 4 for group in groups}
    for group in groups:
        assert group["apiVersion"] == "scheduling.k8s.io/v1alpha2"
        assert group["spec"]["disruptionMode"] == "PodGroup"
