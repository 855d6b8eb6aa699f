"""Rights that the account of this process lacks, read from the API server from time to time, for users.

A missing right to read shows at once, because nothing is decided then. A missing right to write would show only when it
is needed, perhaps weeks later. So it is checked before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import msgspec

from gangsched.cluster.kinds import Kind
from gangsched.cluster.kube.client import Client, answer_of

#: ``(API group, resource, verb)`` of every write that some cluster needs of the scheduler. `tests/manifests` holds that
#: the Role and the ClusterRole give all of them.
WRITES: tuple[tuple[str, str, str], ...] = (
    ("", "pods", "delete"),
    ("", "pods/status", "patch"),
    ("", "pods/binding", "create"),
    ("", "pods/eviction", "create"),
    ("", "nodes", "patch"),
    ("", "persistentvolumes", "patch"),
    ("", "persistentvolumeclaims", "patch"),
    ("resource.k8s.io", "resourceclaims", "patch"),
    ("resource.k8s.io", "resourceclaims/status", "patch"),
    ("resource.k8s.io", "resourceclaims/binding", "patch"),
    ("events.k8s.io", "events", "create"),
    ("batch", "jobs", "patch"),
    ("batch", "jobs/status", "patch"),
    ("scheduling.sigs.k8s.io", "podgroups/status", "patch"),
    ("scheduling.x-k8s.io", "podgroups/status", "patch"),
)
_PATH = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


class _Rule(msgspec.Struct, rename="camel"):
    verbs: list[str] = []
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []

    def gives(self, group: str, resource: str, verb: str) -> bool:
        """Whether it allows this for all names."""
        wildcard = f"*/{resource.partition('/')[2]}" if "/" in resource else "*"
        return (
            not self.resource_names
            and bool({verb, "*"} & set(self.verbs))
            and bool({group, "*"} & set(self.api_groups))
            and bool({resource, wildcard, "*"} & set(self.resources))
        )


class _Rules(msgspec.Struct, rename="camel"):
    incomplete: bool = False
    resource_rules: list[_Rule] = []


class _Review(msgspec.Struct):
    status: _Rules = msgspec.field(default_factory=_Rules)


_review = msgspec.json.Decoder(_Review)


async def lacking(
    client: Client, namespace: str, timeout_seconds: float, fence: Callable[[], float]
) -> tuple[str, ...] | None:
    """The rights that are missing, as ``patch jobs.batch``; None where the server does not know all that is allowed.
    It is not asked after the monotonic time that ``fence`` says.

    Raises ApiError and UnreachableError.
    """
    return missing_in(await _review_of(client, namespace, timeout_seconds, fence))


async def unreadable(client: Client, kinds: Iterable[Kind], timeout_seconds: float) -> frozenset[str]:
    """Return those of these kinds, by resource, that this account may not list and watch; none if the server does not
    know all rights.

    Raises ApiError and UnreachableError.
    """
    answer = await _review_of(client, "default", timeout_seconds)
    found = answer_of(_review, answer, _PATH).status
    if found.incomplete:
        return frozenset()
    rules = found.resource_rules
    return frozenset(
        kind.resource
        for kind in kinds
        if not all(any(rule.gives(kind.group, kind.plural, verb) for rule in rules) for verb in ("list", "watch"))
    )


async def _review_of(
    client: Client, namespace: str, timeout_seconds: float, fence: Callable[[], float] = lambda: math.inf
) -> bytes:
    """The answer of a SelfSubjectRulesReview, which the server gives up when this process does."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    body = msgspec.json.encode({**kind, "spec": {"namespace": namespace}})
    return await client.attempt(
        "POST", _PATH, body=body, timeout_seconds=timeout_seconds, server_timeout=True, fence=fence
    )


def missing_in(answer: bytes) -> tuple[str, ...] | None:
    """As :func:`lacking`, of the answer of a SelfSubjectRulesReview."""
    found = answer_of(_review, answer, _PATH).status
    rules = found.resource_rules
    missing = [need for need in WRITES if not any(rule.gives(*need) for rule in rules)]
    if missing and found.incomplete:
        return None
    return tuple(f"{verb} {resource}{f'.{group}' if group else ''}" for group, resource, verb in missing)
