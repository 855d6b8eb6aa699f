"""``gangsched init``: a manifest of a job becomes one of a gang."""

from __future__ import annotations

import json

import pytest
import yaml

from gangsched.cli.main import main

POD = "{spec: {containers: [{name: main, image: busybox, resources: {requests: {cpu: 1}}}]}}"
JOB = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: train, namespace: research}}
spec: {{parallelism: 4, completions: 6, template: {POD}}}
"""
JOBSET = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: mpi}}
spec:
  replicatedJobs:
    - {{name: launcher, template: {{spec: {{template: {POD}}}}}}}
    - {{name: workers, replicas: 2, template: {{spec: {{parallelism: 3, completions: 3, template: {POD}}}}}}}
"""
PYTORCH = f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: torch}}
spec:
  pytorchReplicaSpecs:
    Master: {{replicas: 1, template: {POD}}}
    Worker: {{replicas: 7, template: {POD}}}
"""
RAY = f"""\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: ray}}
spec:
  headGroupSpec: {{template: {POD}}}
  workerGroupSpecs: [{{replicas: 2, template: {POD}}}, {{replicas: 3, template: {POD}}}]
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n}
status: {capacity: {cpu: 64}}
"""


def made(text, tmp_path, capsys, *arguments):
    """The exit code, the objects and the lines on stderr."""
    file = tmp_path / "in.yaml"
    file.write_text(text)
    code = main(["init", "-f", str(file), *arguments])
    out, err = capsys.readouterr()
    return code, list(yaml.safe_load_all(out)), err


FLINK = """{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, metadata: {name: f},
  spec: {jobManager: {resource: {cpu: 1}}, taskManager: {replicas: 2, resource: {cpu: 1}}}}"""
OTHER = JOB.replace("kind: Job", "kind: Sweep").replace("parallelism: 4, completions: 6", "replicas: 4")
STATEFUL = OTHER.replace("Sweep", "StatefulSet").replace("batch/v1", "apps/v1")
LWS = f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: serve}}
spec: {{replicas: 2, leaderWorkerTemplate: {{size: 3, leaderTemplate: {POD}, workerTemplate: {POD}}}}}
"""
CRON = f"""\
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec: {{schedule: "0 3 * * *", jobTemplate: {{spec: {{parallelism: 4, template: {POD}}}}}}}
"""


@pytest.mark.parametrize(
    ("text", "templates"),
    [(JOB, 1), (JOBSET, 2), (PYTORCH, 2), (RAY, 3), (LWS, 2), (CRON, 1), (STATEFUL, 1)],
    ids=["Job", "JobSet", "PyTorchJob", "RayCluster", "LeaderWorkerSet", "CronJob", "StatefulSet"],
)
def test_an_annotation_makes_a_gang(text, templates, tmp_path, capsys):
    """On each template, with the scheduler's name; no group is needed."""
    code, (owner,), err = made(text, tmp_path, capsys)
    written = json.dumps(owner)
    assert code == 0
    assert written.count('"annotations": {"gangsched.dev/gang": "true"}') == templates
    assert written.count('"schedulerName": "py-gang-scheduler"') == templates
    assert "with the annotation gangsched.dev/gang" in err


SPARK = """\
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: pi}
spec: {driver: {cores: 1}, executor: {instances: 2, template: {spec: {containers: [{name: c}]}}}}
"""
RUNTIME = f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {{name: torch}}
spec:
  mlPolicy: {{numNodes: 2}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
            spec: {{template: {POD}}}
"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec: {runtimeRef: {name: torch}, trainer: {numNodes: 3}}
"""


def test_a_spark_application(tmp_path, capsys):
    """The operator reads the scheduler's name beside the templates; the driver alone starts the gang."""
    code, (owner,), err = made(SPARK, tmp_path, capsys)
    assert (code, owner["metadata"]["annotations"]) == (0, {"gangsched.dev/gang": "true"})
    assert [owner["spec"][role]["schedulerName"] for role in ("driver", "executor")] == ["py-gang-scheduler"] * 2
    assert "executors are created by the driver" in err


def test_a_train_job_with_its_runtime(tmp_path, capsys):
    """Its pods are of the templates of the runtime, so that is changed; alone it is refused."""
    code, (runtime, job), err = made(RUNTIME + "---\n" + TRAIN_JOB, tmp_path, capsys)
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    template = replicated["template"]["spec"]["template"]
    assert (code, job) == (0, yaml.safe_load(TRAIN_JOB))
    assert (template["metadata"]["annotations"], template["spec"]["schedulerName"]) == (
        {"gangsched.dev/gang": "true"},
        "py-gang-scheduler",
    )
    code, _, err = made(TRAIN_JOB, tmp_path, capsys)
    assert code == 2
    assert "its pods are made of the ClusterTrainingRuntime torch: give that in the same input" in err


@pytest.mark.parametrize("policy", ["{coscheduling: {}}", "{volcano: {}}"])
def test_a_runtime_whose_policy_makes_groups(policy, tmp_path, capsys):
    """The pods of its TrainJobs are in a PodGroup already, so the name of the scheduler alone is missing."""
    text = RUNTIME.replace("  mlPolicy", f"  podGroupPolicy: {policy}\n  mlPolicy")
    code, (runtime, _), err = made(text + "---\n" + TRAIN_JOB, tmp_path, capsys)
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    template = replicated["template"]["spec"]["template"]
    assert (code, template["spec"]["schedulerName"]) == (0, "py-gang-scheduler")
    assert "annotations" not in template.get("metadata", {})
    assert "podGroupPolicy" in err


EXCLUSIVE = "{annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: pool}}"


@pytest.mark.parametrize(
    "text",
    [
        JOBSET.replace("{name: mpi}", "{name: mpi, " + EXCLUSIVE[1:]),
        JOBSET.replace("template: {spec: {parallelism", f"template: {{metadata: {EXCLUSIVE}, spec: {{parallelism"),
    ],
)
def test_followers_that_come_later_are_said(text, tmp_path, capsys):
    """The webhook of JobSet refuses them until their leader has a node; also where one Job alone asks for it."""
    code, _, err = made(text, tmp_path, capsys)
    assert code == 0
    assert "starts when there is room for them too, in its domain" in err
    _, _, err = made(JOBSET, tmp_path, capsys)
    assert "in its domain" not in err


def test_the_items_of_a_list(tmp_path, capsys):
    """As kubectl prints several objects."""
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(JOB), yaml.safe_load(NODE)]})
    code, (found,), _ = made(text, tmp_path, capsys)
    job, node = found["items"]
    assert (code, node) == (0, yaml.safe_load(NODE))
    assert job["spec"]["template"]["spec"]["schedulerName"] == "py-gang-scheduler"


