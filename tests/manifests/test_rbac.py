"""The rights that are asked for: these tables, and nothing beyond them."""

from __future__ import annotations

from gangsched.cluster.kinds import CORE_KINDS, SERVED_KINDS
from gangsched.cluster.kube.rights import WRITES
from gangsched.runtime import profiles
from tests.manifests.shipped import (
    MANIFESTS,
    installed,
    of_kind,
    one,
    pod_spec,
    rights,
)

FOLLOW = {"list", "watch"}
#: A single object is read where a write of ours must be judged by what has become of it.
READ = FOLLOW | {"get"}

# (API group, resource) -> verbs, in the whole cluster. A change here is a change of what operators have to trust.
CLUSTER_RIGHTS = {
    ("", "pods"): READ | {"delete"},
    ("", "pods/status"): {"patch"},
    ("", "pods/binding"): {"create"},
    ("", "pods/eviction"): {"create"},
    ("", "nodes"): READ | {"patch"},
    ("", "namespaces"): READ,
    ("", "services"): FOLLOW,
    ("", "replicationcontrollers"): FOLLOW,
    ("apps", "replicasets"): FOLLOW,
    ("apps", "statefulsets"): FOLLOW,
    ("apps", "daemonsets"): FOLLOW,
    ("", "resourcequotas"): FOLLOW,
    ("events.k8s.io", "events"): {"create"},
    ("policy", "poddisruptionbudgets"): FOLLOW,
    ("scheduling.k8s.io", "priorityclasses"): FOLLOW,
    ("scheduling.k8s.io", "podgroups"): READ,
    ("scheduling.k8s.io", "compositepodgroups"): FOLLOW,
    ("scheduling.k8s.io", "podgroups/status"): {"patch"},
    ("scheduling.sigs.k8s.io", "podgroups"): READ | {"patch"},
    ("scheduling.sigs.k8s.io", "podgroups/status"): {"patch"},
    ("scheduling.koordinator.sh", "clusternetworktopologies"): FOLLOW,
    ("scheduling.x-k8s.io", "podgroups"): READ,
    ("scheduling.x-k8s.io", "podgroups/status"): {"patch"},
    ("scheduling.volcano.sh", "podgroups"): FOLLOW | {"patch"},
    ("scheduling.run.ai", "podgroups"): FOLLOW,
    ("scheduling.run.ai", "podgroups/status"): {"patch"},
    ("scheduler.grove.io", "podgangs"): FOLLOW,
    ("scheduler.grove.io", "podgangs/status"): {"patch"},
    ("batch", "jobs"): READ | {"patch"},
    ("batch", "jobs/status"): {"patch"},
    ("jobset.x-k8s.io", "jobsets"): READ | {"patch"},
    ("jobset.x-k8s.io", "jobsets/status"): {"patch"},
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): FOLLOW,
    ("topology.volcano.sh", "hypernodes"): FOLLOW,
    **{
        ("resource.k8s.io", kind): FOLLOW
        for kind in ("deviceclasses", "resourceslices", "resourceclaimtemplates", "devicetaintrules")
    },
    ("resource.k8s.io", "resourceclaims"): READ | {"patch"},
    ("resource.k8s.io", "resourceclaims/status"): {"patch"},
    ("resource.k8s.io", "resourceclaims/binding"): {"patch"},
    ("kai.scheduler", "topologies"): FOLLOW,
    **{(group, "queues"): FOLLOW for group in ("scheduling.volcano.sh", "scheduling.run.ai")},
    **{
        ("kubeflow.org", kind): FOLLOW
        for kind in ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs", "mpijobs")
    },
    ("trainer.kubeflow.org", "trainjobs"): FOLLOW,
    ("sparkoperator.k8s.io", "sparkapplications"): FOLLOW,
    **{("ray.io", kind): FOLLOW for kind in ("rayclusters", "rayjobs")},
    ("", "persistentvolumes"): READ | {"patch"},
    ("", "persistentvolumeclaims"): READ | {"patch"},
    ("kueue.x-k8s.io", "clusterqueues"): READ,
    ("kueue.x-k8s.io", "cohorts"): READ,
    ("kueue.x-k8s.io", "localqueues"): READ,
    ("kueue.x-k8s.io", "resourceflavors"): FOLLOW,
    ("kueue.x-k8s.io", "workloadpriorityclasses"): FOLLOW,
    ("kueue.x-k8s.io", "workloads"): FOLLOW,
    ("kueue.x-k8s.io", "clusterqueues/status"): {"patch"},
    ("kueue.x-k8s.io", "cohorts/status"): {"patch"},
    ("kueue.x-k8s.io", "localqueues/status"): {"patch"},
    ("storage.k8s.io", "storageclasses"): FOLLOW,
    ("storage.k8s.io", "csinodes"): FOLLOW,
    ("storage.k8s.io", "csidrivers"): FOLLOW,
    ("storage.k8s.io", "csistoragecapacities"): FOLLOW,
    ("storage.k8s.io", "volumeattachments"): FOLLOW,
}

#: Leases that other schedulers renew: of nobody else's Lease is anything asked.
FORMER_LEASES = {lease.partition("/")[2] for leases in profiles.FORMER_LEASES.values() for lease in leases}

# (API group, resource, name or None for any) -> verbs, in the namespace of the scheduler.
NAMESPACE_RIGHTS = {
    ("coordination.k8s.io", "leases", None): {"create"},
    ("coordination.k8s.io", "leases", "py-gang-scheduler"): {"get", "update"},
    ("", "configmaps", None): {"create"},
    ("", "configmaps", "gangsched-history"): {"get", "update"},
    ("", "configmaps", "gangsched-status"): {"get", "update"},
}


