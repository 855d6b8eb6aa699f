"""The roles of an operator's object: the number of pods, the minimum that starts together, and pods that the controller
creates only when others have a node, or run.

Both the gang of an object and the pods that are made of its templates follow from this, so they agree.

A head, master, chief, launcher or parameter server is needed in any case; what may be fewer are workers. Where there is
none of these, the worker of index 0 is the one that the others look for (the rendezvous of PyTorch, the coordinator of
JAX). KubeRay keeps ``replicas`` between ``minReplicas`` and ``maxReplicas``
(``GetWorkerGroupDesiredReplicas``, ray-operator/controllers/ray/utils/util.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects.operator_specs import (
    LeaderWorkerTemplate,
    OperatorSpec,
    RayClusterSpec,
    ReplicaSpec,
    WorkerGroup,
)
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import MAX_WITHOUT_PODS

#: No gang has more members than this.
MOST = 100_000
HEAD, WORKER, LEADER, LAUNCHER, SUBMITTER, REPLICA = "head", "worker", "leader", "launcher", "submitter", "replica"
DRIVER, EXECUTOR = "driver", "executor"
#: The worker of index 0, where no other role leads.
FIRST_WORKER = "worker-0"
#: The roles of Kubeflow that the others cannot do without, the first to be counted first.
_NEEDED = ("launcher", "master", "chief", "ps")
LEADER_FIRST, WAIT_FOR_WORKERS = "LeaderReady", "WaitForWorkersReady"
#: Annotation of a LeaderWorkerSet: the pods of each group have a domain of this node label to themselves.
EXCLUSIVE_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
#: The default requests of the pod that submits the work of a RayJob.
_SUBMITTER_ASKS: Mapping[str, str | int | float] = {"cpu": "500m", "memory": "200Mi"}


class Role(NamedTuple):
    """``size`` pods of one template, ``at_once`` of which are made before any member has a node, and ``least`` of
    which start together. ``kept``: a gang that runs is whole only with all of those that come later, too. The pods are
    called by the ``name`` and the numbers from ``first`` on, ``named`` is what stands before the number.
    """

    name: str
    size: int
    least: int
    at_once: int
    template: wire.PodTemplate
    field: str
    kept: bool = True
    named: str = ""
    first: int = 0

    @property
    def created_later(self) -> int:
        """How many are made when others have a node, or run."""
        return self.size - self.at_once


def all_at_once(name: str, count: int, template: wire.PodTemplate, field: str, **more: str | int) -> Role:
    """Pods that are made before any of them has a node, and start together."""
    return Role(name, count, count, count, template, field, named=str(more.get("named", name)))


def kubeflow(spec: OperatorSpec) -> list[Role]:
    """All replicas, of elastic workers only the least number; ``schedulingPolicy.minAvailable`` counts instead, filled
    with those that are needed in any case first. A launcher that waits for its workers comes after them.
    """
    found: list[Role] = []
    least = spec.elastic_policy.min_replicas if spec.elastic_policy is not None else None
    for field, specs in replica_specs(spec):
        for role, each in specs.items():
            path = f"{field}.{role}"
            name = role.lower()
            wanted = 1 if each.replicas is None else count(each.replicas, f"{path}.replicas")
            made = Role(name, wanted, wanted, wanted, each.template, f"{path}.template", named=name)
            if name == WORKER and least is not None:
                fewest = count(least, "spec.elasticPolicy.minReplicas")
                made = made._replace(least=min(wanted, fewest))
            if name == LAUNCHER and spec.launcher_creation_policy == WAIT_FOR_WORKERS:
                made = made._replace(least=0, at_once=0)
            found.append(made)
    found.sort(key=lambda role: _NEEDED.index(role.name) if role.name in _NEEDED else len(_NEEDED))
    policy = spec.run_policy.scheduling_policy if spec.run_policy is not None else None
    if policy is not None and policy.min_available is not None:
        found = _filled(found, count(policy.min_available, "spec.runPolicy.schedulingPolicy.minAvailable"))
    return [each for role in found for each in _led(role, found)]


def _filled(roles: Sequence[Role], minimum: int) -> list[Role]:
    """The roles with so many members together, as far as there are so many."""
    out, left = [], max(1, minimum)
    for role in roles:
        least = min(left, role.at_once)
        out.append(role._replace(least=least))
        left -= least
    return out


def _led(role: Role, among: Sequence[Role]) -> Iterator[Role]:
    """Workers of which some may be left out, and which the one of index 0 leads."""
    alone = role.name == WORKER and not any(each.name in _NEEDED for each in among)
    if alone and 0 < role.least < role.at_once:
        yield role._replace(name=FIRST_WORKER, size=1, least=1, at_once=1)
        rest = role.size - 1
        yield role._replace(size=rest, least=role.least - 1, at_once=rest, first=1)
    else:
        yield role


def replica_specs(spec: OperatorSpec) -> Iterator[tuple[str, dict[str, ReplicaSpec]]]:
    """The replicas of each framework of Kubeflow by their roles, with the field in which they stand."""
    for field, specs in (
        ("pytorchReplicaSpecs", spec.pytorch_replica_specs),
        ("tfReplicaSpecs", spec.tf_replica_specs),
        ("xgbReplicaSpecs", spec.xgb_replica_specs),
        ("paddleReplicaSpecs", spec.paddle_replica_specs),
        ("jaxReplicaSpecs", spec.jax_replica_specs),
        ("mpiReplicaSpecs", spec.mpi_replica_specs),
    ):
        if specs:
            yield f"spec.{field}", specs


def ray_cluster(spec: RayClusterSpec, path: str = "spec") -> list[Role]:
    """The head, and the workers of each group: with the autoscaler those that always run are enough to start."""
    out = [all_at_once(HEAD, 1, spec.head_group_spec.template, f"{path}.headGroupSpec.template")]
    for index, each in enumerate(spec.worker_group_specs or ()):
        field = f"{path}.workerGroupSpecs[{index}]"
        if each.suspend:
            continue
        hosts = count(each.num_of_hosts, f"{field}.numOfHosts")
        low, high = _bounds(each, field)
        wanted = low if each.replicas is None else count(each.replicas, f"{field}.replicas")
        wanted = low if wanted < low else min(wanted, high)
        least = min(low, wanted) if spec.enable_in_tree_autoscaling else wanted
        name = f"{WORKER}-{each.group_name}" if each.group_name else WORKER
        size, fewest = min(MOST, wanted * hosts), min(MOST, least * hosts)
        named = f"{each.group_name}-{WORKER}" if each.group_name else WORKER
        out.append(Role(name, size, fewest, size, each.template, f"{field}.template", named=named))
    return out


def _bounds(group: WorkerGroup, field: str) -> tuple[int, int]:
    low = count(group.min_replicas or 0, f"{field}.minReplicas")
    high = 2**31 - 1 if group.max_replicas is None else group.max_replicas
    if high < 0:
        raise FieldError(f"{field}.maxReplicas", invalid.not_between(value=high, low=0, high=2**31 - 1))
    return low, high


def ray_job(spec: OperatorSpec) -> list[Role]:
    """Its cluster; the pod of a Job that submits its work is made when that is ready. A RayJob without a cluster of its
    own has only this.
    """
    cluster = spec.ray_cluster_spec
    if cluster is None:
        return [
            all_at_once(SUBMITTER, 1, spec.submitter_pod_template or wire.PodTemplate(), "spec.submitterPodTemplate")
        ]
    out = ray_cluster(cluster, "spec.rayClusterSpec")
    if spec.submission_mode in ("", "K8sJobMode"):
        template = spec.submitter_pod_template or _submitter(cluster)
        out.append(Role(SUBMITTER, 1, 0, 0, template, "spec.submitterPodTemplate"))
    return out


def _submitter(cluster: RayClusterSpec) -> wire.PodTemplate:
    """Return the default template of KubeRay for the pod that submits the work of a RayJob."""
    image = next((each.image for each in cluster.head_group_spec.template.spec.containers), "")
    asked = wire.ResourceRequirements(requests={**_SUBMITTER_ASKS})
    return wire.PodTemplate(spec=wire.PodSpec(containers=[wire.Container(image=image, resources=asked)]))


def leader_worker(spec: OperatorSpec, notes: Mapping[str, str]) -> list[Role]:
    """All pods of a group, or its leader if the workers are made when that is ready, or has a node."""
    template: LeaderWorkerTemplate = spec.leader_worker_template
    path = "spec.leaderWorkerTemplate"
    size = count(template.size, f"{path}.size")
    leader = template.leader_template
    first, field = (template.worker_template, "workerTemplate") if leader is None else (leader, "leaderTemplate")
    workers = max(0, size - 1)
    later = (spec.startup_policy == LEADER_FIRST or bool(notes.get(EXCLUSIVE_GROUPS))) and size <= MAX_WITHOUT_PODS
    at_once = 0 if later else workers
    return [
        all_at_once(LEADER, 1, first, f"{path}.{field}", named=""),
        Role(WORKER, workers, at_once, at_once, template.worker_template, f"{path}.workerTemplate", first=1),
    ]


def stateful_set(spec: wire.StatefulSetSpec) -> list[Role]:
    """All replicas, or the first one if each is made when the one before is ready."""
    size = count(1 if spec.replicas is None else spec.replicas, "spec.replicas")
    at_once = size if spec.pod_management_policy == "Parallel" or size > MAX_WITHOUT_PODS else min(1, size)
    first = count(spec.ordinals.start, "spec.ordinals.start") if spec.ordinals is not None else 0
    return [Role(REPLICA, size, at_once, at_once, spec.template, "spec.template", first=first)]


def count(value: int, field: str) -> int:
    """A number of pods. Raises :class:`FieldError`."""
    if not 0 <= value <= MOST:
        raise FieldError(field, invalid.not_between(value=value, low=0, high=MOST))
    return value
