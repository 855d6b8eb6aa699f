"""``gangsched init``: what a manifest of a job lacks to be a gang. Prints the changed manifest, and changes no file."""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import yaml

from gangsched.cli import answers
from gangsched.cli.inputs import add_sources_argument
from gangsched.cluster.manifests.objects import parsed, read
from gangsched.core.options import Options
from gangsched.messages import failures
from gangsched.messages.text import counted
from gangsched.model.dialects.koordinator import GROUP_LABEL
from gangsched.model.dialects.operators import OPERATORS
from gangsched.model.dialects.owners import GANG, Kind
from gangsched.model.errors import Place, told

_SERVICE = failures.REPLACED_ONE_BY_ONE
#: Kinds whose pods the annotation makes a gang of their owner: of a CronJob each Job.
_BY_OWNER = (*get_args(Kind), *OPERATORS, "CronJob")
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
    groups = {_name(each.value) for each in found if _kind(each.value) == "PodGroup"}
    out: list[Any] = []
    code = answers.OK
    for each in found:
        value = copy.deepcopy(each.value)
        out.append(value)
        templates = list(_templates(value, 1)) if isinstance(value, dict) else []
        place = Place(each.file, each.number, f"{_kind(value)} {_name(value)[1]}")
        cannot = _cannot(value, [template for template, _ in templates])
        if cannot:
            answers.complain([told(place.warning("", failures.cannot_be_a_gang(cannot=cannot)))])
            code = answers.BAD_INPUT
        elif templates:
            grouped = _kind(value) not in _BY_OWNER or _name(value) in groups
            if grouped and _name(value) not in groups:
                groups.add(_name(value))
                out.insert(-1, _pod_group(value, sum(count for _, count in templates)))
            changed = _changed(value, templates, args.scheduler_name, grouped=grouped)
            answers.complain([told(place.warning("", changed))])
    text = yaml.dump_all(out, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True)
    sys.stdout.write(text)
    return code


def _cannot(value: Any, templates: Sequence[dict[str, Any]]) -> str:
    """Why an object cannot be made a gang; empty if it can, or is no workload."""
    if _kind(value) in _CANNOT:
        return _CANNOT[_kind(value)]
    if not templates:
        return ""
    name = _name(value)[1]
    if not name:
        return failures.WITHOUT_NAME
    labels = [(each.get("metadata") or {}).get("labels") or {} for each in templates]
    other = next((found[GROUP_LABEL] for found in labels if found.get(GROUP_LABEL, name) != name), None)
    return "" if other is None else failures.in_another_gang(other=other)


class _Dumper(yaml.SafeDumper):
    """Writes a value that stands in several places in each of them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _kind(value: Any) -> str:
    return str(value.get("kind", "")) if isinstance(value, dict) else ""


def _name(value: Any) -> tuple[str, str]:
    """Namespace and name."""
    meta = value.get("metadata") if isinstance(value, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _templates(value: Any, times: int) -> Iterator[tuple[dict[str, Any], int]]:
    """All templates of pods in an object, each with the number of pods that are made of it at once."""
    if isinstance(value, list):
        for each in value:
            yield from _templates(each, times)
    if not isinstance(value, dict):
        return
    for key, each in value.items():
        below = times * _copies(value) if key == "template" else times
        named = key == "template" or key.endswith("Template")
        if named and isinstance(each, dict) and isinstance(each.get("spec"), dict) and "containers" in each["spec"]:
            yield each, below
        else:
            yield from _templates(each, below)


def _copies(value: dict[str, Any]) -> int:
    """How many of its template an object makes at once: replicas, or min(parallelism, completions) of a Job."""
    given = [value[key] for key in ("replicas", "parallelism", "completions") if isinstance(value.get(key), int)]
    return 1 if "completions" in value and "parallelism" not in value else min(given, default=1)


def _pod_group(value: dict[str, Any], members: int) -> dict[str, Any]:
    namespace, name = _name(value)
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"minMember": members},
    }


def _changed(
    value: dict[str, Any], templates: Sequence[tuple[dict[str, Any], int]], scheduler: str, *, grouped: bool
) -> str:
    """Change the templates; what they are now."""
    name, total = _name(value)[1], sum(count for _, count in templates)
    field, key, mark = ("labels", GROUP_LABEL, name) if grouped else ("annotations", GANG, "true")
    for template, _ in templates:
        meta = template.setdefault("metadata", {})
        meta[field] = {**(meta.get(field) or {}), key: mark}
        template["spec"]["schedulerName"] = scheduler
    group = f"PodGroup {name} with minMember {total}; " if grouped else ""
    return failures.made_a_gang(
        group=group, templates=counted(len(templates), "template"), field=field[:-1], key=key, scheduler=scheduler
    )
