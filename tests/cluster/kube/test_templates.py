"""The PATCH that lets a Job go on gives its template the flavor in place of an earlier one and changes nothing else."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cluster.kube.job_writes import job_request
from gangsched.core.actions import JobRef, ResumeJob
from gangsched.model.children import ADDED_BY_FLAVOR
from gangsched.model.constraints import Directives, Toleration
from gangsched.model.convert import PREEMPTED_BY, SUSPENDED_BY
from gangsched.model.jobsets import JOBSET

Object = dict[str, Any]

SPOT = Directives((("kind", "spot"),), (Toleration("spot", "Exists", "", "NoExecute", 60),))
STEADY = Directives((("kind", "steady"), ("zone", "a")))
SPOT_TOLERATION = {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
OWN = {"key": "own", "operator": "Exists", "tolerationSeconds": 5}


def job(**spec: Any) -> Object:
    """A Job as the server has it."""
    return {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"spec": {"containers": [], **spec}}}}


def jobset(*specs: Object) -> Object:
    """A JobSet as the server has it, with a template of each of these."""
    jobs = [{"name": f"r{i}", "replicas": 2, "template": job(**spec)} for i, spec in enumerate(specs)]
    return {"metadata": {"name": "js"}, "spec": {"suspend": True, "replicatedJobs": jobs}}


def resumed(found: Object, *templates: Directives) -> Object:
    """The object after the PATCH: a JSON merge patch (RFC 7386)."""
    ref = JobRef("ns", "j", "u", JOBSET if "replicatedJobs" in found["spec"] else "Job")
    request = job_request(ResumeJob(1, ref, "7", "us", templates=templates), "7", found)
    return merged(found, msgspec.json.decode(request.body))


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


def pod_spec(found: Object, index: int = 0) -> Object:
    """The spec of a template."""
    jobs = found["spec"].get("replicatedJobs")
    spec = found["spec"] if jobs is None else jobs[index]["template"]["spec"]
    template: Object = spec["template"]["spec"]
    return template


def test_without_a_flavor_the_body_is_suspend_alone():
    """Nothing is said about templates where the action says nothing."""
    action = ResumeJob(1, JobRef("ns", "j", "u"), "7", "us")
    notes = {SUSPENDED_BY: None, PREEMPTED_BY: None}
    for found in (None, job()):
        assert msgspec.json.decode(job_request(action, "7", found).body) == {
            "metadata": {"uid": "u", "resourceVersion": "7", "annotations": notes},
            "spec": {"suspend": False},
        }


def test_a_job_gets_its_flavor_and_another_one_later():
    """Labels and tolerations beside its own; they are replaced as a whole, and gone in the end."""
    before = job(nodeSelector={"os": "x"}, tolerations=[OWN])
    first = resumed(before, SPOT)
    assert pod_spec(first)["nodeSelector"] == {"os": "x", "kind": "spot"}
    assert pod_spec(first)["tolerations"] == [OWN, SPOT_TOLERATION]
    assert first["spec"]["suspend"] is False
    second = resumed(first, STEADY)
    assert pod_spec(second)["nodeSelector"] == {"os": "x", "kind": "steady", "zone": "a"}
    assert pod_spec(second)["tolerations"] == [OWN]
    last = resumed(second, Directives())
    assert pod_spec(last) == pod_spec(before)
    assert ADDED_BY_FLAVOR not in last["metadata"]["annotations"]


def test_each_template_of_a_jobset_gets_its_own():
    """All other fields of its Jobs are sent as they are: a list in a PATCH replaces the list."""
    before = jobset({"nodeSelector": {"os": "x"}}, {"tolerations": [OWN]}, {})
    found = resumed(before, STEADY, SPOT, Directives())
    assert pod_spec(found, 0)["nodeSelector"] == {"os": "x", "kind": "steady", "zone": "a"}
    assert pod_spec(found, 1)["tolerations"] == [OWN, SPOT_TOLERATION]
    assert found["spec"]["replicatedJobs"][2] == before["spec"]["replicatedJobs"][2]
    again = resumed(found, Directives(), Directives(), Directives())
    assert pod_spec(again, 1)["tolerations"] == [OWN]
    assert [j["name"] for j in again["spec"]["replicatedJobs"]] == ["r0", "r1", "r2"]


def test_what_somebody_has_changed_meanwhile_stays():
    """A label that has another value by now is not ours to take off, and what was there twice is there once."""
    found = resumed(job(tolerations=[SPOT_TOLERATION]), Directives((("kind", "spot"),)))
    found = copy.deepcopy(found)
    pod_spec(found)["nodeSelector"]["kind"] = "mine"
    pod_spec(found)["tolerations"].append(OWN)
    after = resumed(found, Directives())
    assert pod_spec(after)["nodeSelector"] == {"kind": "mine"}
    assert pod_spec(after)["tolerations"] == [SPOT_TOLERATION, OWN]


@pytest.mark.parametrize("text", ['[{"nodeSelector":"x"}]', '[{"tolerations":[1]}]', "[null]", "{"])
def test_an_annotation_that_makes_no_sense_takes_nothing_off(text: str):
    """Anybody may write one."""
    found = job(nodeSelector={"kind": "mine"})
    found["metadata"]["annotations"] = {ADDED_BY_FLAVOR: text}
    assert pod_spec(resumed(found, Directives()))["nodeSelector"] == {"kind": "mine"}


_words = st.sampled_from(["a", "b", "c"])
_tolerations = st.builds(Toleration, _words, st.just("Exists"), st.just(""), _words, st.none() | st.just(9))

_flavors = st.tuples(st.dictionaries(st.sampled_from("xyz"), _words), st.lists(_tolerations, unique=True))


@given(
    st.dictionaries(_words, _words, min_size=1),
    st.lists(_words, min_size=1, max_size=2, unique=True),
    st.lists(_flavors, max_size=4),
)
def test_whatever_was_added_comes_off_again(own: dict[str, str], keys: list[str], flavors: list[Any]):
    """After any flavors one after another the template is what it was."""
    before = job(nodeSelector=own, tolerations=[{"key": f"own-{k}", "operator": "Exists"} for k in keys])
    found = before
    for labels, tolerations in flavors:
        found = resumed(found, Directives(tuple(sorted(labels.items())), tuple(tolerations)))
        assert pod_spec(found)["nodeSelector"] == own | labels
        assert len(pod_spec(found)["tolerations"]) == len(keys) + len(tolerations)
    assert pod_spec(resumed(found, Directives())) == pod_spec(before)
