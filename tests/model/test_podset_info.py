"""What flavors have added to pod templates is known from an annotation, and is not the template's own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.children import ADDED_BY_FLAVOR, directed
from gangsched.model.constraints import Directives, PodShape, Toleration
from gangsched.model.convert import Converter, job_set
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import RawJobSet

SPOT = {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
OWN = {"key": "own", "operator": "Exists"}
RECORD = Directives((("kind", "spot"),), (Toleration("spot", "Exists", "", "NoExecute", 60),))


def template(**spec: Any) -> dict[str, Any]:
    """A pod template with these fields."""
    return {"spec": {"containers": [{"name": "c"}], **spec}}


def annotated(*entries: dict[str, Any]) -> dict[str, Any]:
    """Metadata that says what was added to each template."""
    return {"name": "j", "annotations": {ADDED_BY_FLAVOR: msgspec.json.encode(entries).decode()}}


def test_a_template_is_read_without_its_flavor():
    """What was added goes, once; what somebody has changed since, and the template's own, stays."""
    spec = template(nodeSelector={"kind": "spot", "zone": "b", "os": "x"}, tolerations=[OWN, SPOT, SPOT])
    meta = annotated({"nodeSelector": {"kind": "spot", "zone": "a"}, "tolerations": [SPOT]})
    raw = msgspec.convert({"metadata": meta, "spec": {"template": spec}}, wire.Job)
    found = Converter().job(raw)
    assert found.template is not None
    assert found.template.shape.node_selector == (("os", "x"), ("zone", "b"))
    assert [t.key for t in found.template.shape.tolerations] == ["own", "spot"]
    assert found.added.tolerations == RECORD.tolerations


def test_each_template_of_a_jobset_has_its_own():
    """By its place; a template without an entry was given nothing."""
    spot = template(nodeSelector={"kind": "spot"}, tolerations=[SPOT])
    jobs = [{"name": n, "template": {"spec": {"template": spot}}} for n in ("a", "b", "c")]
    meta = annotated({}, {"nodeSelector": {"kind": "spot"}, "tolerations": [SPOT]})
    found = job_set(Converter(), msgspec.convert({"metadata": meta, "spec": {"replicatedJobs": jobs}}, RawJobSet))
    shapes = [each.job.template.shape for each in found.replicated if each.job.template is not None]
    assert [s.node_selector for s in shapes] == [(("kind", "spot"),), (), (("kind", "spot"),)]
    assert [each.job.added for each in found.replicated] == [Directives(), RECORD, Directives()]


@pytest.mark.parametrize("text", ["{", '{"nodeSelector": {}}', '[{"nodeSelector": {"a": 1}}]', '[{"a": ' + "[" * 5000])
def test_an_annotation_that_makes_no_sense_is_named(text: str):
    """Whoever edits it by hand is told."""
    meta = {"name": "j", "annotations": {ADDED_BY_FLAVOR: text}}
    with pytest.raises(FieldError, match=ADDED_BY_FLAVOR):
        Converter().job(msgspec.convert({"metadata": meta}, wire.Job))


def test_a_shape_in_a_flavor():
    """Its own selector goes before that of the flavor; a toleration is not there twice."""
    shape = PodShape(node_selector=(("kind", "any"),), tolerations=RECORD.tolerations)
    both = Directives((("kind", "spot"), ("zone", "a")), (*RECORD.tolerations, Toleration("t")))
    found = directed(shape, both)
    assert found.node_selector == (("kind", "any"), ("zone", "a"))
    assert found.tolerations == (*RECORD.tolerations, Toleration("t"))
    assert directed(shape, Directives()) is shape
