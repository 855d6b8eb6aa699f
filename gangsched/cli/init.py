"""``gangsched init``: what a manifest of a job lacks to be a gang. Prints the changed manifest, and changes no file."""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from gangsched.cli import answers
from gangsched.cli.inputs import add_sources_argument
from gangsched.cli.templates import PATHS, Template, somewhere, templates
from gangsched.cluster.kinds import KINDS
from gangsched.cluster.manifests.objects import makes_its_own_pods, parsed, read
from gangsched.core.options import Options
from gangsched.messages import failures
from gangsched.messages.text import pluralize
from gangsched.model.dialects.koordinator import GROUP_LABEL
from gangsched.model.dialects.operators import TRAIN_JOB
from gangsched.model.dialects.owners import GANG, LEADER_WORKER_SET
from gangsched.model.dialects.roles import DRIVER, EXCLUSIVE_GROUPS, EXECUTOR, LEADER_FIRST
from gangsched.model.dialects.spark import APPLICATION
from gangsched.model.errors import FieldError, Place, render_problem
from gangsched.model.jobsets import BY_NODE_LABELS, EXCLUSIVE, JOBSET
from gangsched.model.unsubmitted import TRAINER, VCJOB_GROUP

_SERVICE = failures.REPLACED_ONE_BY_ONE
#: Kinds whose pods are no gang of one object, and why.
_CANNOT = {
    "Deployment": _SERVICE,
    "ReplicaSet": _SERVICE,
    "ReplicationController": _SERVICE,
    "DaemonSet": _SERVICE,
    "Pod": failures.single_pod(label=GROUP_LABEL),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_sources_argument(parser, "manifests of a Job, JobSet, or another kind with templates of pods", required=True)
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        default=Options().scheduler_names[0],
        help="the schedulerName to set (default: %(default)s)",
    )
    parser.epilog = (
        "The changed manifests go to stdout, what was changed to stderr. Comments are lost. Exit code: 0, or 2 if an"
        " object cannot be made a gang, which is then printed as it was."
    )


def run(args: argparse.Namespace) -> int:
    """Print the manifests; 2 when there is one that cannot be a gang."""
    found = [each for source in read(args.sources, None) for each in parsed(source)]
    out = [copy.deepcopy(each.value) for each in found]
    groups = {_name(each) for value in out for each in _items(value) if _kind(each) == "PodGroup"}
    runtimes = {(_kind(each), _name(each)[1]) for value in out for each in _items(value) if _group(each) == TRAINER}
    code = answers.OK
    for document, value in zip(found, out, strict=True):
        for each in _items(value):
            place = Place(document.file, document.number, f"{_kind(each)} {_name(each)[1]}".strip())
            try:
                changed = _changed(each, args.scheduler_name, groups, runtimes)
            except FieldError as error:
                problem = place.warning(error.field, failures.cannot_be_a_gang(cannot=error.message))
                answers.complain([render_problem(problem)])
                code = answers.BAD_INPUT
                continue
            answers.complain([render_problem(place.warning("", text)) for text in changed])
    text = yaml.dump_all(out, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True)
    sys.stdout.write(text)
    return code


def _items(value: Any) -> Iterator[dict[str, Any]]:
    """The object, or those of a list of objects."""
    if isinstance(value, dict):
        items = value.get("items")
        if _kind(value).endswith("List") and isinstance(items, list):
            for each in items:
                yield from _items(each)
        else:
            yield value


def _changed(
    value: dict[str, Any], scheduler: str, groups: set[tuple[str, str]], runtimes: set[tuple[str, str]]
) -> list[str]:
    """Make an object a gang; returns what was changed and what is to be known, nothing for one that is no workload.

    Raises :class:`FieldError` where it cannot be a gang, before anything is changed.
    """
    kind, group, name = _kind(value), _group(value), _name(value)
    paths = PATHS.get((kind, group))
    if paths is None:
        _refuse(value, runtimes)
        return []
    if not name[1]:
        raise FieldError("metadata.name", failures.WITHOUT_NAME)
    grouped = name in groups
    if kind == APPLICATION:
        return [_spark(value, scheduler), failures.LATER_BY_DRIVER]
    found = templates(value, paths)
    labels = [_of_meta(each, "labels") for each in found]
    other = next((has[GROUP_LABEL] for has in labels if has.get(GROUP_LABEL, name[1]) != name[1]), None)
    if other is not None:
        raise FieldError("", failures.in_another_gang(other=other))
    if grouped_by := _pod_group_policy(value):
        for template, _ in found:
            template["spec"]["schedulerName"] = scheduler
        count = pluralize(len(found), "template")
        return [failures.gang_of_its_policy(policy=grouped_by, templates=count, scheduler=scheduler)]
    field, key, mark = ("labels", GROUP_LABEL, name[1]) if grouped else ("annotations", GANG, "true")
    before = [_of_meta(each, field) for each in found]
    for (template, _), has in zip(found, before, strict=True):
        template["metadata"] = {**(template.get("metadata") or {}), field: {**has, key: mark}}
        template["spec"]["schedulerName"] = scheduler
    count = pluralize(len(found), "template")
    said = failures.made_a_gang(templates=count, field=field[:-1], key=key, scheduler=scheduler)
    return [said, *_stages(value)]