def test_a_group_that_is_there_is_kept(tmp_path, capsys):
    """The pods of a Job beside a PodGroup of its name get the label."""
    text = (
        "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: train, namespace: research},"
        " spec: {minMember: 2}}\n---\n"
    )
    code, (group, owner), _ = made(text + JOB, tmp_path, capsys)
    assert (code, group["spec"]) == (0, {"minMember": 2})
    assert owner["spec"]["template"]["metadata"] == {"labels": {"pod-group.scheduling.sigs.k8s.io": "train"}}


@pytest.mark.parametrize(
    "text",
    [JOB, STATEFUL],
)
def test_to_make_it_a_gang_again_changes_nothing(text, tmp_path, capsys):
    """What is printed is what there is already."""
    _, first, _ = made(text + "---\n" + NODE, tmp_path, capsys)
    _, again, _ = made(yaml.safe_dump_all(first), tmp_path, capsys)
    assert again == first


def test_a_plan_has_the_gang(tmp_path, capsys):
    """What is printed is understood by ``plan``, and starts whole."""
    _, found, _ = made(JOB + "---\n" + NODE, tmp_path, capsys)
    file = tmp_path / "gang.yaml"
    file.write_text(yaml.safe_dump_all(found))
    assert main(["plan", "-f", str(file), "-o", "json"]) == 0
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert (decision["gang"], decision["required"], decision["outcome"]) == ("research/train", 4, "bind")


def test_other_objects_and_labels_stay(tmp_path, capsys):
    """What is no workload is printed as it was, and a template keeps its own labels."""
    job = JOB.replace("template: {spec", "template: {metadata: {labels: {app: x}}, spec")
    code, objects, _ = made(NODE + "---\n" + job, tmp_path, capsys, "--scheduler-name", "mine")
    assert (code, objects[0], [each["kind"] for each in objects]) == (0, yaml.safe_load(NODE), ["Node", "Job"])
    template = objects[1]["spec"]["template"]
    assert template["metadata"] == {"labels": {"app": "x"}, "annotations": {"gangsched.dev/gang": "true"}}
    assert template["spec"]["schedulerName"] == "mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}", "a single pod starts by itself"),
        (JOB.replace("name: train, ", ""), "it has no name"),
        (JOB.replace("kind: Job", "kind: Deployment"), "replaced one by one"),
        (OTHER, "it is not known which pods a Sweep makes when: give them the label"),
        (FLINK, "it is not known which pods a FlinkDeployment makes when: give them the label"),
        (JOB.replace("batch/v1", "batch.volcano.sh/v1alpha1"), "give the scheduler a profile called volcano"),
        (SPARK.replace("driver:", "batchScheduler: volcano, driver:"), "leave batchScheduler out"),
        (JOB.replace(f"template: {POD}", "template: null"), "spec.template: cannot be made a gang: there is no"),
        (JOB.replace(POD, "{spec: {containers: []}}"), "spec.template: cannot be made a gang: this template"),
        (JOB.replace(POD, "[]"), "there is no template of pods here"),
        (PYTORCH.replace("pytorchReplicaSpecs", "tfReplicaSpecs"), "spec.pytorchReplicaSpecs: cannot be made a gang"),
        (
            JOB.replace("template: {", "template: {metadata: {labels: {pod-group.scheduling.sigs.k8s.io: a}}, "),
            "its pods belong to the gang a already",
        ),
    ],
)
def test_what_cannot_be_a_gang(text, why, tmp_path, capsys):
    """It is printed as it was, with the reason on stderr and exit code 2."""
    code, objects, err = made(text, tmp_path, capsys)
    assert (code, objects) == (2, [yaml.safe_load(text)])
    assert "cannot be made a gang" in err
    assert why in err
