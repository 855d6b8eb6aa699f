"""Objects that controllers create: the pods of a Job and the Jobs of a JobSet, with their names and labels.

Sources: https://kubernetes.io/docs/concepts/workloads/controllers/job/ and https://jobset.sigs.k8s.io/docs/concepts/ .

A pod template gains node labels as a selector, and tolerations, while its Job runs in a flavor. These are scheduling
directives, which a suspended Job may change
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#mutable-scheduling-directives). The added fields are
recorded in an annotation of the Job or JobSet, one entry for each template, so that they can be removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping

import msgspec

from gangsched.model import wire
from gangsched.model.constraints import Directives, PodShape, Toleration
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import (
    BY_NODE_LABELS,
    EXCLUSIVE,
    GROUP,
    JOBSET,
    VERSION,
    RawJobSet,
    RawReplicatedJob,
)
from gangsched.model.records import Pod

JOB_NAME = "batch.kubernetes.io/job-name"
OLD_JOB_NAME = "job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_REPLICATED_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
_REPLICATED_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
#: The label by which the pods of one Job of a JobSet find each other.
JOB_KEY = "jobset.sigs.k8s.io/job-key"
#: Annotations of a JobSet that its Jobs and pods get.
PLACEMENT = (EXCLUSIVE, BY_NODE_LABELS)
#: Annotations for simulations; what is made gets those of its owner.
SIMULATION = "sim.gangsched.dev/"


def pod(job: wire.ObjectMeta, template: wire.PodTemplate) -> wire.Pod:
    """Return the common part of all pods of a Job, under the name of the Job."""
    own = {JOB_NAME: job.name, OLD_JOB_NAME: job.name}
    own |= {"batch.kubernetes.io/controller-uid": job.uid, "controller-uid": job.uid}
    return wire.Pod(_made(job, ("batch/v1", "Job"), template.metadata, own), template.spec)


def indexed_pod(common: wire.Pod, index: int, *, labelled: bool) -> wire.Pod:
    """The pod of this index; its name ends in the index instead of a random suffix. Pods of Indexed Jobs are
    ``labelled`` with it.
    """
    meta = common.metadata
    own = {COMPLETION_INDEX: str(index)}
    return wire.Pod(
        msgspec.structs.replace(
            meta,
            name=f"{meta.name}-{index}",
            labels={**(meta.labels or {}), **own} if labelled else meta.labels,
            annotations={**(meta.annotations or {}), **own},
        ),
        common.spec,
    )


def exclusive(
    spec: wire.PodSpec, topology: str, key: str, value: str, namespaces: wire.LabelSelector | None = None
) -> wire.PodSpec:
    """Return the spec of a pod whose domain is only for pods that share the label ``key`` with it, as the webhooks of
    JobSet (for all ``namespaces``) and LeaderWorkerSet write it.
    """

    def term(*expressions: wire.LabelSelectorRequirement) -> wire.PodAffinityTerm:
        selector = wire.LabelSelector(match_expressions=[*expressions])
        return wire.PodAffinityTerm(selector, namespace_selector=namespaces, topology_key=topology)

    own = spec.affinity or wire.Affinity()
    near, far = own.pod_affinity or wire.PodAffinity(), own.pod_anti_affinity or wire.PodAffinity()
    beside = term(wire.LabelSelectorRequirement(key, "In", [value]))
    apart = term(wire.LabelSelectorRequirement(key, "Exists"), wire.LabelSelectorRequirement(key, "NotIn", [value]))
    affinity = msgspec.structs.replace(
        own,
        pod_affinity=msgspec.structs.replace(near, required=[*(near.required or ()), beside]),
        pod_anti_affinity=msgspec.structs.replace(far, required=[*(far.required or ()), apart]),
    )
    return msgspec.structs.replace(spec, affinity=affinity)


def job(jobset: RawJobSet, replicated: RawReplicatedJob, index: int | None = None) -> wire.Job:
    """The Job of this index that a JobSet makes; without an index, what all of them have in common."""
    template = replicated.template
    labels = {
        JOBSET_NAME: jobset.metadata.name,
        _REPLICATED_NAME: replicated.name,
        _REPLICATED_REPLICAS: str(replicated.replicas),
    }
    if index is not None:
        labels[_JOB_INDEX] = str(index)
    name = f"{jobset.metadata.name}-{replicated.name}" + ("" if index is None else f"-{index}")
    key = f"{jobset.metadata.namespace}/{name}"
    labels[JOB_KEY] = hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()
    meta = _made(jobset.metadata, (f"{GROUP}/{VERSION}", JOBSET), template.metadata, labels)
    meta.name = name
    pods = template.spec.template
    placement = {key: text for key, text in (jobset.metadata.annotations or {}).items() if key in PLACEMENT}
    placement |= {key: text for key, text in (meta.annotations or {}).items() if key in PLACEMENT}
    meta.annotations = {**(meta.annotations or {}), **placement}
    own = wire.ObjectMeta(
        labels=(pods.metadata.labels or {}) | labels,
        annotations={**(pods.metadata.annotations or {}), **placement},
    )
    spec = msgspec.structs.replace(
        template.spec,
        template=wire.PodTemplate(own, pods.spec),
        suspend=template.spec.suspend or jobset.spec.suspend,
        completion_mode="Indexed",
    )
    return wire.Job(meta, spec)


def _made(
    owner: wire.ObjectMeta, kind: tuple[str, str], template: wire.ObjectMeta, labels: dict[str, str]
) -> wire.ObjectMeta:
    """Metadata under the name of the owner, which is of this ``(apiVersion, kind)``."""
    notes = {key: text for key, text in (owner.annotations or {}).items() if key.startswith(SIMULATION)}
    return wire.ObjectMeta(
        name=owner.name,
        namespace=owner.namespace,
        creation_timestamp=owner.creation_timestamp,
        labels={**(template.labels or {}), **labels},
        annotations={**notes, **(template.annotations or {})},
        owner_references=[wire.OwnerReference(*kind, owner.name, owner.uid, controller=True)],
    )


#: Annotation of Jobs and JobSets: a JSON list of what its templates have of their flavors.
ADDED_BY_FLAVOR = "gangsched.dev/added-by-flavor"


class WireDirectives(wire.Wire):
    """One entry of the annotation, in the fields of a pod's spec."""

    node_selector: dict[str, str] | None = None
    tolerations: list[wire.Toleration] | None = None


