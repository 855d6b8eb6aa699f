"""What cannot be read is said once for each cause."""

from __future__ import annotations

from gangsched.runtime.connecting import by_cause


def test_what_may_not_be_listed_is_one_sentence() -> None:
    """Pods and nodes are named first."""
    refused = ("jobs.batch", "leases.x", "nodes", "persistentvolumes", "pods")
    text = by_cause({name: f"403 Forbidden: {name} is forbidden: User u cannot list" for name in refused})
    assert text == "you may not list nodes, pods, jobs.batch and 2 more in the whole cluster (403 Forbidden)"


def test_other_causes_stand_once_with_what_they_concern() -> None:
    """A server that is gone says the same of every resource; refusals come before that."""
    gone = dict.fromkeys(("nodes", "pods", "jobs.batch", "services"), "no connection")
    assert by_cause(gone) == "jobs.batch, nodes, pods and 1 more: no connection"
    mixed = {**gone, "secrets": "403 Forbidden: no", "queues": "500 Oops: x"}
    assert by_cause(mixed).split("; ")[0] == "you may not list secrets in the whole cluster (403 Forbidden)"
    assert by_cause(mixed).endswith("; jobs.batch, nodes, pods and 1 more: no connection; queues: 500 Oops: x")
    assert by_cause({}) == ""
