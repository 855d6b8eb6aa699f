"""What is deleted on a real API server is deleted in every cache and view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack

from gangsched.cluster.kinds import SERVED_KINDS, Kind
from gangsched.core.events import Changed, Event, Gone, Synced
from gangsched.core.keys import ObjectKey, key_of, object_key
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.runtime.known import Known
from tests.cluster.every_kind import KINDS, body, left_in, play, traces
from tests.cluster.kube.conftest import Reader
from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.e2e.kinds import definition, served

Make = Callable[..., Awaitable[Reader]]
NAME = "of-which-nothing-is-left"
#: The API server has these itself.
_BUILT_IN = ("scheduling.k8s.io", "resource.k8s.io")


def installed(kind: Kind) -> Object:
    """The definition of a kind of another project; its objects may say anything."""
    version = kind.versions[0]
    made = definition(kind.group, version, kind.name, kind.plural, namespaced=kind.namespaced)
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for tests"}
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = free
    return made


async def test_one_object_of_every_kind_is_created_and_deleted(
    make_cluster: Make, admin: Client, namespace: str
) -> None:
    """Nothing of them is left in what pages are made of, nor in the core."""
    async with AsyncExitStack() as stack:
        definitions = [installed(kind) for kind in SERVED_KINDS if kind.group not in _BUILT_IN]
        await stack.enter_async_context(served(admin, *definitions))
        reader = await make_cluster(quota_mode="own")
        await reader.until(Synced)
        keys: dict[ObjectKey, Kind] = {}
        for kind in KINDS:
            space = namespace if kind.namespaced else ""
            try:
                await admin.create(body(kind, NAME, space), space or "default")
            except (ApiError, LookupError):
                assert kind.group in _BUILT_IN, kind.full_name  # this version does not serve it
                continue
            keys[object_key(kind.name, kind.group, space, NAME)] = kind
        await _seen(reader, Changed, keys)
        for kind in reversed([*keys.values()]):
            name = f"{kind.api_version}/{kind.name}"
            await admin.delete(name, NAME, namespace, grace_seconds=0)
        await _seen(reader, Gone, keys)
        assert len(keys) > 40
    known, core = Known(), Scheduler(Options())
    known.record(reader.events)
    play(core, reader.events, 1.0)
    assert traces(known, NAME) == []
    assert left_in(core, NAME) == []


async def _seen(reader: Reader, kind: type[Event], keys: Iterable[ObjectKey]) -> None:
    """Wait until events of a kind about all of these objects have come."""

    def missing() -> set[ObjectKey]:
        seen = (key_of(each) for each in reader.fetch() if isinstance(each, kind))
        return {*keys} - {key.by_name for key in seen if key is not None}

    try:
        await wait_until(lambda: not missing())
    except AssertionError:
        raise AssertionError(f"no {kind.__name__} of {missing()}") from None
