"""Fields that group objects and members of all APIs have in common.

KAI's ``kai.scheduler/preemption-delay`` counts on both: how long a workload that does not fit waits before it evicts
others. What is no Go duration is ignored with a warning; KAI ignores it without one.

Names are DNS-1123 subdomains, as the API server accepts them:
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import Labels
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.fields import check, used
from gangsched.model.preemptible import stakes_of
from gangsched.model.queues import queue_labels
from gangsched.model.records import Gang, Owner
from gangsched.model.shapes import frozen, parse_list
from gangsched.model.times import parse_duration, parse_time

#: Fields of several APIs that mean the same.
QueueName = Annotated[
    str, used("a LocalQueue of that name in its namespace limits the gang, else the Queue ([queues.md](../queues.md))")
]
PriorityClassName = Annotated[
    str,
    used(
        "the gang's priority as preemptor and as victim where [`profiles[].trustGroupPriority`](configuration.md) says"
        " so, as by default for the scheduler names `volcano` and `kai-scheduler`; elsewhere no more than that of its"
        " pods; absent, or not the name of a PriorityClass: that of its pods"
    ),
]
MinResources = Annotated[
    wire.Quantities | None, used("it starts when there is room for all of it ([announced members](#announced-members))")
]
PREEMPTION_DELAY = "kai.scheduler/preemption-delay"
#: No gang has more members than this.
MAX_MEMBERS = 1_000_000
MAX_NAME = 253
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)
#: So much of a wrong name is shown.
_SHOWN = 60

ALLOWED = invalid.subdomain(most=MAX_NAME)


def is_subdomain(name: str) -> bool:
    """Return True if an object can have this name."""
    return len(name) <= MAX_NAME and _SUBDOMAIN.fullmatch(name) is not None


def is_key(text: str) -> bool:
    """Return True if this is ``namespace/name``, both such as objects have."""
    namespace, _, name = text.partition("/")
    return len(namespace) <= 63 and _NAMESPACE.fullmatch(namespace) is not None and is_subdomain(name)


def shown(text: str) -> str:
    """Return a user's text in quotes, cut to a readable length."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def members(count: int, field: str, least: int = 0) -> int:
    """So many members. Raises :class:`FieldError` if it cannot be so many."""
    if not least <= count <= MAX_MEMBERS:
        raise FieldError(field, invalid.not_between(value=count, low=least, high=MAX_MEMBERS))
    return count


def min_resources(raw: wire.Quantities | None) -> tuple[tuple[str, int], ...]:
    """Return the requests of all members together, in base units. Volcano's controllers write quota keys into it beside
    resources (``requests.cpu``, ``count/pods``); these say nothing more. Raises :class:`FieldError`.
    """
    named = {
        k: v for k, v in (raw or {}).items() if k != "pods" and not k.startswith(("requests.", "limits.", "count/"))
    }
    return frozen(parse_list(named, "spec.minResources"))


def named_in(meta: wire.ObjectMeta, *places: tuple[str, str]) -> tuple[str, str]:
    """Return the value of the first of these ``labels`` and ``annotations`` (each with its key), and its field."""
    for where, key in places:
        found = (getattr(meta, where) or {}).get(key)
        if found:
            return found, f"metadata.{where}[{key}]"
    return "", ""


def preemption_delay(notes: Labels) -> float | None:
    """Seconds; None when absent or no duration."""
    return _delay(notes)[0]


def delay_remark(notes: Labels) -> Mistake | None:
    """What is wrong with it."""
    return _delay(notes)[1]


def _delay(notes: Labels) -> tuple[float | None, Mistake | None]:
    raw = notes.get(PREEMPTION_DELAY)
    if not raw:
        return None, None
    try:
        return parse_duration(raw, f"metadata.annotations[{PREEMPTION_DELAY}]"), None
    except FieldError as error:
        return None, error.remark


def described(family: str, obj: Any, remark: Mistake | None, **wishes: Any) -> Gang:
    """The gang of a PodGroup of the API group ``family``. ``wishes`` are fields of the record, from its spec.

    Raises :class:`~gangsched.model.errors.FieldError`, also for fields that are refused.
    """
    meta: wire.ObjectMeta = obj.metadata
    notes = meta.annotations or {}
    check(obj.spec)
    stakes, unclear = stakes_of(notes)
    delay = wishes.pop("preemption_delay_seconds", None) or preemption_delay(notes)
    return Gang(
        family=family,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        generation=meta.generation,
        source=f"{wishes.get('kind', 'PodGroup')}.{family}",
        preemption_delay_seconds=delay,
        queue=queue_labels(meta.labels or {}),
        remark=remark or delay_remark(notes) or unclear,
        stakes=stakes,
        owner=owner_of(meta),
        deleting=bool(meta.deletion_timestamp),
        **wishes,
    )


def owner_of(meta: wire.ObjectMeta) -> Owner | None:
    """The controller of an object."""
    return None if meta.controller is None else owner(meta.controller)


#: The API groups of owners of which something is known, and of the DaemonSets and nodes that own pods. Others have
#: kinds of these names too.
OWNER_GROUPS = {
    "Job": "batch",
    "JobSet": "jobset.x-k8s.io",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "ReplicationController": "",
    "Node": "",
    "PyTorchJob": "kubeflow.org",
    "TFJob": "kubeflow.org",
    "XGBoostJob": "kubeflow.org",
    "PaddleJob": "kubeflow.org",
    "JAXJob": "kubeflow.org",
    "MPIJob": "kubeflow.org",
    "TrainJob": "trainer.kubeflow.org",
    "RayCluster": "ray.io",
    "RayJob": "ray.io",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "SparkApplication": "sparkoperator.k8s.io",
}


#: Kinds of controllers whose pods may be a gang by an annotation. Executors of Spark are owned by their driver, a Pod.
GANG_OWNERS = OWNER_GROUPS.keys() - {"ReplicaSet", "ReplicationController", "DaemonSet", "Node"} | {"Pod"}


def owner(reference: wire.OwnerReference) -> Owner:
    """Who is named. A reference without an apiVersion, which only manifests have, names the kind that is known."""
    group, _, version = reference.api_version.rpartition("/")
    another = bool(reference.api_version) and OWNER_GROUPS.get(reference.kind, group) != group
    kind = f"{reference.kind}.{version}.{group}".rstrip(".") if another else reference.kind
    return Owner(kind, reference.name, reference.uid)
