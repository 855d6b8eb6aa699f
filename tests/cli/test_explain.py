"""``gangsched explain``: why a gang waits, why a pod leaves or stays, and what would change it."""

from __future__ import annotations

import json

import jsonschema
import pytest

from gangsched import api
from gangsched.cli import explanation, pod_explanation
from gangsched.cli.main import main
from gangsched.core.decision import Gap, Preempt, UnitRef, Victim
from gangsched.model.records import GangId
from tests.cli.worlds import HIGH, NODES, node
from tests.pages import read_schema

EXAMPLE = "examples/koordinator"

CLASSES = f"""{HIGH}---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: low, annotations: {{gangsched.dev/minimum-run-time: %s}}}}
value: 10
"""
NODE = node("n1")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, creationTimestamp: "%(created)s", labels: {%(labels)s}}
spec:
  schedulerName: py-gang-scheduler
  priorityClassName: %(cls)s
  nodeName: %(node)s
  containers: [{resources: {requests: {cpu: %(cpu)s}}}]
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""


def pod(name, cls="low", node="", created="2026-01-01T00:00:00Z", labels="", cpu=4):
    """One pod."""
    return POD % {"name": name, "cls": cls, "node": node or '""', "created": created, "labels": labels, "cpu": cpu}


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  template:
    spec:
      schedulerName: py-gang-scheduler
      restartPolicy: Never
      containers: [{name: main, image: none, resources: {requests: {cpu: 4}}}]
"""
BASIC = (CLASSES % "0s", NODES, pod("a", node="n1"), pod("new", cls="high"), pod("other", node="n2"))


MIXED_GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {priorityClassName: high, schedulingPolicy: {gang: {minCount: 1}}}
---
apiVersion: v1
kind: Pod
metadata: {name: g-0}
spec:
  schedulerName: py-gang-scheduler
  schedulingGroup: {podGroupName: g}
  priorityClassName: low
  containers: [{name: main, image: none, resources: {requests: {cpu: 4}}}]
"""


