"""The Helm chart says what the manifests say, with names, rights and extras to choose. Rendered by helm itself."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gangsched.runtime.config import defaults_text, load
from tests.manifests.programs import CHART, FOR, IMAGE, helm_says, hooks, rendered
from tests.manifests.shipped import MANIFESTS, ROOT, Object, installed, load_all, one, rights


def compared(thing: Object) -> Object:
    """An object without what only the chart says: more labels, its notes, and the selector by release."""
    out = copy.deepcopy(thing)

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key in ("labels", "matchLabels", "selector"):
                labels = value.get(key)
                if isinstance(labels, dict):
                    for label in ("instance", "version", "managed-by"):
                        labels.pop(f"app.kubernetes.io/{label}", None)
                    labels.pop("helm.sh/chart", None)
            notes = value.get("annotations")
            if isinstance(notes, dict):
                notes.pop("helm.sh/resource-policy", None)
                notes.pop("checksum/config", None)
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(out)
    if out["kind"] == "ConfigMap":
        out["data"]["config.yaml"] = yaml.safe_load(out["data"]["config.yaml"])
    if out["kind"] == "Deployment":
        (container,) = out["spec"]["template"]["spec"]["containers"]
        container["image"] = "any"
    return out


def named(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Objects by kind and name, as they are compared."""
    return {(each["kind"], each["metadata"]["name"]): compared(each) for each in objects}


