"""The pod templates of a Job or JobSet as a PATCH gives them the labels and tolerations of their flavors.

Lists in a PATCH replace what was there, so it is made from the object as the server has it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gangsched.model.children import ADDED_BY_FLAVOR, added_by_flavor
from gangsched.model.constraints import Directives
from gangsched.model.errors import FieldError


def template_change(found: Mapping[str, Any], added: Sequence[Directives]) -> tuple[dict[str, Any], str | None]:
    """``(spec, annotation)`` of a merge patch on this object: what was added before goes, what is to be added comes.

    The annotation says what was added; None takes it off.
    """
    earlier = _earlier(found)
    now = [_entry(each) for each in added]
    jobs = found["spec"].get("replicatedJobs")
    specs = [found["spec"]] if jobs is None else [job["template"]["spec"] for job in jobs]
    changes = [
        _changed(spec["template"]["spec"], *(entries[i] if i < len(entries) else {} for entries in (earlier, now)))
        for i, spec in enumerate(specs)
    ]
    annotation = msgspec.json.encode(now).decode() if any(now) else None
    if jobs is not None:
        jobs = copy.deepcopy(jobs)
        for job, change in zip(jobs, changes, strict=True):
            job["template"]["spec"]["template"]["spec"].update(change)
        return {"replicatedJobs": jobs}, annotation
    [change], [spec] = changes, specs
    if "nodeSelector" in change:  # keys of a map go by null only
        gone = dict.fromkeys(spec["template"]["spec"].get("nodeSelector") or {})
        change["nodeSelector"] = gone | change["nodeSelector"]
    return {"template": {"spec": change}}, annotation


def _earlier(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of the annotation as they stand there; one that cannot be understood says nothing."""
    notes = found["metadata"].get("annotations") or {}
    try:
        added_by_flavor(notes)
    except FieldError:
        return []
    return msgspec.json.decode(notes.get(ADDED_BY_FLAVOR, "[]"), type=list[dict[str, Any]])


def _entry(added: Directives) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if added.node_selector:
        out["nodeSelector"] = dict(added.node_selector)
    if added.tolerations:
        names = ("key", "operator", "value", "effect", "tolerationSeconds")
        fields = [(t.key, t.operator, t.value, t.effect, t.seconds) for t in added.tolerations]
        out["tolerations"] = [
            {n: v for n, v in zip(names, each, strict=True) if v not in ("", None)} for each in fields
        ]
    return out


def _changed(spec: Mapping[str, Any], earlier: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Node selector and tolerations of a template, whole, as far as it has or gets any."""
    gone = (earlier.get("nodeSelector") or {}).items()
    selector = {k: v for k, v in (spec.get("nodeSelector") or {}).items() if (k, v) not in gone}
    tolerations = list(spec.get("tolerations") or ())
    for each in earlier.get("tolerations") or ():
        if each in tolerations:
            tolerations.remove(each)
    tolerations += [each for each in now.get("tolerations", ()) if each not in tolerations]
    whole = {"nodeSelector": now.get("nodeSelector", {}) | selector, "tolerations": tolerations}
    return {name: value for name, value in whole.items() if value or name in spec}