def test_a_group_of_another_priority_than_its_pods(tmp_path, capsys):
    """The gang has the lower of both, and it is said that kube-scheduler would refuse it."""
    file = tmp_path / "group.yaml"
    file.write_text("\n---\n".join((CLASSES % "0s", node("n1"), MIXED_GROUP)))
    assert main(["explain", "g", "-f", str(file)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "(the lower of its PodGroup's 1000 and its pods' 10)" in out
    assert "kube-scheduler refuses a PodGroup whose pods have another priority" in out


def test_a_gang_of_the_example(capsys):
    """Who goes where, who leaves, and what the gang needs."""
    assert main(["explain", "default/hp-training-job", "-f", EXAMPLE]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "PREEMPT 2 members can start after 2 pods are evicted" in out
    assert "2 members to run (from PodGroup.scheduling.sigs.k8s.io); 0 on nodes, 2 pending" in out
    assert "it preempts with priority 1000000 (that of its members)" in out
    parts = [out.index(word) for word in ("PREEMPT ", " needs ", " because ", " members default", " victims Pod")]
    assert parts == sorted(parts), "the answer and its reasons come before the lists"


def test_a_member_leads_to_its_gang(capsys):
    """Asked for a pending pod, the answer is about its gang and says where the pod goes."""
    assert main(["explain", "hp-worker-2", "-f", EXAMPLE]) == 0
    out = capsys.readouterr().out
    assert "hp-worker-2 is a member of PodGroup default/hp-training-job and goes to node-2" in out


@pytest.mark.parametrize(
    ("name", "args", "found"),
    [
        ("other", (), "default/other"),
        ("pod/other", (), "default/other"),
        ("Pods/other", ("-n", "default"), "default/other"),
        ("default/other", (), "default/other"),
        ("job/train", (), "default/train-0"),
        ("train", (), "default/train-0"),
    ],
)
def test_names_as_kubectl_has_them(name, args, found, explain):
    """KIND/NAME, NAME and NAMESPACE/NAME; an owner leads to that one of its pods that waits."""
    code, text, err = explain(name, *BASIC, JOB, args=args)
    assert code == 0, err
    assert found in text.split("·")[0]


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("job/other", (), "there is no Job default/other; there is a Pod of that name"),
        ("other", ("-n", "elsewhere"), "there is no gang or pod elsewhere/other"),
        (
            "gadget/other",
            ("-n", "default"),
            "'gadget' is no kind that is known here; known are compositepodgroup, deployment, ",
        ),
    ],
)
def test_names_that_lead_nowhere(name, args, words, explain):
    """A kind, and a namespace, count."""
    code, _, err = explain(name, *BASIC, args=args)
    assert (code, words in err) == (2, True), err


def test_the_name_may_follow_the_files(capsys):
    """Options first, as kubectl's users write them."""
    assert main(["explain", "-f", EXAMPLE, "hp-worker-2"]) == 0
    assert main(["explain", "-f", EXAMPLE]) == 2
    assert "which gang or pod?" in capsys.readouterr().err


def test_a_victim(explain):
    """For whom it leaves, why it, who takes its place, who is spared, and what would keep it."""
    code, out, _ = explain("a", *BASIC)
    assert code == 0
    assert "VICTIM it is evicted for Pod default/new (priority 1000)" in out
    assert "priority 10 is lower than 1000; needed to make room for the gang" in out
    assert "its node n1 is then taken by default/new" in out
    assert "Pod default/other is spared: the gang fits without its room" in out
    assert "if it stayed default/new would evict default/other instead" in out
    assert "a priority of at least 1000" in out
    assert "no PodDisruptionBudget selects it" in out


def test_a_victim_without_which_nothing_fits(explain):
    """If it stayed, the gang would not start: with the reason."""
    _, out, _ = explain("a", CLASSES % "0s", NODES, *BASIC[2:4], pod("other", cls="high", node="n2"))
    assert "if it stayed default/new would have to wait" in out


def test_a_budget_is_named(explain):
    """Which budget selects the pod, what it allows, and that the eviction goes beyond it."""
    both = [pod(n, node=f"n{i}", labels="app: web") for i, n in enumerate(("a", "b"), 1)]
    budget = BUDGET.replace("minAvailable: 1", "minAvailable: 2")
    _, out, _ = explain("a", CLASSES % "0s", NODES, *both, pod("new", cls="high"), budget)
    assert "default/keep allows 0 more disruptions now" in out
    assert "its eviction goes beyond that: no choice without that was found" in out
    _, out, _ = explain("a", CLASSES % "0s", NODES, *both, pod("new", cls="high"), BUDGET)
    assert "default/keep allows 1 more disruption now" in out
    assert "goes beyond" not in out


GROUP = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s}
spec: {minMember: 2}
"""
MEMBER = "pod-group.scheduling.sigs.k8s.io: old"


def test_a_gang_that_leaves_whole(explain):
    """Asked for the running gang: that all of it goes, and with whom."""
    members = [pod(f"m{i}", node=f"n{i}", labels=MEMBER) for i in (1, 2)]
    code, out, _ = explain("old", CLASSES % "0s", NODES, GROUP % "old", *members, pod("new", cls="high"))
    assert code == 0
    assert "default/old PodGroup · 2 pods on nodes" in out
    assert "VICTIM all of it is evicted for Pod default/new (priority 1000)" in out
    assert "with it leave default/m2 of PodGroup default/old" in out


def test_a_pod_that_stays(explain):
    """Nobody evicts it: for each gang that lacks room, why not."""
    code, out, _ = explain("other", *BASIC)
    assert code == 0
    assert "RUNNING on n2; nothing is about to evict it" in out
    assert "for default/new (priority 1000, preempt): Pod default/other: the gang fits without its room" in out


@pytest.mark.parametrize(
    ("labels", "cls", "reason"),
    [
        ("", "high", "its priority 1000 is not lower"),
        ('scheduling.koordinator.sh/disable-preemptible: "true"', "low", "a label or an annotation excludes it"),
    ],
)
def test_why_a_pod_can_be_no_victim(explain, labels, cls, reason):
    """Priority and marks."""
    _, out, _ = explain("x", CLASSES % "0s", NODES, pod("x", cls, "n1", labels=labels), pod("new", cls="high", cpu=9))
    assert reason in out


def test_a_pod_that_is_too_young(explain):
    """The annotation of its class keeps it, and the gang is told what would help."""
    documents = (CLASSES % "10m", NODE, pod("a", node="n1"), pod("new", cls="high"))
    _, out, _ = explain("a", *documents)
    assert "it may be evicted from 2026-01-01T00:10:00Z" in out
    assert "its minimum run time ends at 2026-01-01T00:10:00Z" in out
    _, out, _ = explain("new", *documents)
    assert "NOT NOW 0 of 1 member fit" in out
    assert "wait until 00:10:00Z: then it can start after 1 pod is evicted (default/a)" in out
    _, out, _ = explain("a", *documents, args=("--now", "2026-01-01T00:10:00Z"))
    assert "VICTIM" in out


def test_a_priority_that_would_help(explain):
    """The lowest priority with which there is a plan, tried out."""
    _, out, _ = explain("b", CLASSES % "0s", NODE, pod("a", node="n1"), pod("b"))
    assert "a priority of 11 or more: it can start after 1 pod is evicted (default/a)" in out


def test_a_policy_that_stands_in_the_way(explain):
    """A gang that may not preempt is told so, and what it would do otherwise."""
    never = CLASSES.replace("value: 1000", "value: 1000\npreemptionPolicy: Never")
    _, out, _ = explain("new", never % "0s", NODE, pod("a", node="n1"), pod("new", cls="high"))
    assert "preemptionPolicy Never: it evicts no pod" in out
    assert "a preemptionPolicy other than Never: it can start after 1 pod is evicted (default/a)" in out


LABELLED = "apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {disk: hdd}}\n%sstatus: {capacity: {cpu: 4}}\n"
NEW = pod("new", cls="low")


#: As the chart of NVIDIA's driver has it, and an older class of the same resource.
SERVED = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com, creationTimestamp: "2026-06-01T00:00:00Z"}
spec: {extendedResourceName: nvidia.com/gpu, selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}
---
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata: {name: any, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {extendedResourceName: nvidia.com/gpu}
"""