def test_what_is_written_from_the_manifests_is_up_to_date() -> None:
    """`make chart` would change nothing."""
    done = subprocess.run(
        [sys.executable, ".ci/chart.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_chart_installs_what_kustomize_installs() -> None:
    """With default values and the same names, every object is equal in what it means; the namespace is the user's."""
    ours = named([each for each in installed() if each["kind"] != "Namespace"])
    theirs = named(rendered())
    assert set(theirs) == {*ours, ("NetworkPolicy", "gangsched")}
    for key, thing in ours.items():
        assert theirs[key] == thing, key


def test_names_and_namespace_are_free() -> None:
    """Another release in another namespace: no object is named or placed as the first one, and bindings agree. What the
    leader publishes is for all who are authenticated.
    """
    everybody = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    first, second = named(rendered()), named(rendered(name="batch", namespace="sched"))
    shared = {key for key in first if key in second}
    assert {kind for kind, _ in shared} == {"CustomResourceDefinition"}
    for thing in second.values():
        assert thing["metadata"].get("namespace", "sched") == "sched"
        for subject in thing.get("subjects", ()):
            ours = {"kind": "ServiceAccount", "name": "batch-gangsched", "namespace": "sched"}
            assert subject == (everybody if thing["metadata"]["name"] == "batch-gangsched-status" else ours)
    configured = one([*second.values()], "ConfigMap")["data"]["config.yaml"]
    assert configured["leaderElection"]["resourceNamespace"] == "sched"


def test_the_configuration_is_one_that_the_scheduler_reads(tmp_path: Path) -> None:
    """Values under `config` become its file; the Lease that it names is the one that it may take."""
    objects = rendered(
        "--set=config.leaderElection.resourceName=other",
        "--set=config.profiles[0].schedulerName=train",
        "--set=config.preemption.pdb=strict",
    )
    file = tmp_path / "config.yaml"
    file.write_text(one(objects, "ConfigMap")["data"]["config.yaml"])
    read = load(file)
    assert [each.scheduler_name for each in read.profiles] == ["train"]
    assert (read.preemption.pdb, read.leader_election.resource_name) == ("strict", "other")
    roles = [each for each in objects if each["kind"] == "Role" and "leader" in each["metadata"]["name"]]
    assert ["other"] in [rule.get("resourceNames") for rule in roles[0]["rules"]]


def groups_of(objects: list[Object]) -> set[str]:
    """API groups of which the scheduler may do something."""
    roles = [o for o in objects if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "gangsched"]
    return {group for role in roles for rule in role["rules"] for group in rule["apiGroups"]}


FEATURES = sorted(json.loads((CHART / "values.schema.json").read_text())["properties"]["features"]["properties"])


@pytest.mark.parametrize("feature", FEATURES)
def test_rights_go_with_their_feature(feature: str) -> None:
    """Switched off, a feature leaves fewer rights, and every other rule as it was."""

    def rules(*values: str) -> list[str]:
        (role,) = (o for o in rendered(*values) if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "gangsched")
        return [json.dumps(rule, sort_keys=True) for rule in role["rules"]]

    every, fewer = rules(), rules(f"--set=features.{feature}=false")
    assert len(fewer) < len(every)
    assert [rule for rule in every if rule in fewer] == fewer


def test_without_optional_features_only_the_cluster_s_own_groups_are_left() -> None:
    """What is left is what a cluster without any gang API of others has."""
    off = [f"--set=features.{feature}=false" for feature in FEATURES]
    assert groups_of(rendered(*off)) <= {
        "",
        "apps",
        "batch",
        "coordination.k8s.io",
        "events.k8s.io",
        "jobset.x-k8s.io",
        "policy",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "scheduling.sigs.k8s.io",
        "storage.k8s.io",
    }


def test_extras_are_off_and_can_be_had() -> None:
    """Monitors, rules and dashboard exist when they are asked for; the dashboard is whole JSON."""
    kinds = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
    assert not kinds & {o["kind"] for o in rendered()}
    wanted = ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
    objects = rendered(*(f"--set={each}.enabled=true" for each in wanted))
    assert kinds <= {o["kind"] for o in objects}
    board = one(objects, "ConfigMap", "gangsched-dashboard")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["gangsched.json"])["uid"] == "gangsched"
    rules = one(objects, "PrometheusRule")["spec"]["groups"][0]["rules"]
    assert {rule["alert"] for rule in rules} >= {"GangschedNoLeader", "GangschedRoomTaken"}
    monitored = one(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= one(objects, "Service")["metadata"]["labels"].items()


def test_the_port_is_closed_to_most_pods_by_default() -> None:
    """Only what `networkPolicy.from` names reaches it, by default the namespace monitoring; without peers no pod does.
    Probes come from the node, which no policy stops. The policy is about the pods of the Deployment and their port.
    """
    (policy,) = [each for each in rendered() if each["kind"] == "NetworkPolicy"]
    pods = one(rendered(), "Deployment")["spec"]["template"]
    (container,) = pods["spec"]["containers"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert [each["port"] for each in rule["ports"]] == [each["name"] for each in container["ports"]]
    closed = one(rendered("--set=networkPolicy.from=null"), "NetworkPolicy")
    assert closed["spec"]["ingress"] == []
    everybody = one(rendered('--set-json=networkPolicy.from=[{"namespaceSelector":{}}]'), "NetworkPolicy")
    assert everybody["spec"]["ingress"][0]["from"] == [{"namespaceSelector": {}}]
    assert "NetworkPolicy" not in {each["kind"] for each in rendered("--set=networkPolicy.enabled=false")}


def test_authorized_metrics_are_those_of_the_component() -> None:
    """The chart changes what the component of kustomize changes, and lets the monitor send a token over TLS."""
    on = ("--set=authorizedMetrics.enabled=true", "--set=authorizedMetrics.secretName=gangsched-tls")
    before, after = named(rendered()), named(rendered(*on))
    component = named(load_all(MANIFESTS / "components" / "authorized-metrics" / "rbac.yaml"))
    assert {key: thing for key, thing in after.items() if key not in before} == component
    assert {key for key, thing in before.items() if after[key] != thing} == {("Deployment", "gangsched")}
    patches = yaml.safe_load((MANIFESTS / "components" / "authorized-metrics" / "kustomization.yaml").read_text())
    (patch,) = (yaml.safe_load(each["patch"]) for each in patches["patches"])
    patched = before["Deployment", "gangsched"]
    for step in patch:
        *way, last = [part.replace("~1", "/") for part in step["path"].split("/")[1:]]
        where: Any = patched
        for part in way:
            where = where[int(part) if isinstance(where, list) else part]
        if last == "-":
            where.append(step["value"])
        else:
            where[last] = step["value"]
    assert after["Deployment", "gangsched"] == patched
    (endpoint,) = one(rendered(*on, "--set=serviceMonitor.enabled=true"), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == "gangsched-metrics.gangsched-system.svc"
    assert endpoint["bearerTokenFile"]
    by_pod = rendered(*on, "--set=podMonitor.enabled=true", "--set=authorizedMetrics.tokenSecret.name=scraper")
    (pods,) = one(by_pod, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert pods.pop("authorization") == {"credentials": {"name": "scraper", "key": "token"}}
    assert pods == {key: value for key, value in endpoint.items() if key != "bearerTokenFile"}


def test_nodes_are_written_only_where_room_is_held() -> None:
    """With `preemption.holdRoom: never` the right to patch nodes is not given, and no other right is missing."""
    name = ("ClusterRole", "gangsched")
    before, after = named(rendered()), named(rendered("--set=config.preemption.holdRoom=never"))
    assert {key for key, thing in before.items() if after[key] != thing} == {name, ("ConfigMap", "gangsched-config")}
    had, has = rights(before[name]), rights(after[name])
    assert had.pop(("", "nodes", None)) - has.pop(("", "nodes", None)) == {"get", "patch"}
    assert had == has


def test_pods_only_are_the_rights_of_the_component() -> None:
    """Nothing else of the installation changes, and each right is one of the usual ones."""
    name = ("ClusterRole", "gangsched")
    before, after = named(rendered()), named(rendered("--set=rbac.podsOnly=true"))
    (component,) = load_all(MANIFESTS / "components" / "pods-only" / "rbac.yaml")
    assert {key for key, thing in before.items() if after[key] != thing} == {name}
    assert rights(after[name]) == rights(component)
    usual = rights(before[name])
    for key, verbs in rights(component).items():
        assert verbs <= usual[key], key
    gone = {"podgroups", "jobsets", "clusterqueues", "pods/eviction", "jobs/status"}
    assert not gone & {resource for _, resource, _ in rights(component)}
    assert {
        verb for (_, kind, _), verbs in rights(component).items() for verb in verbs if kind in ("nodes", "jobs")
    } == {
        "list",
        "watch",
    }


def test_shadow_mode_has_no_right_to_write_anything() -> None:
    """Chart and component are equal: one replica, every right of the cluster is one to read, none in its namespace, and
    no budget that would block a drain. It reads all that the scheduler reads but the Leases of others.
    """
    before = named(rendered("--set=shadow.of=default-scheduler"))
    after = named(rendered("--set=shadow.enabled=true", "--set=rbac.podsOnly=false"))
    gone = {("Role", "gangsched-leader-election"), ("RoleBinding", "gangsched-leader-election")}
    assert set(before) - set(after) == {*gone, ("PodDisruptionBudget", "gangsched")}
    role, deployment = ("ClusterRole", "gangsched"), ("Deployment", "gangsched")
    assert {key for key, thing in after.items() if before[key] != thing} == {role, deployment}
    (component,) = load_all(MANIFESTS / "components" / "shadow" / "rbac.yaml")
    assert rights(after[role]) == rights(component)
    read = {"get", "list", "watch"}
    usual = {key: verbs & read for key, verbs in rights(before[role]).items() if key[2] is None}
    assert rights(component) == {key: verbs for key, verbs in usual.items() if verbs}
    bound = {each["roleRef"]["name"] for each in after.values() if each["kind"].endswith("RoleBinding")}
    assert bound <= {"gangsched", "gangsched-status"}
    spec = after[deployment]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 1
    assert container["args"][-2:] == ["--shadow", "--shadow-of=default-scheduler"]
    patches = yaml.safe_load((MANIFESTS / "components" / "shadow" / "kustomization.yaml").read_text())["patches"]
    steps = [step for each in patches if "target" in each for step in yaml.safe_load(each["patch"])]
    assert [step["value"] for step in steps] == [1, "--shadow", "--shadow-of=default-scheduler"]
    removed = [yaml.safe_load(each["patch"]) for each in patches if "$patch" in each.get("patch", "")]
    assert {(each["kind"], each["metadata"]["name"]) for each in removed} == set(before) - set(after)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("authorizedMetrics.enabled=true",), "authorizedMetrics.secretName is empty"),
        (
            ("authorizedMetrics.enabled=true", "authorizedMetrics.secretName=x", "podMonitor.enabled=true"),
            "take serviceMonitor",
        ),
    ],
)
def test_authorized_metrics_that_cannot_work_are_refused(values: tuple[str, ...], says: str) -> None:
    """Without a certificate, or with a monitor that has no token to send."""
    done = helm_says("template", "gangsched", str(CHART), *FOR, IMAGE, *(f"--set={each}" for each in values))
    assert done.returncode != 0
    assert says in done.stderr


def test_an_image_is_named_by_digest_or_tag() -> None:
    """The digest wins; without a repository helm says what is missing."""
    digest = "sha256:" + "a" * 64
    (container,) = one(rendered(f"--set=image.digest={digest}"), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.com/gangsched@{digest}"
    refused = helm_says("template", "gangsched", str(CHART), *FOR)
    assert refused.returncode != 0
    assert "image.repository is empty" in refused.stderr


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("replicas=0", "replicas"),
        ("size=huge", "size"),
        ("prometheusRules.enabled=true", "prometheusRules"),
        ("image.digest=abc", "digest"),
        ("config.profiles=null", "profiles"),
        ("config.preemption.pdbb=strict", "additional properties 'pdbb' not allowed"),
        ("config.preemption.pdb=hard", "'preferred', 'strict'"),
        ("prometheusRule.runbookUrl=docs/runbooks.md", "runbookUrl"),
        ("config.http.port=70000", "/config/http/port"),
        ("config.leaderElection.resourceName=null", "resourceName"),
    ],
)
def test_wrong_values_are_refused_by_name(value: str, says: str) -> None:
    """The schema names the value that it does not take."""
    done = helm_says("template", "gangsched", str(CHART), *FOR, IMAGE, f"--set={value}")
    assert done.returncode != 0
    assert says in done.stderr


def test_every_setting_of_the_configuration_file_is_a_value() -> None:
    """The schema of the chart takes all defaults of the file, spelt out."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    whole = yaml.safe_load(defaults_text())
    del whole["apiVersion"], whole["kind"]
    jsonschema.validate({"config": whole}, schema, cls=jsonschema.Draft7Validator)
    assert set(whole) <= set(schema["definitions"]["config.Configuration"]["properties"])


def test_alerts_link_to_complete_addresses() -> None:
    """With the address of the page each alert has that of its section; without, it names the file, which is no link."""
    page = "https://git.example.com/docs/runbooks.md"
    on = ("--set=prometheusRule.enabled=true", f"--set=prometheusRule.runbookUrl={page}")
    for rule in one(rendered(*on), "PrometheusRule")["spec"]["groups"][0]["rules"]:
        assert rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}"
    for rule in one(rendered(on[0]), "PrometheusRule")["spec"]["groups"][0]["rules"]:
        assert "runbook_url" not in rule["annotations"]
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}"


def test_sizes_give_more() -> None:
    """Requests and limits grow with the size, and `resources` replaces them."""

    def memory(*values: str) -> str:
        (container,) = one(rendered(*values), "Deployment")["spec"]["template"]["spec"]["containers"]
        return str(container["resources"]["limits"]["memory"])

    assert [memory(f"--set=size={size}") for size in ("small", "medium", "large")] == ["512Mi", "2Gi", "4Gi"]
    assert memory("--set=resources.limits.memory=7Gi") == "7Gi"


def test_nodes_are_given_back_after_an_uninstallation() -> None:
    """When the scheduler is gone a Job takes the taint off, with rights of its own; not where no node is ever held."""
    found = hooks("--set=config.profiles[0].schedulerName=mine", "--set=imagePullSecrets[0].name=pull")
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in found} == {"post-delete"}
    role, job = one(found, "ClusterRole"), one(found, "Job")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}]
    spec = job["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == one(found, "ServiceAccount")["metadata"]["name"]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    (container,) = spec["containers"]
    assert container["args"] == ["release", "--yes", "--scheduler-name=mine"]
    for without in ("config.preemption.holdRoom=never", "rbac.podsOnly=true", "rbac.create=false"):
        assert hooks(f"--set={without}") == []


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    """The release plays them with promtool; here it is seen that none is missing."""
    rules = yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text())["groups"][0]["rules"]
    cases = yaml.safe_load((CHART / "monitoring" / "alerts_test.yaml").read_text())["tests"]
    asked = [each for case in cases for each in case["alert_rule_test"]]
    for expected in (True, False):
        seen = {each["alertname"] for each in asked if ("exp_alerts" in each) is expected}
        assert seen == {rule["alert"] for rule in rules}


def test_every_alert_has_a_runbook_and_asks_for_metrics_that_exist() -> None:
    """Names in expressions of alerts and panels are metrics of this scheduler, and each alert has its section."""
    known = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "count", "sum")}
    alerts = yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text())["groups"][0]["rules"]
    board = json.loads((CHART / "monitoring" / "dashboard.json").read_text())
    assert len(board["panels"]) <= 13
    assert "$__range" not in json.dumps(
        board["panels"]
    )  # each point of a curve would be the sum over the whole picture
    asked = [rule["expr"] for rule in alerts] + [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    for expression in asked:
        names = re.findall(r"\b(?:gangsched|scheduler|rest_client|process)_[a-z_]+\b", expression)
        assert names, expression
        assert set(names) <= known, expression
    sections = set(re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE))
    assert sections == {rule["alert"] for rule in alerts}
    for rule in alerts:
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{rule['alert'].lower()}"
