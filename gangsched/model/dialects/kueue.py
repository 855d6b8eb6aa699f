"""Kueue's plain pod groups: pods with a label for their group and an annotation for how many they are.

Kueue itself gates such pods until their quota is reserved, and then ungates all of them; they start together here. Its
webhook refuses pods without the count. (https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#running-a-group-of-pods-to-be-admitted-together)
"""

from __future__ import annotations

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import Labels
from gangsched.model.dialects import slices
from gangsched.model.dialects.dialect import Dialect
from gangsched.model.dialects.objects import MAX_MEMBERS, named_in, shown
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.fields import Documented
from gangsched.model.records import Gang, Pod

FAMILY = "kueue.x-k8s.io"
HINT_PREFIX = "kueue.x-k8s.io/pod-group-"
GROUP_LABEL, TOTAL = f"{HINT_PREFIX}name", f"{HINT_PREFIX}total-count"
#: Kueue admits such a group with its first pod. It writes this for StatefulSets, which create a pod when the one before
#: is ready.
FAST = f"{HINT_PREFIX}fast-admission"


def group_of(meta: wire.ObjectMeta, _spec: wire.PodSpec) -> tuple[str, str]:
    """The group's name as a member gives it, and where. Pods that are admitted with the first one are in none: each
    starts by itself.
    """
    if (meta.annotations or {}).get(FAST) == "true":
        return "", ""
    return named_in(meta, ("labels", GROUP_LABEL), ("annotations", GROUP_LABEL))


def mistake_of_member(_labels: Labels, notes: Labels) -> Mistake | None:
    """What is wrong with what a member says about its gang."""
    try:
        _total(notes)
    except FieldError as error:
        return error.mistake
    return None


def gang_from_member(pod: Pod) -> Gang:
    """All pods of a group start together, those that have succeeded included. With a ``mistake`` none of them can be
    spared.
    """
    mistake = mistake_of_member(pod.labels, pod.hints)
    total = _total(pod.hints) if mistake is None else MAX_MEMBERS
    return Gang(FAMILY, pod.namespace, pod.gang.name, created=pod.created, min_member=total, mistake=mistake)


def _total(notes: Labels) -> int:
    raw = notes.get(TOTAL)
    field = f"metadata.annotations[{TOTAL}]"
    if raw is None:
        raise FieldError(field, invalid.NO_TOTAL)
    if not (raw.isascii() and raw.isdecimal() and len(raw) <= 7 and 1 <= int(raw) <= MAX_MEMBERS):
        raise FieldError(field, invalid.not_whole_between(value=shown(raw), low=1, high=MAX_MEMBERS))
    return int(raw)


DIALECT = Dialect(
    FAMILY,
    group_of,
    needs_object=lambda _: False,
    gang_from_member=gang_from_member,
    minimum_key=TOTAL,
    mistake_of=mistake_of_member,
    documented=(
        Documented(
            "on pods",
            None,
            {
                f"label, else annotation, `{GROUP_LABEL}`": "a gang without an object",
                f"annotation `{TOTAL}`": "all of them start together; without it, or with anything but 1 to 1,000,000, "
                "the gang waits",
                f'annotation `{FAST}: "true"`, which Kueue writes for StatefulSets': "each pod starts by itself: the "
                "others may be created when it is ready",
                f"annotations `{slices.SLICE_TOPOLOGY}`, `{slices.SLICE_LAYERS}`": "refused, unless Kueue has assigned "
                "the pod to a domain (nodeSelector) or still gates it",
                "annotations `kueue.x-k8s.io/retriable-in-group`, `kueue.x-k8s.io/podset-required-topology` and the "
                "like": "ignored; Kueue acts on them",
                "gate `kueue.x-k8s.io/admission`": "as any scheduling gate: the gang waits for Kueue",
            },
        ),
    ),
)