def asking(resource):
    """A pod that asks for a device that no node has."""
    return NEW.replace("requests: {", f"requests: {{{resource}: 1, ")


@pytest.mark.parametrize(
    ("documents", "first", "advice"),
    [
        (
            (NODES, pod("new", cpu=9)),
            "NEVER FITS the pod asks for 9 cpu; the largest of the 2 nodes that it may use has 4",
            "do ask for at most 4 cpu in each pod: it can start now",
        ),
        (
            (NODES, pod("a", node="n1", cpu=3), pod("b", node="n2", cpu=2), NEW),
            "NOT NOW 0 of 1 member fit; the next asks for 4 cpu, which no node has free",
            "do a priority of 11 or more: it can start after 1 pod is evicted (default/a)",
        ),
        (
            (NODES, pod("a", node="n1", cls="high"), pod("b", node="n2", cls="high"), NEW),
            "NOT NOW 0 of 1 member fit; the next asks for 4 cpu, which no node has free",
            "add 1 node like n",
        ),
        (
            (NODES, asking("nvidia.com/gpu")),
            "NEVER FITS the pod asks for 1 nvidia.com/gpu; the largest of the 2 nodes that it may use has 0",
            "do add nodes with nvidia.com/gpu: no node has any, and devices of a DeviceClass are not supported yet",
        ),
        (
            (NODES, SERVED, asking("nvidia.com/gpu")),
            "NEVER FITS the pod asks for 1 nvidia.com/gpu; DeviceClass gpu.nvidia.com serves that by dynamic resource",
            "do add nodes with a device plug-in for nvidia.com/gpu: devices of DeviceClass gpu.nvidia.com",
        ),
        (
            (NODES, SERVED, asking("deviceclass.resource.kubernetes.io/gpu.nvidia.com")),
            "NEVER FITS the pod asks for 1 deviceclass.resource.kubernetes.io/gpu.nvidia.com; DeviceClass gpu",
            "devices of DeviceClass gpu.nvidia.com are allocated dynamically",
        ),
        (
            (LABELLED % ("n", ""), NEW.replace("spec:", "spec:\n  nodeSelector: {disk: ssd}")),
            "NEVER FITS no node takes the pod: 1 node has no label disk=ssd",
            "do take disk=ssd out of its node selector, or label nodes with it: it can start now",
        ),
        (
            (LABELLED % ("n", "spec: {taints: [{key: gpu, value: a, effect: NoSchedule}]}\n"), NEW),
            "NEVER FITS no node takes the pod: 1 node has the taint gpu=a:NoSchedule, which it does not tolerate",
            "do add a toleration for the taint gpu=a:NoSchedule to its pods: it can start now",
        ),
        (
            (LABELLED % ("n", "spec: {unschedulable: true}\n"), NEW),
            "NOT NOW no node takes the pod: 1 node is cordoned",
            "do kubectl uncordon n: it can start now",
        ),
        (
            (NEW.replace("spec:", "spec:\n  nodeSelector: {disk: ssd}"),),
            "WAITS the cluster has no nodes yet",
            "do add 1 node with 4 cpu for one of its members each: it can start now",
        ),
    ],
)
def test_what_would_help_a_gang_that_fits_nowhere(documents, first, advice, explain):
    """The first line has the reason with a number or a name, the second a change with which it starts."""
    _, out, _ = explain("new", CLASSES % "0s", *documents)
    assert first in out
    assert advice in out