def _refuse(value: dict[str, Any], runtimes: set[tuple[str, str]]) -> None:
    """Raises :class:`FieldError` for a workload that is none of the kinds that can be changed."""
    kind, group = _kind(value), _group(value)
    if kind in _CANNOT:
        raise FieldError("", _CANNOT[kind])
    if (kind, group) == ("Job", VCJOB_GROUP):
        raise FieldError("", failures.GANG_OF_VOLCANO)
    if (kind, group) == (TRAIN_JOB, TRAINER):
        spec = value.get("spec")
        ref = spec.get("runtimeRef") if isinstance(spec, dict) else None
        ref = ref if isinstance(ref, dict) else {}
        runtime = (str(ref.get("kind") or "ClusterTrainingRuntime"), str(ref.get("name") or ""))
        if runtime not in runtimes:
            raise FieldError("spec.runtimeRef", failures.pods_of_runtime(kind=runtime[0], name=runtime[1]))
        return
    if somewhere(value) or ((kind, group) not in KINDS and makes_its_own_pods(group, value)):
        raise FieldError("kind", failures.kind_makes_no_gang(kind=kind, label=GROUP_LABEL))


def _pod_group_policy(value: dict[str, Any]) -> str:
    """Return the kind of groups that the trainer creates for TrainJobs of a runtime; empty for none."""
    policy = value["spec"].get("podGroupPolicy") if _group(value) == TRAINER else None
    return next(iter(policy), "") if isinstance(policy, dict) else ""


def _of_meta(template: Template, field: str) -> dict[str, Any]:
    """The labels or annotations of a template. Raises :class:`FieldError`."""
    meta = template.value.get("metadata") or {}
    found = (meta.get(field) if isinstance(meta, dict) else None) or {}
    if not isinstance(meta, dict) or not isinstance(found, dict):
        raise FieldError(f"{template.path}.metadata", failures.NOT_A_MAPPING)
    return found


def _spark(value: dict[str, Any], scheduler: str) -> str:
    """The annotation stands on the application, the scheduler's name where the operator has it from."""
    spec = value.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if spec.get("batchScheduler"):
        raise FieldError("spec.batchScheduler", failures.GANG_OF_ITS_OPERATOR)
    roles = {role: spec.get(role) or {} for role in (DRIVER, EXECUTOR)}
    notes = value["metadata"].get("annotations") or {}
    for field, found in ((f"spec.{role}", has) for role, has in roles.items()):
        if not isinstance(found, dict):
            raise FieldError(field, failures.NOT_A_MAPPING)
    if not isinstance(notes, dict):
        raise FieldError("metadata.annotations", failures.NOT_A_MAPPING)
    value["metadata"]["annotations"] = {**notes, GANG: "true"}
    value["spec"] = {**spec, **{role: {**has, "schedulerName": scheduler} for role, has in roles.items()}}
    return failures.made_a_gang(templates=APPLICATION, field="annotation", key=GANG, scheduler=scheduler)


def _stages(value: dict[str, Any]) -> Iterator[str]:
    """Return the members that the controller creates only when others have a node."""
    kind, spec = _kind(value), value["spec"]
    notes = _notes(value)
    if kind == JOBSET:
        jobs = [each.get("template") for each in spec["replicatedJobs"]]
        said = [notes, *map(_notes, jobs)]
        if any(EXCLUSIVE in each for each in said) and not any(BY_NODE_LABELS in each for each in said):
            yield failures.later_by_webhook(annotation=EXCLUSIVE)
    if kind == LEADER_WORKER_SET and (EXCLUSIVE_GROUPS in notes or spec.get("startupPolicy") == LEADER_FIRST):
        yield failures.LATER_BY_LEADER


def _notes(value: Any) -> dict[str, Any]:
    meta = value.get("metadata") if isinstance(value, dict) else None
    found = meta.get("annotations") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


class _Dumper(yaml.SafeDumper):
    """Writes a value that stands in several places in each of them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _kind(value: Any) -> str:
    return str(value.get("kind", "")) if isinstance(value, dict) else ""


def _group(value: dict[str, Any]) -> str:
    """The API group, empty for the core API."""
    return str(value.get("apiVersion") or "").rpartition("/")[0]


def _name(value: Any) -> tuple[str, str]:
    """Namespace and name."""
    meta = value.get("metadata") if isinstance(value, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("namespace") or ""), str(meta.get("name") or "")
