"""Jobs and JobSets that go on in a flavor, on a real API server: one PATCH, or as much of it as the server takes."""

from __future__ import annotations

import msgspec

from gangsched.core.actions import ResumeJob
from gangsched.core.events import Outcome
from gangsched.model.children import ADDED_BY_FLAVOR
from gangsched.model.constraints import Directives, Toleration
from gangsched.model.jobsets import JOBSET, JobSet
from gangsched.model.records import Job
from tests.cluster.kube.jobs import Make, make_job, reference, resume, suspend
from tests.cluster.kube.jobsets import make_jobset
from tests.cluster.kube.jobsets import resume as resume_jobset
from tests.controlplane.client import Client, Object
from tests.controlplane.jobsets import KIND

SPOT = Directives((("kind", "spot"),), (Toleration("spot", "Exists", "", "NoExecute", 60),))
STEADY = Directives((("kind", "steady"),))
#: No label can have this value.
REFUSED = Directives((("kind", "not a value"),))


def spec_of(job: Object) -> Object:
    """The spec of its template."""
    spec: Object = job["spec"]["template"]["spec"]
    return spec


def in_flavor(action: ResumeJob, *templates: Directives, number: int = 2, held: bool = False) -> ResumeJob:
    """The write with what its templates are to have."""
    return msgspec.structs.replace(action, id=number, templates=templates, held=held)


async def test_a_job_goes_on_in_one_flavor_and_later_in_another(
    make_cluster: Make, admin: Client, namespace: str
) -> None:
    """What was added the first time goes; the record of the Job has a template without either."""
    job = await make_job(admin, namespace, queue="q", suspend=True)
    reader = await make_cluster()
    await reader.leading()
    [answer] = await reader.do(in_flavor(resume(job), SPOT, held=True))
    assert (answer.outcome, answer.message) == (Outcome.OK, "")
    first = await admin.get("Job", "j", namespace)
    [answer] = await reader.do(suspend(job, number=3))
    assert answer.outcome == Outcome.OK
    # Its controller may not have deleted its pods yet: the template can be changed a little later.
    [answer] = await reader.do(in_flavor(resume(job), STEADY, number=4))
    assert (answer.outcome, answer.message) == (Outcome.OK, "")
    second = await admin.get("Job", "j", namespace)
    seen = await reader.shown(Job, lambda e: e.added == STEADY and e.namespace == namespace)
    assert spec_of(first)["nodeSelector"] == {"kind": "spot"}
    assert [(t["key"], t["tolerationSeconds"]) for t in spec_of(first)["tolerations"]] == [("spot", 60)]
    assert (first["spec"]["suspend"], second["spec"]["suspend"]) == (False, False)
    assert spec_of(second)["nodeSelector"] == {"kind": "steady"}
    assert not spec_of(second).get("tolerations")
    assert seen.template is not None
    assert not seen.template.shape.node_selector


async def test_a_template_that_is_refused_does_not_keep_a_job_from_going_on(
    make_cluster: Make, admin: Client, namespace: str
) -> None:
    """The answer says that it stayed as it was."""
    job = await make_job(admin, namespace, queue="q", suspend=True)
    await admin.wait_for("Job", "j", lambda j: bool(j.get("status", {}).get("conditions")), namespace=namespace)
    reader = await make_cluster()
    await reader.leading()
    [answer] = await reader.do(in_flavor(resume(job), REFUSED, held=True))
    assert answer.outcome == Outcome.OK
    assert "pod template" in answer.message
    found = await admin.get("Job", "j", namespace)
    assert found["spec"]["suspend"] is False
    assert not spec_of(found).get("nodeSelector")
    assert ADDED_BY_FLAVOR not in found["metadata"].get("annotations", {})


async def test_a_flavor_changes_nothing_about_whose_job_it_is(
    make_cluster: Make, admin: Client, namespace: str
) -> None:
    """Not ours to resume, another Job of that name, one that is gone, one that runs."""
    job = await make_job(admin, namespace, queue="q", suspend=True)
    reader = await make_cluster()
    await reader.leading()
    [answer] = await reader.do(in_flavor(resume(job), SPOT))
    assert answer.outcome == Outcome.CONFLICT
    another = msgspec.structs.replace(reference(job), uid="00000000-0000-0000-0000-000000000000")
    for number, ref in enumerate((another, msgspec.structs.replace(another, name="missing")), 3):
        write = msgspec.structs.replace(in_flavor(resume(job), SPOT, number=number, held=True), job=ref)
        [answer] = await reader.do(write)
        assert answer.outcome == Outcome.GONE
    await admin.patch("Job", "j", {"spec": {"suspend": False}}, namespace=namespace)
    [answer] = await reader.do(in_flavor(resume(job), SPOT, number=5, held=True))
    assert answer.outcome == Outcome.OK
    assert not spec_of(await admin.get("Job", "j", namespace)).get("nodeSelector")


async def test_the_templates_of_a_jobset(make_cluster: Make, admin: Client, namespace: str, jobsets: None) -> None:
    """In the same PATCH as its suspension's end; nothing else of its Jobs is changed."""
    made = await make_jobset(admin, namespace, suspend=True)
    reader = await make_cluster()
    await reader.leading()
    [answer] = await reader.do(in_flavor(resume_jobset(made), SPOT, held=True))
    assert (answer.outcome, answer.message) == (Outcome.OK, "")
    found = await admin.get(KIND, "js", namespace)
    seen = await reader.shown(JobSet, lambda e: not e.suspended)
    spec = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert spec.pop("nodeSelector") == {"kind": "spot"}
    assert [t["key"] for t in spec.pop("tolerations")] == ["spot"]
    assert found["spec"] == made["spec"] | {"suspend": False}
    assert [each.job.added for each in seen.replicated] == [SPOT]
    assert JOBSET in found["kind"]