GANG_JOB = JOB.replace("{name: train}", '{name: train, annotations: {gangsched.dev/gang: "true"}}')


def test_more_members_than_the_nodes_take(explain):
    """The number of members that do fit, and how many nodes more would do, both tried."""
    job = GANG_JOB.replace("parallelism: 2", "parallelism: 6")
    _, out, _ = explain("job/train", NODES, job)
    assert "NEVER FITS 6 pods x 4 cpu = 24; 8 in the 2 nodes that it may use: at most 2 of 6" in out
    assert "do lower parallelism (or minMember) to 2 members: it can start now" in out
    assert "add 4 nodes like n" in out


def test_the_priority_of_a_gang_by_its_owner_is_tried(explain):
    """A gang whose pods bear no label of a group is raised as a whole."""
    documents = (CLASSES % "0s", NODES, pod("a", node="n1"), pod("b", node="n2"), GANG_JOB)
    _, out, _ = explain("job/train", *documents)
    assert "a priority of 11 or more: it can start after 2 pods are evicted (default/a, default/b)" in out


def test_explanations_have_a_sentence(tmp_path):
    """A gang that waits has one in Python and in JSON, too."""
    path = tmp_path / "objects.yaml"
    path.write_text(f"{NODES}---{JOB}")
    found = api.explain(api.load(path), "job/train")
    assert found.sentence == "1 member can start now"


def test_what_a_gang_lacks_to_be_complete(explain):
    """A PodGroup or pods to create; the reason stands there once."""
    _, out, _ = explain("old", NODES, CLASSES % "0s", pod("m1", cls="high", labels=MEMBER))
    assert "create the PodGroup default/old; its spec.minMember says how many pods start together" in out
    assert out.count("does not exist") == 1
    _, out, _ = explain("old", NODES, CLASSES % "0s", GROUP % "old", pod("m1", cls="high", labels=MEMBER))
    assert "create the missing pods: nothing is scheduled or evicted for the gang before it is complete" in out


def test_what_a_pod_lacks_that_others_put_into_a_group(explain):
    """Not further pods."""
    alone = pod("m1", cls="high").replace("py-gang-scheduler", "volcano")
    _, out, _ = explain("m1", NODES, CLASSES % "0s", alone, args=("--scheduler-name", "volcano"))
    assert "start what makes its PodGroup, or give default/m1 another scheduler name" in out


def test_a_gang_that_is_not_complete(explain):
    """What is missing."""
    member = pod("m1", cls="high", labels=MEMBER)
    _, out, _ = explain("old", CLASSES % "0s", NODES, GROUP % "old", member)
    assert "WAITS 1 of 2 members exist; 1 missing" in out


CONDITIONED = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulerName: %s
  nodeName: %s
  containers: [{resources: {requests: {cpu: 4}}}]
status:
  nominatedNodeName: n2
  conditions:
  - {type: %s, status: "True", reason: Because, message: plan 7, lastTransitionTime: "2026-01-01T00:00:00Z"}
