"""Objects into events, with the defaults and expansions of the API server and the controllers; alone, or on top of a
cluster.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

import msgspec

from gangsched.cluster.kinds import KINDS, Workload
from gangsched.cluster.manifests.admission import (
    MAX_PODS,
    Owners,
    PriorityAdmission,
    StorageAdmission,
    jobs_of,
    pods_of,
    pods_wanted,
)
from gangsched.cluster.manifests.expansion import Made, expanded
from gangsched.cluster.manifests.misspelt import misspelt_keys
from gangsched.cluster.manifests.objects import Defaults, Found, Source, objects, parsed, read
from gangsched.cluster.manifests.overlay import Around, overlaid
from gangsched.cluster.manifests.owned import controllers, why_none
from gangsched.cluster.manifests.queues import default_queues
from gangsched.cluster.manifests.references import missing
from gangsched.cluster.manifests.validation import check_resources
from gangsched.core.events import Changed, Event, Record, record_of, records
from gangsched.messages import invalid
from gangsched.model import jobsets, volumes, wire
from gangsched.model.children import SIMULATION
from gangsched.model.constraints import Labels
from gangsched.model.convert import Converter, job_set
from gangsched.model.convert_refused import refused_pod
from gangsched.model.dialects import DIALECTS, coscheduling, grove, koordinator, volcano
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.dialects.operators import RAY, RAY_CLUSTER
from gangsched.model.errors import FieldError, InputError, InvalidInputError, Place, Problem
from gangsched.model.jobsets import JOBSET, RawJobSet
from gangsched.model.managed_by import other_controller
from gangsched.model.pod_clique_sets import PodCliqueSet, TopologyBinding
from gangsched.model.records import UID_FROM_MANIFEST, Gang, Job, Node, Pod, PodSelector
from gangsched.model.times import parse_time
from gangsched.model.unsubmitted import Runtime, VolcanoJob
from gangsched.model.volumes import claim as claim_record

#: What the group objects of all APIs are decoded as.
_GROUPS = tuple(each.decoded_as for each in DIALECTS if each.decoded_as is not None)
#: Objects that the core knows by their UID.
_WITH_UID = (
    wire.Pod,
    wire.Node,
    koordinator.PodGroup,
    wire.UpstreamPodGroup,
    wire.Job,
    RawJobSet,
    OperatorObject,
    VolcanoJob,
    PodCliqueSet,
    volumes.RawPersistentVolumeClaim,
    volumes.RawPersistentVolume,
)


#: The kinds and API groups of groups that controllers of owners make.
_MADE_GROUPS: Mapping[type, tuple[str, str]] = {
    volcano.PodGroup: ("PodGroup", volcano.FAMILY),
    koordinator.PodGroup: ("PodGroup", coscheduling.FAMILY),
    grove.PodGang: (grove.KIND, grove.FAMILY),
}
_OWNERS_OF_PODS = (
    wire.ReplicationController,
    wire.ReplicaSet,
    wire.StatefulSet,
    OperatorObject,
    VolcanoJob,
    PodCliqueSet,
)


class Loaded(msgspec.Struct, frozen=True):
    """The input as the core sees it.

    ``events`` are in the order of the input, a Job's or JobSet's pods in the place of their owner. ``places``
    says for each event where it comes from. ``now`` is the newest creationTimestamp, startTime or checkpoint, in
    seconds since the epoch; 0 without any. ``group_hints`` are the annotations for simulations on group objects, by
    family, namespace and name.
    """

    events: list[Event]
    places: list[Place]
    warnings: list[Problem]
    now: float
    group_hints: dict[tuple[str, str, str], Labels] = {}


def load(
    sources: Sequence[str | Source],
    *,
    stdin: IO[bytes] | IO[str] | None = None,
    around: Around | None = None,
    skip_invalid: bool = False,
    namespace: str = "",
) -> Loaded:
    """Read texts, files, folders (with sub-folders) and ``-`` (``stdin``, by default the process's). With ``around``
    they are to be applied to a cluster, and need not be complete by themselves. With ``skip_invalid`` an object that
    cannot be understood is left out, with a warning. Objects that name no namespace are in ``namespace``, by default
    that of ``around``, else ``default``.

    Raises :class:`InvalidInputError` with all objects that cannot be understood, and :class:`InputError` for a file
    that is no YAML or JSON of objects.
    """
    # A dump of a cluster becomes millions of permanent objects. Collecting garbage among them would take a third of the
    # time.
    collects = gc.isenabled()
    gc.disable()
    try:
        space = namespace or (around.namespace if around is not None else "default")
        return _load(read(sources, stdin), around, space, skip_invalid=skip_invalid)
    finally:
        if collects:
            gc.enable()


def _load(sources: Iterable[Source], around: Around | None, namespace: str, *, skip_invalid: bool) -> Loaded:
    """The texts, those beside a snapshot as they would be applied to its cluster."""
    given = list(sources)
    below = [source for source in given if source.is_snapshot]
    above = [source for source in given if not source.is_snapshot]
    if around is not None or not below:
        return _load_all(given, around, namespace, skip_invalid=skip_invalid)
    cluster = _load_all(below, None, namespace, skip_invalid=skip_invalid, dumped=True)
    if not above:
        return cluster
    around = Around.of(cluster.events, namespace)
    return _on_top(_load_all(above, around, namespace, skip_invalid=skip_invalid), cluster)


def _on_top(above: Loaded, below: Loaded) -> Loaded:
    """What is given, on top of a cluster."""
    places = {
        id(event): place for each in (below, above) for event, place in zip(each.events, each.places, strict=True)
    }
    events = overlaid(below.events, above.events)
    return Loaded(
        events,
        [places[id(event)] for event in events],
        [*below.warnings, *above.warnings],
        max(below.now, above.now),
        {**below.group_hints, **above.group_hints},
    )


def _load_all(
    sources: Iterable[Source], around: Around | None, namespace: str, *, skip_invalid: bool, dumped: bool = False
) -> Loaded:
    warnings: list[Problem] = []
    refused: list[InputError] = []
    found: list[Found] = []
    places: dict[tuple[str, str, str, str], Place] = {}
    defaults = Defaults(namespace, itertools.count(1))
    for source in sources:
        for document in parsed(source):
            for each in objects(document, warnings, refused, defaults):
                meta = each.object.metadata
                key = (each.kind.name, each.kind.group, meta.namespace, meta.name)
                if key in places:
                    error = InputError(each.place, "metadata.name", invalid.defined_already(place=places[key]))
                    refused.append(error)
                    continue
                places[key] = each.place
                found.append(each)
    loaded = _Loading(found, _without_owners(warnings, found), refused, around, dumped=dumped).run()
    if refused and not skip_invalid:
        raise InvalidInputError(refused)
    skipped: list[Problem] = [
        {**error.problem, "field": error.problem["field"] or "", "message": f"skipped: {error.problem['message']}"}
        for error in refused
    ]
    loaded.warnings.extend(skipped)
    return loaded


def _without_owners(warnings: list[Problem], found: Sequence[Found]) -> list[Problem]:
    """The warnings without those about kinds that are not read, where the input has what the object owns."""
    owned = {
        f"{owner.kind} {space}{owner.name}"
        for each in found
        for owner in each.object.metadata.owner_references or ()
        for space in (f"{each.object.metadata.namespace}/", "")
    }
    return [each for each in warnings if each["field"] != "kind" or each["object"] not in owned]


class _Loading:
    """The second pass, which knows all objects of the input."""

    def __init__(
        self,
        found: list[Found],
        warnings: list[Problem],
        refused: list[InputError],
        around: Around | None,
        *,
        dumped: bool = False,
    ) -> None:
        self._dumped = dumped
        self._found = found
        self._refused = refused
        self._complete = around is None
        self._warnings = warnings
        self._convert = Converter()
        self._events: list[Event] = []
        self._places: list[Place] = []
        self._newest = 0.0
        self._group_hints: dict[tuple[str, str, str], Labels] = {}
        self._made = 0
        self._names = {
            (f.kind.name, f.object.metadata.namespace, f.object.metadata.name): f.place
            for f in found
            if not isinstance(f.object, VolcanoJob)
        }
        self._owners = Owners(
            (f.object for f in found if isinstance(f.object, wire.Pod)),
            (f.object for f in found if isinstance(f.object, wire.Job)),
        )
        self._controllers = controllers(f.object for f in found)
        self._runtimes = {
            (f.kind.name, f.object.metadata.namespace, f.object.metadata.name): f.object
            for f in found
            if isinstance(f.object, Runtime)
        }
        self._bindings = {f.object.metadata.name: f.object for f in found if isinstance(f.object, TopologyBinding)}
        self._workloads = {
            (w.metadata.namespace, w.metadata.name): _template_names(w)
            for w in (f.object for f in found)
            if isinstance(w, Workload)
        }
        classes = ((f.place, f.object) for f in found if isinstance(f.object, wire.PriorityClass))
        self._admission = PriorityAdmission(classes, warnings, around.priority_classes if around is not None else ())
        self._storage = StorageAdmission((f.object for f in found), around.storage_class if around is not None else "")

    def run(self) -> Loaded:
        for each in self._found:
            known = len(self._events)
            try:
                with each.place.named():
                    self._note_time(each.object.metadata.creation_timestamp, "metadata.creationTimestamp")
                    self._add_found(each)
            except InputError as error:
                self._refused.append(error)
                del self._events[known:], self._places[known:]
        self._warnings.extend(misspelt_keys(self._found))
        if self._complete:
            self._warn_of_missing_nodes()
            self._warnings.extend(missing(self._found))
            self._warnings.extend(default_queues(self._found))
        return Loaded(self._events, self._places, self._warnings, self._newest, self._group_hints)

    def _note_time(self, raw: str | None, field: str) -> None:
        self._newest = max(self._newest, parse_time(raw, field))

    def _add(self, place: Place, record: Record) -> None:
        self._events.append(Changed(record))
        self._places.append(place)
        if not isinstance(record, Pod | Gang | Job | jobsets.JobSet):
            return
        self._newest = max(self._newest, record.stakes.checkpoint or 0.0)
        if record.remark is not None:
            told = place.warning(*record.remark)
            if self._warnings[-1:] != [told]:  # pods of one template say the same
                self._warnings.append(told)

    def _add_found(self, each: Found) -> None:
        place, raw = each.place, each.object
        if isinstance(raw, wire.Pod):
            self._note_time(raw.status.start_time, "status.startTime")
            if not raw.spec.node_name:
                check_resources(raw.spec)
            self._admission.pod(raw.metadata, raw.spec)
        elif isinstance(raw, wire.UpstreamPodGroup):
            self._admission.group(raw.metadata, raw.spec)
            self._check_template(place, raw)
        if isinstance(raw, _GROUPS):
            self._group_hints[each.kind.group, raw.metadata.namespace, raw.metadata.name] = {
                key: text for key, text in (raw.metadata.annotations or {}).items() if key.startswith(SIMULATION)
            }
        if isinstance(raw, _WITH_UID):  # after admission, which is for what no API server has seen
            _identify(raw.metadata, each.kind.name)
        match raw:
            case wire.Pod():
                self._pod(place, raw)
            case wire.Job():
                self._job(place, raw, "spec", not self._owners.has_pods(raw) and not self._runs_elsewhere(each))
            case RawJobSet():
                self._jobset(place, raw)
            case Workload():
                _check_workload(raw)
            case _:
                if each.kind.watched:
                    self._add(place, each.kind.record(self._convert, raw))
                if isinstance(raw, _OWNERS_OF_PODS) and not self._has_pods(each):
                    self._without_pods(each)

    def _runs_elsewhere(self, each: Found) -> bool:
        """Return whether a Job runs pods that the input does not have. What is to be applied to a cluster has no status
        there.
        """
        raw = each.object
        if not (isinstance(raw, wire.Job) and self._complete and raw.status.active > 0) or self._owners.has_pods(raw):
            return False
        self._warnings.append(each.place.warning("status", invalid.pods_not_in_input(active=raw.status.active)))
        return True

    def _left_to_another(self, place: Place, raw: wire.Object, path: str) -> bool:
        """Return whether the controllers of a cluster leave an object to another one, with a warning that says so."""
        other = other_controller(raw)
        if other is not None:
            field = path + other.field.removeprefix("spec")
            self._warnings.append(place.warning(field, invalid.managed_elsewhere(controller=other.name)))
        return other is not None

    def _has_pods(self, each: Found) -> bool:
        meta = each.object.metadata
        return (meta.namespace, each.kind.group, each.kind.name, meta.name) in self._controllers

    def _without_pods(self, each: Found) -> None:
        """An owner of which the input has no pods: they are made as its controller would, or a warning says why not."""
        raw = each.object
        if isinstance(raw, PodCliqueSet) and raw.metadata.resource_version:
            return  # the pods of a cluster are owned by its PodCliques
        if not isinstance(raw, wire.StatefulSet | OperatorObject | VolcanoJob | PodCliqueSet):
            if self._dumped:
                return  # it has none, such as a ReplicaSet of an earlier revision
            self._warnings.append(each.place.warning("kind", invalid.NO_POD_IN_INPUT))
            return
        if isinstance(raw, wire.StatefulSet):
            gang = record_of(self._events[-1]) if self._events else None
            if not (isinstance(gang, PodSelector) and gang.gang is not None and gang.gang.declared):
                if not self._dumped:
                    self._warnings.append(each.place.warning("kind", invalid.NO_POD_IN_INPUT))
                return
        if not isinstance(raw, PodCliqueSet) and self._left_to_another(each.place, raw, "spec"):
            return
        why = None if isinstance(raw, PodCliqueSet) else why_none(raw)
        if why is not None and self._complete:
            if why:
                self._warnings.append(each.place.warning("status", why))
            return
        if why == invalid.IT_IS_SUSPENDED:
            self._warnings.append(each.place.warning("spec.suspend", why))
            return
        for made in expanded(each, self._runtimes, self._bindings, self._warnings):
            self._take_made(each.place, made)

    def _take_made(self, place: Place, made: Made) -> None:
        """An object that a controller would create. Errors in it name the field of the owner."""
        raw, field = made
        group = _MADE_GROUPS.get(type(raw))
        if group is not None and (group[0], raw.metadata.namespace, raw.metadata.name) in self._names:
            return  # the controller would find it there
        self._claim(place, type(raw).__name__.removeprefix("Raw"), raw.metadata)
        if isinstance(raw, wire.Job):
            self._job(place, raw, field.removesuffix(".template"), expand=True)
            return
        if isinstance(raw, RawJobSet):
            _identify(raw.metadata, JOBSET)
            self._jobset(place, raw)
            return
        if not isinstance(raw, wire.Pod):
            kind = KINDS[group or (RAY_CLUSTER, RAY)]
            self._add_found(Found(place, kind, raw))
            return
        self._made += 1
        if self._made > MAX_PODS:
            raise FieldError(field, invalid.too_many_pods_of_jobs(most=MAX_PODS))
        _identify(raw.metadata, "Pod")
        try:
            check_resources(raw.spec)
            self._admission.pod(raw.metadata, raw.spec)
            self._pod(place, raw)
        except FieldError as error:
            raise error.under(field) from None

    def _pod(self, place: Place, raw: wire.Pod) -> None:
        """A pod, after the claims of its generic ephemeral volumes."""
        for claim in self._storage.ephemeral(raw):
            _identify(claim.metadata, "PersistentVolumeClaim")
            self._add(place, claim_record(claim))
        try:
            record = self._convert.pod(raw)
        except FieldError as error:
            if not raw.metadata.resource_version:
                raise
            # An API server has accepted it: it counts as it does in a cluster, and others can be planned.
            self._warnings.append(place.warning(error.field, error.message))
            record = refused_pod(self._convert, raw, error)
        self._add(place, record)

    def _jobset(self, place: Place, raw: RawJobSet) -> None:
        record = job_set(self._convert, raw)
        _check_size(record)
        self._add(place, record)
        if self._owners.is_expanded(raw) or self._left_to_another(place, raw, "spec"):
            return
        for job, path in jobs_of(raw):
            self._claim(place, "Job", job.metadata)
            self._job(place, job, path, expand=True)

    def _job(self, place: Place, raw: wire.Job, path: str, expand: bool) -> None:
        _identify(raw.metadata, "Job")
        count = pods_wanted(raw, path)
        template = f"{path}.template"
        check_resources(raw.spec.template.spec, f"{template}.spec")
        self._admission.pod(raw.metadata, raw.spec.template.spec, f"{template}.spec")
        try:
            # Checked even when no pod is made of it: a wrong template is wrong input all the same.
            meta = msgspec.structs.replace(raw.spec.template.metadata, namespace=raw.metadata.namespace)
            self._convert.shape_of_template(meta, raw.spec.template.spec)
        except FieldError as error:
            raise error.under(template.removesuffix(".spec")) from None
        record = self._convert.job(raw)
        _check_size(record)
        self._add(place, record)
        if not expand or self._left_to_another(place, raw, path):
            return
        self._made += count
        if self._made > MAX_PODS:
            text = invalid.too_many_pods_of_jobs(most=MAX_PODS)
            raise FieldError(f"{path}.parallelism", text)
        for pod in pods_of(raw, count):
            self._claim(place, "Pod", pod.metadata)
            _identify(pod.metadata, "Pod")
            try:
                self._pod(place, pod)
            except FieldError as error:
                raise error.under(template) from None

    def _claim(self, place: Place, kind: str, meta: wire.ObjectMeta) -> None:
        """A made object must not have the name of another one."""
        key = (kind, meta.namespace, meta.name)
        if key in self._names:
            text = invalid.owner_defined_already(
                kind=kind, namespace=meta.namespace, name=meta.name, place=self._names[key]
            )
            raise FieldError("metadata.name", text)
        self._names[key] = place

    def _check_template(self, place: Place, raw: wire.UpstreamPodGroup) -> None:
        workload = template = field = ""
        if raw.spec.workload_ref is not None:
            workload, template = raw.spec.workload_ref.workload_name, raw.spec.workload_ref.template_name
            field = "spec.workloadRef.templateName"
        elif raw.spec.pod_group_template_ref is not None and raw.spec.pod_group_template_ref.workload is not None:
            reference = raw.spec.pod_group_template_ref.workload
            workload, template = reference.workload_name, reference.pod_group_template_name
            field = "spec.podGroupTemplateRef.workload.podGroupTemplateName"
        known = self._workloads.get((raw.metadata.namespace, workload))
        if known is not None and template not in known:
            has = ", ".join(known) or "none"
            self._warnings.append(
                place.warning(field, invalid.no_template(workload=workload, template=template, has=has))
            )

    def _warn_of_missing_nodes(self) -> None:
        known = {node.name for node in records(self._events, Node)}
        for place, event in zip(self._places, self._events, strict=True):
            for pod in records([event], Pod):
                if pod.bound and pod.node not in known:
                    known.add(pod.node)
                    text = invalid.no_node(node=pod.node)
                    self._warnings.append(place.warning("spec.nodeName", text))


def _identify(meta: wire.ObjectMeta, kind: str) -> None:
    """A UID that is the same every time, for objects that no API server has given one."""
    if not meta.uid:
        name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        meta.uid = f"{UID_FROM_MANIFEST}{kind}/{name}"


def _check_size(owner: Job | jobsets.JobSet) -> None:
    """Raises :class:`FieldError` for a Job or JobSet that would wait for its start and is too large for that."""
    waits = owner.suspended and (owner.queue.local_queue or owner.suspended_by)
    if waits and (problem := jobsets.why_it_cannot_wait(owner)) is not None:
        raise problem


def _template_names(workload: Workload) -> list[str]:
    return [t.name for t in workload.spec.pod_group_templates or workload.spec.pod_groups or ()]


def _check_workload(raw: Workload) -> None:
    field = "podGroupTemplates" if raw.spec.pod_group_templates is not None else "podGroups"
    names = _template_names(raw)
    for i, name in enumerate(names):
        if not name:
            raise FieldError(f"spec.{field}[{i}].name", "is missing")
        if name in names[:i]:
            raise FieldError(f"spec.{field}[{i}].name", invalid.given_twice(name=name))
