"""What ``gangsched explain`` advises where the change is obvious: about nodes and queues, and two changes together."""

from __future__ import annotations

import pytest

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {disk: hdd}}
%s
status: {allocatable: {cpu: '%s', pods: '9'}%s}
"""
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: g-%d, labels: {pod-group.scheduling.sigs.k8s.io: g}}
spec: {schedulerName: py-gang-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: %s}}}]}
"""
GROUP = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g, labels: {%s}}
spec: {minMember: 2}
"""
NOT_READY = ", conditions: [{type: Ready, status: 'False'}]"


def node(name: str, cpu: int = 1, taints: str = "", status: str = "", *, cordoned: bool = False) -> str:
    """A node, with taints as ``key`` or ``key:effect``."""
    keys = (each.partition(":")[::2] for each in taints.split())
    found = ", ".join(f"{{key: {key}, effect: {effect or 'NoSchedule'}}}" for key, effect in keys)
    spec = f"spec: {{unschedulable: {str(cordoned).lower()}, taints: [{found}]}}"
    return NODE % (name, spec, cpu, status)


def gang(labels: str = "", cpu: int = 1) -> list[str]:
    """A gang of two."""
    return [GROUP % labels, PODS % (0, cpu), PODS % (1, cpu)]


@pytest.mark.parametrize(
    ("away", "why", "change"),
    [
        (node("n1", taints="node.kubernetes.io/unschedulable", cordoned=True), "1 node is cordoned",
         "kubectl uncordon n1"),
        (node("n1", taints="node.kubernetes.io/not-ready", status=NOT_READY), "1 node is not ready", "get n1 ready"),
        (node("n1", taints="node.cloudprovider.kubernetes.io/uninitialized"), "1 node is not ready", "get n1 ready"),
        (node("n1", taints="node.kubernetes.io/not-ready node.kubernetes.io/unschedulable", cordoned=True),
         "1 node is cordoned", "kubectl uncordon n1"),
    ],
    ids=["cordoned", "not-ready", "uninitialized", "both"],
)  # fmt: skip
def test_a_node_that_comes_back(away, why, change, explain):
    """A gang that would fit with it does not wait for ever; the node is named, and no pod is to tolerate its taint."""
    _, out, _ = explain("g", away, node("n2"), *gang())
    assert f"NOT NOW 2 pods x 1 cpu = 2; 1 in the 1 node that it may use: at most 1 of 2; {why}" in out
    assert f"do {change}" in out
    assert "toleration" not in out


@pytest.mark.parametrize("key", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
def test_a_node_that_is_about_to_go(key, explain):
    """Its taint is not to be tolerated, and the gang does not wait for it: other nodes are needed."""
    _, out, _ = explain("g", node("n1", cpu=2, taints=key), node("n2"), *gang())
    assert "NEVER FITS" in out
    assert "toleration" not in out
    assert "add 1 node like n2: it can start now" in out
    _, out, _ = explain("g", node("n1", cpu=2, taints=key), *gang())
    assert "1 node is about to be removed" in out
    assert "add 1 node like n1: it can start now" in out


def test_two_changes_that_are_enough_together(explain):
    """Neither helps alone: the node has a taint, and is too small for what each pod asks."""
    _, out, _ = explain("g", node("n1", cpu=4, taints="gpu:NoSchedule"), *gang(cpu=9))
    told = "do add a toleration for the taint gpu:NoSchedule to its pods, and ask for at most 4 cpu in each pod"
    assert told not in out  # two of four do not fit one node of four
    _, out, _ = explain("g", node("n1", cpu=4, taints="gpu"), node("n2", cpu=4, taints="gpu"), *gang(cpu=9))
    assert f"{told}: it can start now" in out


def test_the_last_of_equals(explain):
    """Others of its priority took the room: no gang of higher priority is made responsible."""
    singles = [PODS.replace("labels: {pod-group.scheduling.sigs.k8s.io: g}", "labels: {}") % (i, 1) for i in range(3)]
    _, out, _ = explain("g-2", node("n1", cpu=2), *singles)
    assert "do a priority above 0: others of the same priority are first in the queue and take the room" in out


FLAVOR = "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: %s}, spec: {}}"
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: a}
spec:
  namespaceSelector: %s
  %s
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: %s, resources: [{name: cpu, nominalQuota: %s}]}]}]
"""
LOCAL = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: qa}
spec: {clusterQueue: a%s}
"""


def queues(selects: str = "{}", more: str = "", flavor: str = "f", quota: int = 9, local: str = "") -> list[str]:
    """A ClusterQueue, its LocalQueue and a flavor."""
    return [FLAVOR % "f", QUEUE % (selects, more, flavor, quota), LOCAL % local]


@pytest.mark.parametrize(
    ("objects", "labels", "why", "change"),
    [
        (queues(more="stopPolicy: Hold"), "", "its stopPolicy is Hold", "set stopPolicy: None in ClusterQueue a"),
        (queues(local=", stopPolicy: Hold"), "", "LocalQueue qa", "set stopPolicy: None in LocalQueue qa"),
        (queues(more="admissionChecks: [prov]"), "", "admission checks are not run by this scheduler (prov)",
         "take admission check prov out of ClusterQueue a, or leave the queue to Kueue"),
        (queues(flavor="fx"), "", "ResourceFlavor fx not found", "create ResourceFlavor fx"),
        (queues(selects="{matchLabels: {team: x}}"), "", "workload namespace doesn't match ClusterQueue selector",
         "let namespaceSelector of ClusterQueue a select namespace default"),
        (queues(), ", kueue.x-k8s.io/priority-class: vip", "WorkloadPriorityClass vip not found",
         "create WorkloadPriorityClass vip, or take the label off"),
        (queues(selects="{matchLabels: {team: x}}", more="stopPolicy: Hold"), "", "its stopPolicy is Hold",
         "set stopPolicy: None in ClusterQueue a, and let namespaceSelector of ClusterQueue a select namespace default"
         ),
        (queues(quota=1), "", "queue a can never hold it: 2 cpu asked, 1 at most",
         "raise nominalQuota of flavor f in ClusterQueue a to 2 cpu"),
    ],
    ids=["stopped", "local-stopped", "check", "flavor", "namespace", "priority", "two", "quota"],
)  # fmt: skip
def test_what_keeps_a_queue_from_admitting_a_gang(objects, labels, why, change, explain):
    """The object to change is named, with a number where it is quota; more quota is advised nowhere else."""
    _, out, _ = explain("g", node("n1", cpu=4), *objects, *gang(f"kueue.x-k8s.io/queue-name: qa{labels}"))
    assert why in out
    assert f"do {change}: it can start now" in out
    assert ("nominalQuota" in out) == ("nominalQuota" in change)


def test_a_misspelt_local_queue(explain):
    """The one that is meant is named, rather than another one to create."""
    _, out, _ = explain("g", node("n1", cpu=4), *queues(), *gang("kueue.x-k8s.io/queue-name: qaa"))
    assert "do name the LocalQueue qa in the label kueue.x-k8s.io/queue-name: it can start now" in out


def test_a_queue_that_is_full(explain):
    """How much quota it takes beside what runs."""
    runs = PODS.replace("containers", "nodeName: n1, containers").replace(": g}", ": old}") % (7, 1)
    old = GROUP.replace("name: g", "name: old").replace("minMember: 2", "minMember: 1")
    label = "kueue.x-k8s.io/queue-name: qa"
    _, out, _ = explain("g", node("n1", cpu=9), *queues(quota=2), old % label, runs, *gang(label))
    assert "raise nominalQuota of flavor f in ClusterQueue a to 3 cpu: it can start now" in out


NETWORK = """
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: network}
spec: {levels: [{nodeLabel: rack}]}
"""
PARTS = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g}
spec:
  minSubGroup: 1
  subGroups: [{name: worker, minMember: 2, topologyConstraint: {topology: network, requiredTopologyLevel: rack}}]
"""
WORKER = """
apiVersion: v1
kind: Pod
metadata:
  name: g-%d
  annotations: {pod-group-name: g}
  labels: {kai.scheduler/subgroup-name: worker}
spec: {schedulerName: py-gang-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""


def test_a_part_that_no_domain_holds(explain):
    """The part and its nearest domain are named, and that it would start without its topology."""
    nodes = [node(f"n{i}").replace("disk: hdd", f"rack: r{i}") for i in range(2)]
    _, out, _ = explain("g", NETWORK, *nodes, PARTS, WORKER % 0, WORKER % 1)
    assert "NEVER FITS part worker needs one rack for 2 members; the nearest (rack=r0) takes 1" in out
    assert "ask for no single rack, or have a larger one: it can start now" in out