"""


def test_conditions_are_read(explain):
    """Intent of a pending pod, mark of a victim, with their reasons and times."""
    intent = CONDITIONED % ("p", "py-gang-scheduler", '""', "gangsched.dev/Nominated")
    _, out, _ = explain("p", NODES, intent)
    assert "default/p: nominated to n2" in out
    assert "gangsched.dev/Nominated=True since 2026-01-01T00:00:00Z (Because: plan 7)" in out
    _, out, _ = explain("v", NODES, CONDITIONED % ("v", "x", "n1", "DisruptionTarget"))
    assert "DisruptionTarget=True since 2026-01-01T00:00:00Z (Because: plan 7)" in out


def test_a_pod_of_another_scheduler(explain):
    """It is not ours to decide, and how to decide it all the same."""
    documents = (NODES, CONDITIONED % ("p", "other", '""', "X"))
    code, out, _ = explain("p", *documents)
    assert code == 0
    assert "NOT OURS 1 pod is for other do gangsched init makes a gang of its manifest" in out
    assert "spec.schedulerName: py-gang-scheduler (--scheduler-name other decides as if it were ours)" in out
    _, out, _ = explain("p", *documents, args=("--scheduler-name", "other"))
    assert "BIND" in out


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nwe", "there is no gang or pod default/nwe among 3 pods; did you mean default/new?"),
        ("zzzzz/qqqqq", "there is no gang or pod zzzzz/qqqqq among 3 pods"),
        ("a/b/c", "'a/b/c' is not [kind/]name or namespace/name"),
        ("/x", "'/x' is not [kind/]name or namespace/name"),
    ],
)
def test_names_that_mean_nothing(explain, name, complaint):
    """A message and exit code 2."""
    code, out, err = explain(name, *BASIC)
    assert (code, out) == (2, "")
    assert complaint in err


def test_manifests_and_a_cluster_do_not_mix(explain):
    """Either -f or a cluster."""
    code, _, err = explain("a", *BASIC, args=("--kubeconfig", "x"))
    assert code == 2
    assert "give one of them" in err


@pytest.mark.parametrize(("name", "gangs"), [("a", ["default/new"]), ("new", ["default/new"]), ("other", [])])
def test_json_is_the_plan_contract(tmp_path, capsys, name, gangs):
    """The decisions that concern what was asked for, in the form of the plan, and the explanation in words."""
    path = tmp_path / "a.yaml"
    path.write_text("\n---\n".join(BASIC))
    assert main(["explain", name, "-f", str(path), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(read_schema("plan-v1")).validate(answer)
    assert [d["gang"] for d in answer["decisions"]] == gangs
    words = answer["explanation"]
    assert name in words["title"]
    assert words["state"] == {"a": "victim", "new": "preempt", "other": "running"}[name]
    assert all(section["lines"] for section in words["sections"])


def test_json_of_an_error(tmp_path, capsys):
    """An unknown name is an error of the contract."""
    path = tmp_path / "a.yaml"
    path.write_text("\n---\n".join(BASIC))
    assert main(["explain", "nothing-like-it", "-f", str(path), "-o", "json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(read_schema("plan-v1")).validate(answer)
    assert "there is no gang or pod default/nothing-like-it" in answer["error"]["message"]


def test_a_cluster_that_cannot_be_reached(tmp_path, capsys):
    """A message and exit code 2."""
    config = tmp_path / "kubeconfig"
    assert main(["explain", "a", "--kubeconfig", str(config)]) == 2
    assert str(config) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "expected", "stopped"),
    [
        ({"optimal": True}, "that is optimal: no choice breaks fewer budgets or, from the highest priority down,", ""),
        (
            {"optimal": False, "gap": Gap("gangs", 7, 2)},
            "it is not proven that it is the least harmful: at most 2 gangs more than needed at priority 7",
            ": a less harmful choice may exist",
        ),
        ({}, "", ": a less harmful choice may exist"),
    ],
)
def test_how_good_the_choice_is(fields, expected, stopped):
    """Said to the gang and to its victims; a search that was cut short may have found the best choice."""
    one = Victim("ns", "v", "u", "n", UnitRef("Pod", "ns/v"), False, 0, False)
    gang = GangId("scheduling.sigs.k8s.io", "ns", "g", "me")
    found = Preempt(gang, "PodGroup", (), 9, 1, victims=(one,), stopped=True, **fields)
    to_gang, to_victim = list(explanation._because(found)), list(pod_explanation._others(found))
    for lines in (to_gang, to_victim):
        assert any(line.startswith(expected) for line in lines)
        assert sum("proven" in line or "optimal" in line for line in lines) == bool(expected)
    assert f"the search was cut short at its limit{stopped}" in to_victim


def grouped(node=""):
    """The recipe of the guide: two pods of a Job that bear the label of a PodGroup of the Job's name."""
    group = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 2}
"""
    owner = "ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: u-train, controller: true}]"
    label = "scheduling.x-k8s.io/pod-group: train"
    pods = [pod(f"train-{i}", cls="high", node=node and f"n{i + 1}", labels=label) for i in range(2)]
    pods = [text.replace("metadata: {", f"metadata: {{{owner}, ") for text in pods]
    job = JOB.replace("metadata: {", "metadata: {uid: u-train, ").replace(
        "template:\n", f"template:\n    metadata: {{labels: {{{label}}}}}\n"
    )
    return (CLASSES % "0s", NODES, group, job, *pods)


def test_a_job_with_the_name_of_its_group_is_the_gang_that_waits(explain):
    """`job/train` is answered with the decision about PodGroup train, in which its pods are."""
    code, out, _ = explain("job/train", *grouped())
    assert code == 0
    assert out.startswith("default/train PodGroup · priority 1000")
    assert "2 members can start now" in out
    assert "EMPTY" not in out


def test_a_job_with_the_name_of_its_group_that_runs(explain):
    """`job/train` of which all pods have a node is answered with all of them."""
    code, out, _ = explain("job/train", *grouped(node="yes"))
    assert code == 0
    assert out.startswith("default/train Job · 2 pods on nodes")