def test_cluster_role_grants_exactly_the_table() -> None:
    """The ClusterRole grants what the table above says: nothing more, nothing less."""
    expected = {(group, resource, None): verbs for (group, resource), verbs in CLUSTER_RIGHTS.items()}
    leases = {("coordination.k8s.io", "leases", name): {"get"} for name in FORMER_LEASES}
    assert rights(one(installed(), "ClusterRole", "gangsched")) == expected | leases


def test_readers_may_read_what_the_scheduler_reads_and_nothing_else() -> None:
    """The commands that only look list and watch the same objects; of single ones they get the record of evictions."""
    followed = {(group, name, None): FOLLOW for (group, name), verbs in CLUSTER_RIGHTS.items() if verbs >= FOLLOW}
    record = {("", "configmaps", "gangsched-history"): {"get"}}
    assert rights(one(installed(), "ClusterRole", "gangsched-reader")) == followed | record


def test_tenants_read_what_readers_do_of_one_namespace() -> None:
    """The role for one namespace has nothing beyond that for readers but Events, and nothing that no namespace has."""
    everywhere, here = (rights(one(installed(), "ClusterRole", f"gangsched-{name}")) for name in ("reader", "tenant"))
    kinds = {(kind.group, kind.plural, None) for kind in (*CORE_KINDS, *SERVED_KINDS) if kind.namespaced}
    wanted = {key: verbs for key, verbs in everywhere.items() if key in kinds}
    left_out = {("storage.k8s.io", "csistoragecapacities", None), ("kueue.x-k8s.io", "workloads", None)}
    events = {("", "events", None): {"list"}}
    assert here == {key: verbs for key, verbs in wanted.items() if key not in left_out} | events


def test_users_of_pods_are_users_of_gangs() -> None:
    """Edit and admin may write PodGroups, view may read them, and none of that is for their status."""
    key = ("scheduling.sigs.k8s.io", "podgroups", None)
    for name, verbs, into in (
        ("edit", {"create", "delete", "deletecollection", "patch", "update"}, {"admin", "edit"}),
        ("view", READ, {"view"}),
    ):
        role = one(installed(), "ClusterRole", f"gangsched-podgroups-{name}")
        assert rights(role) == {key: verbs}
        prefix = "rbac.authorization.k8s.io/aggregate-to-"
        assert {label.removeprefix(prefix) for label in role["metadata"]["labels"] if label.startswith(prefix)} == into


def test_role_grants_exactly_the_table() -> None:
    """The Role grants the one Lease and two ConfigMaps, and create, which cannot be restricted by name."""
    role = one(installed(), "Role", "gangsched-leader-election")
    assert role["metadata"]["namespace"] == "gangsched-system"
    assert rights(role) == NAMESPACE_RIGHTS


def test_every_user_may_read_who_leads_and_with_which_configuration() -> None:
    """A Role for one Lease and one ConfigMap, neither of which may be written, is given to every authenticated user."""
    role, binding = (one(installed(), kind, "gangsched-status") for kind in ("Role", "RoleBinding"))
    assert rights(role) == {
        ("coordination.k8s.io", "leases", "py-gang-scheduler"): {"get"},
        ("", "configmaps", "gangsched-status"): {"get"},
    }
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [(s["kind"], s["name"]) for s in binding["subjects"]] == [("Group", "system:authenticated")]


def test_rights_that_are_looked_for_are_those_that_are_given() -> None:
    """Each write of which the leader asks whether it is allowed is allowed by the ClusterRole, for all names."""
    given = rights(one(installed(), "ClusterRole", "gangsched"))
    assert [need for need in WRITES if need[2] not in given.get((need[0], need[1], None), set())] == []


def test_no_role_grants_wildcards_secrets_or_rights_over_rights() -> None:
    """Not even by a change of the tables: no wildcard, no secret, no CRD, nothing that could widen the rights."""
    forbidden_resources = {"*", "secrets", "configmaps", "customresourcedefinitions", "serviceaccounts/token"}
    forbidden_verbs = {"*", "deletecollection", "impersonate", "bind", "escalate"}
    for role in [one(installed(), "ClusterRole", "gangsched"), *of_kind(installed(), "Role")]:
        for (group, resource, name), verbs in rights(role).items():
            assert group not in {"*", "rbac.authorization.k8s.io", "apiextensions.k8s.io"}
            assert resource not in forbidden_resources - ({"configmaps"} if name or verbs == {"create"} else set())
            assert "*" not in resource
            assert not verbs & forbidden_verbs


def test_every_rule_says_why_it_is_there() -> None:
    """The line above each RBAC rule is a comment."""
    files = ("rbac.yaml", "rbac-users.yaml")
    lines = [line for name in files for line in (MANIFESTS / name).read_text(encoding="utf-8").splitlines()]
    rules = [index for index, line in enumerate(lines) if line.lstrip().startswith("- apiGroups:")]
    roles = [*of_kind(installed(), "ClusterRole"), *of_kind(installed(), "Role")]
    assert len(rules) == sum(len(role["rules"]) for role in roles)
    assert [lines[index] for index in rules if not lines[index - 1].lstrip().startswith("# ")] == []


def test_bindings_join_our_roles_and_our_service_account() -> None:
    """Each role is bound once, to the service account that the pods run as and to nobody else."""
    account = one(installed(), "ServiceAccount")["metadata"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    for role_kind in ("ClusterRole", "Role"):
        name = "gangsched" if role_kind == "ClusterRole" else "gangsched-leader-election"
        role, binding = (one(installed(), kind, name) for kind in (role_kind, f"{role_kind}Binding"))
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role["metadata"]["name"]}
        assert binding["roleRef"] == reference
        assert binding["subjects"] == [subject]
        assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
    assert pod_spec()["serviceAccountName"] == account["name"]
