"""Grove's PodGangs (``scheduler.grove.io``): gangs whose parts have minimums and topologies of their own.

Pods name their PodGang in a label. PodGangs are not read, so the pods of one wait together and their reason names it.
A backend of Grove for another gang API writes groups of that API, which count instead.
Source: ``operator/api/common/labels.go`` of ai-dynamo/grove.
"""

from __future__ import annotations

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects.dialect import Dialect
from gangsched.model.dialects.objects import MAX_MEMBERS, named_in
from gangsched.model.errors import Mistake
from gangsched.model.fields import Documented
from gangsched.model.records import Gang, Pod

FAMILY = "scheduler.grove.io"
LABEL = "grove.io/podgang"


def group_of(meta: wire.ObjectMeta, _spec: wire.PodSpec) -> tuple[str, str]:
    """Return the PodGang of a pod and the field that names it."""
    return named_in(meta, ("labels", LABEL))


def gang_from_member(pod: Pod) -> Gang:
    """Return a gang that waits. None of its pods can be spared, since its minimums are not known."""
    mistake = Mistake(f"metadata.labels[{LABEL}]", invalid.PODGANG)
    return Gang(
        FAMILY,
        pod.namespace,
        pod.gang.name,
        kind="PodGang",
        created=pod.created,
        min_member=MAX_MEMBERS,
        mistake=mistake,
    )


DIALECT = Dialect(
    FAMILY,
    group_of,
    needs_object=lambda _: False,
    gang_from_member=gang_from_member,
    minimum_key=LABEL,
    documented=(
        Documented(
            "on pods of Grove",
            None,
            {
                f"label `{LABEL}`": "refused: the pods of a PodGang wait. If a backend of Grove has put them into a "
                "group of another API, that group counts"
            },
        ),
    ),
)