_decoder = msgspec.json.Decoder(list[WireDirectives])


def added_by_flavor(annotations: Mapping[str, str] | None) -> list[WireDirectives]:
    """Return the value of the annotation; empty without one. Raises :class:`FieldError`."""
    text = (annotations or {}).get(ADDED_BY_FLAVOR)
    if text is None:
        return []
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FieldError(f"metadata.annotations[{ADDED_BY_FLAVOR}]", str(error)) from None


def without(spec: wire.PodSpec, added: WireDirectives) -> wire.PodSpec:
    """A template's spec as it was before. Later changes of others stay."""
    if not added.node_selector and not added.tolerations:
        return spec
    gone = (added.node_selector or {}).items()
    selector = {k: v for k, v in (spec.node_selector or {}).items() if (k, v) not in gone}
    tolerations = list(spec.tolerations or ())
    for each in added.tolerations or ():
        if each in tolerations:
            tolerations.remove(each)
    return msgspec.structs.replace(spec, node_selector=selector or None, tolerations=tolerations or None)


def toleration(raw: wire.Toleration) -> Toleration:
    """A toleration whose operator is known to be one."""
    return Toleration(raw.key, raw.operator or "Equal", raw.value, raw.effect, raw.toleration_seconds)


def directives(raw: WireDirectives) -> Directives:
    """The record of one entry."""
    selector = tuple(sorted((raw.node_selector or {}).items()))
    return Directives(selector, tuple(toleration(t) for t in raw.tolerations or ()))


def directed(shape: PodShape, added: Directives) -> PodShape:
    """A shape with directives added; its own selector goes first."""
    if not added:
        return shape
    selector = tuple(sorted({**dict(added.node_selector), **dict(shape.node_selector)}.items()))
    more = tuple(t for t in added.tolerations if t not in shape.tolerations)
    return msgspec.structs.replace(shape, node_selector=selector, tolerations=(*shape.tolerations, *more))


def merged(template: Pod, model: Pod | None, but: Container[str] = ()) -> Pod:
    """A pod with the node selector and the tolerations of another beside its own, keys of its own selector in ``but``
    left out. The other's keys go first: so a JobSet writes what its template says into a Job that there is.
    """
    shape = template.shape
    if model is None:
        return template
    own = {k: v for k, v in shape.node_selector if k not in but}
    selector = tuple(sorted((own | dict(model.shape.node_selector)).items()))
    tolerations = shape.tolerations + tuple(t for t in model.shape.tolerations if t not in shape.tolerations)
    if (shape.node_selector, shape.tolerations) == (selector, tolerations):
        return template
    shape = msgspec.structs.replace(shape, node_selector=selector, tolerations=tolerations)
    return msgspec.structs.replace(template, shape=shape)
