"""``gangsched leave``: what returns the workloads of a namespace to another scheduler, and with ``--yes`` does it."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gangsched.cli import answers
from gangsched.cli.inputs import add_cluster_arguments, add_namespace_argument, connect
from gangsched.cli.release import release
from gangsched.cluster.kinds import KINDS, SERVED_KINDS
from gangsched.messages import leaving
from gangsched.messages.text import join_names, pluralize
from gangsched.model.convert import SUSPENDED_BY
from gangsched.model.dialects.operators import FAMILIES

if TYPE_CHECKING:
    from gangsched.cluster.kube.client import Client
    from gangsched.cluster.kube.connection import Connection
    from gangsched.runtime.settings import Configuration

Object: TypeAlias = dict[str, Any]

#: Kinds whose template may be changed, and whether pods of the old one that wait are replaced by themselves: those of
#: a StatefulSet are not, because it goes on only when all that there are have become ready.
_PATCHED = {
    "Deployment": True,
    "DaemonSet": True,
    "StatefulSet": False,
    "ReplicaSet": False,
    "ReplicationController": False,
    "CronJob": False,
}
_ROLLS = ("Deployment", "DaemonSet", "StatefulSet")
#: Where they are, and the pods: ``(kind, group and version, plural)``.
_ALWAYS = (
    ("Deployment", "apps/v1", "deployments"),
    ("StatefulSet", "apps/v1", "statefulsets"),
    ("DaemonSet", "apps/v1", "daemonsets"),
    ("ReplicaSet", "apps/v1", "replicasets"),
    ("ReplicationController", "v1", "replicationcontrollers"),
    ("CronJob", "batch/v1", "cronjobs"),
    ("Job", "batch/v1", "jobs"),
    ("Pod", "v1", "pods"),
)
_PATCH, _DELETE, _AGAIN, _STAYS, _YOURS = "patch", "delete", "again", "stays", "yours"
_FINISHED = ("Succeeded", "Failed")
#: A deleted object is waited for; its pods had not started, so that nothing has to stop first. All steps together take
#: no longer than so many seconds: a finalizer can hold up each of them.
_GONE_SECONDS, _ALL_SECONDS = 60.0, 300.0
#: An object that was written between reading and deleting it is read again so often.
_ATTEMPTS = 3
_CONFLICT = 409
#: What a Job's controller has written into its selector and template, and writes again.
_OF_A_JOB = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)


class _SkippedError(Exception):
    """Why a step is not taken."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_namespace_argument(parser)
    parser.add_argument(
        "--to", metavar="NAME", default="default-scheduler", help="who schedules them then (default: default-scheduler)"
    )
    parser.add_argument("--yes", action="store_true", help="do it, instead of printing what would be done")
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="with --yes: what is created again is written there first (default: leave-NS.json)",
    )
    parser.add_argument(
        "--scheduler-name", metavar="NAME", action="append", help="whom they leave (default: the names of the leader)"
    )
    parser.add_argument("--config", metavar="FILE", help="a GangSchedulerConfiguration (default: the leader's)")
    add_cluster_arguments(parser, "")
    parser.epilog = "Exit code: 0 if all is done or printed, 1 if a step failed, 2 if the cluster cannot be read."


def run(args: argparse.Namespace) -> int:
    """Print the steps, and carry them out with ``--yes``."""
    configuration, connection, runs = connect(args)
    names = configuration.core_options().scheduler_names
    if args.to in names:
        raise answers.UsageError(leaving.SAME_NAME(name=args.to))
    space = args.namespace or connection.namespace or "default"
    return asyncio.run(_leave(args, configuration, connection, space, names, leads=not runs.alarm))


class Step(NamedTuple):
    """One thing to do with an ``object`` or, for ``stays`` and ``yours``, to know of it. ``path`` is its URL path, and
    ``body`` what is sent: a JSON patch, or the object to be created again. An object that is ``held`` has finalizers.
    ``version`` is its resourceVersion.
    """

    verb: str
    object: str
    text: str
    path: str = ""
    uid: str = ""
    body: Any = None
    held: bool = False
    version: str = ""

    def is_still(self, other: Step) -> bool:
        """Return True if the other one, which was found later, does the same to the same object."""
        return self._replace(version="", text="") == other._replace(version="", text="")


async def _leave(
    args: argparse.Namespace,
    configuration: Configuration,
    connection: Connection,
    space: str,
    names: Sequence[str],
    *,
    leads: bool,
) -> int:
    from gangsched.runtime.connecting import client_to  # noqa: PLC0415 - see cli.inputs

    async with client_to(connection, configuration.client_connection) as client:
        code = await _leave_namespace(client, args, space, names)
        return code if leads else max(code, await _release(client, names, yes=args.yes))


async def _release(client: Client, names: Sequence[str], *, yes: bool) -> int:
    """No scheduler is there to give back the nodes that it has held."""
    from gangsched.cluster.kube.client import ApiError, UnreachableError  # noqa: PLC0415 - see cli.inputs

    try:
        return await release(client, names, yes=yes, quiet=True)
    except (ApiError, UnreachableError) as error:
        answers.complain([leaving.NODES_NOT_READ(error=error)])
        return answers.OK


async def _leave_namespace(client: Client, args: argparse.Namespace, space: str, names: Sequence[str]) -> int:
    objects, not_read = await _read(client, space)
    if not_read and not objects:
        raise answers.UsageError(not_read[0])  # the others say as much
    answers.complain(not_read)
    todo = steps(objects, names, args.to)
    if not todo:
        print(leaving.NOTHING(space=space, names=join_names(names, 3)))
        return answers.OK
    print(leaving.HEAD(space=space, count=pluralize(len(todo), "object"), names=join_names(names, 3), to=args.to))
    answers.print_lines([(s.verb, s.object, s.text) for s in todo])
    file, again = Path(args.save or f"leave-{space}.json"), [s.body for s in todo if s.verb == _AGAIN]
    if not args.yes:
        print(leaving.DRY_AND_SAVES(file=file) if again else leaving.DRY())
        return answers.OK
    if again:
        _save(file, again)
    kinds = {each["kind"] for each in objects} | {"Pod", "Job"}

    async def read_steps() -> list[Step]:
        found, problems = await _read(client, space, kinds)
        if problems:
            raise _SkippedError(problems[0])
        return steps(found, names, args.to)

    return await _carry_out(client, [s for s in todo if s.verb in (_PATCH, _DELETE, _AGAIN)], file, read_steps)


def _save(file: Path, again: Sequence[Object]) -> None:
    try:
        with answers.open_private(file, "x") as out:
            json.dump({"apiVersion": "v1", "kind": "List", "items": again}, out, indent=1)
    except FileExistsError:
        raise answers.UsageError(leaving.FILE_EXISTS(file=file)) from None
    except OSError as error:
        raise answers.UsageError(leaving.FAILED(what=file, error=error.strerror or error)) from None
    print(leaving.SAVED(file=file, count=pluralize(len(again), "object")))


# ----------------------------------------------------------------------------------------------------------------- read


async def _read(client: Client, space: str, only: Collection[str] = ()) -> tuple[list[Object], list[str]]:
    """All objects of a namespace that may name a scheduler, ``only`` of these kinds, and what cannot be read."""
    from gangsched.cluster.kube.client import ApiError, UnreachableError, segment  # noqa: PLC0415 - see cli.inputs
    from gangsched.cluster.kube.discovery import served_resources  # noqa: PLC0415

    out: list[Object] = []
    not_read: list[str] = []
    kinds = list(_ALWAYS)
    try:
        served = await served_resources(client)
        kinds += [
            (kind.name, f"{kind.group}/{served[kind.resource].version}", kind.plural)
            for kind in SERVED_KINDS
            if kind.resource in served and kind.namespaced and _has_templates(kind.name, kind.group)
        ]
    except (ApiError, UnreachableError) as error:
        not_read.append(leaving.NOT_READ(what="/apis", error=error))
    for kind, version, plural in [each for each in kinds if not only or each[0] in only]:
        path = f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{segment(space)}/{plural}"
        try:
            async for page in client.list_pages(path, {}, f"{kind}List"):
                items = json.loads(page.body).get("items") or ()
                out += [{**each, "apiVersion": version, "kind": kind, "path": path} for each in items]
        except (ApiError, UnreachableError) as error:
            not_read.append(leaving.NOT_READ(what=plural, error=error))
    return out, not_read


def _has_templates(name: str, group: str) -> bool:
    """Whether it is an owner of pods, and not a PodGroup or a queue: those of operators become gangs by themselves."""
    kind = KINDS.get((name, group))
    return kind is not None and (name == "JobSet" or kind.family in FAMILIES)


# ---------------------------------------------------------------------------------------------------------------- steps


def steps(objects: Sequence[Object], names: Sequence[str], to: str) -> list[Step]:
    """What returns these objects of a namespace from schedulers of these ``names`` to another, in the order in which it
    is done: templates first, so that no controller makes another pod for the old name, and what has finalizers last.

    An object is as the API has it, with ``kind``, ``apiVersion`` and the ``path`` of its collection.
    """
    owners = {each["metadata"]["uid"]: each for each in objects if each["kind"] != "Pod"}
    pods = [each for each in objects if each["kind"] == "Pod" and _phase(each) not in _FINISHED]
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for pod in pods:
        for uid in _above(pod, owners):
            (running if pod["spec"].get("nodeName") else waiting)[uid] += 1
    named = [(each, places) for each in objects if (places := dict(_places(each, names)))]
    found = [step for each, places in named if (step := _step(each, places, owners, running, waiting, names, to))]
    order = (_PATCH, _DELETE, _AGAIN, _STAYS, _YOURS)
    return sorted(found, key=lambda step: (order.index(step.verb), step.held, step.object))


def _step(
    each: Object,
    places: Mapping[str, str],
    owners: Mapping[str, Object],
    running: Mapping[str, int],
    waiting: Mapping[str, int],
    names: Sequence[str],
    to: str,
) -> Step | None:
    kind, uid = each["kind"], each["metadata"]["uid"]
    owner = _controller(each)
    above = owners.get(owner["uid"]) if owner else None
    path = f"{each['path']}/{each['metadata']['name']}"
    if kind == "Pod":
        return _of_pod(each, owner, above, path, to)
    if above is not None and above["kind"] != "CronJob":
        return None  # what is above it is left, and makes it anew
    if kind in _PATCHED:
        patch = [
            {"op": op, "path": place, "value": value}
            for place, old in places.items()
            for op, value in (("test", old), ("replace", to))
        ]
        text = leaving.PATCHED if kind in _ROLLS else leaving.PATCHED_FOR_LATER
        return Step(_PATCH, _name(each), text, path, uid, patch, *_held(each))
    if _is_over(each):
        return None
    if running[uid]:
        text = leaving.STAYS(pods=pluralize(running[uid], "pod"), name=join_names(names, 1))
        return Step(_STAYS, _name(each), text, path)
    text = leaving.AGAIN(pods=pluralize(waiting[uid], "pod"))
    return Step(_AGAIN, _name(each), text, path, uid, _anew(each, places, to), *_held(each))


def _of_pod(each: Object, owner: Object | None, above: Object | None, path: str, to: str) -> Step | None:
    if _phase(each) in _FINISHED or each["metadata"].get("deletionTimestamp"):
        return None
    uid, node = each["metadata"]["uid"], each["spec"].get("nodeName")
    if owner is None:
        if node:
            return Step(_STAYS, _name(each), leaving.POD_STAYS(node=node), path)
        text = leaving.POD_AGAIN
        return Step(_AGAIN, _name(each), text, path, uid, _anew(each, ["/spec/schedulerName"], to), *_held(each))
    if node:
        return None
    if above is None:
        return Step(_YOURS, _name(each), leaving.YOURS(owner=f"{owner['kind']}/{owner['name']}"))
    if not _PATCHED.get(above["kind"], True) and _controller(above) is None:
        return Step(_DELETE, _name(each), leaving.DELETED(owner=_name(above)), path, uid, None, *_held(each))
    return None  # it leaves with what is above it


def _places(each: Object, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """JSON pointers to each ``schedulerName`` that is one of these, and which."""
    todo: list[tuple[str, Any]] = [("/spec", each.get("spec"))]
    while todo:
        place, value = todo.pop()
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in inside:
            at = f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}"
            if key == "schedulerName" and child in names:
                yield at, child
            todo.append((at, child))


def _anew(each: Object, places: Iterable[str], to: str) -> Object:
    """The object to be created again: without what only the API server and controllers write, with another name."""
    out: Object = json.loads(json.dumps({key: each[key] for key in ("apiVersion", "kind", "metadata", "spec")}))
    for place in places:
        *inner, last = (part.replace("~1", "/").replace("~0", "~") for part in place.split("/")[1:])
        at: Any = out
        for part in inner:
            at = at[int(part)] if isinstance(at, list) else at[part]
        at[last] = to
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    meta = out["metadata"] = {key: value for key, value in out["metadata"].items() if key in kept}
    spec = out["spec"]
    if (meta.get("annotations") or {}).pop(SUSPENDED_BY, None):
        spec["suspend"] = False
    if each["kind"] == "Job" and each["apiVersion"] == "batch/v1" and not spec.get("manualSelector"):
        spec.pop("selector", None)
        of_pods = spec["template"].get("metadata") or {}
        for labels in (meta.get("labels") or {}, of_pods.get("labels") or {}):
            for key in _OF_A_JOB:
                labels.pop(key, None)
    return out


def _above(each: Object, owners: Mapping[str, Object]) -> Iterator[str]:
    """UIDs of what controls it, from below; a loop that a forged reference makes ends."""
    seen: set[str] = set()
    owner = _controller(each)
    while owner and owner["uid"] not in seen:
        seen.add(owner["uid"])
        yield owner["uid"]
        owner = _controller(owners.get(owner["uid"], {}))


def _controller(each: Object) -> Object | None:
    references = (each.get("metadata") or {}).get("ownerReferences") or ()
    return next((r for r in references if r.get("controller")), None)


def _is_over(each: Object) -> bool:
    """Whether a Job or the like has completed or failed: nothing of it is scheduled any more."""
    conditions = (each.get("status") or {}).get("conditions") or ()
    over = ("Complete", "Completed", "Failed", "Succeeded")
    return any(c.get("type") in over and c.get("status") == "True" for c in conditions)


def _held(each: Object) -> tuple[bool, str]:
    """Return whether an object has finalizers, and its resourceVersion."""
    meta = each["metadata"]
    return bool(meta.get("finalizers")), str(meta.get("resourceVersion") or "")


def _phase(each: Object) -> str:
    return str((each.get("status") or {}).get("phase") or "")


def _name(each: Object) -> str:
    return f"{each['kind']}/{each['metadata']['name']}"


# ------------------------------------------------------------------------------------------------------------ carry out


async def _carry_out(
    client: Client, todo: Sequence[Step], file: Path, read_steps: Callable[[], Awaitable[Sequence[Step]]]
) -> int:
    """Take one step after another; what fails is reported, and the others are taken all the same. ``read_steps``
    finds the steps for the namespace as it is by then.
    """
    from gangsched.cluster.kube.client import ApiError, UnreachableError  # noqa: PLC0415 - see cli.inputs

    done, until = 0, asyncio.get_running_loop().time() + _ALL_SECONDS
    for step in todo:
        deleted = False
        try:
            if asyncio.get_running_loop().time() >= until:
                raise _SkippedError(leaving.NO_TIME(seconds=_ALL_SECONDS))  # noqa: TRY301 - as what a step raises
            if step.verb == _PATCH:
                await _as_it_is(step, read_steps, partial(_patch, client))
            else:
                await _as_it_is(step, read_steps, partial(_delete, client))
                deleted = True
                if step.verb == _AGAIN:
                    await _wait_for_deletion(client, step, until)
                    await client.attempt("POST", step.path.rpartition("/")[0], body=json.dumps(step.body).encode())
            done += 1
        except (ApiError, UnreachableError, TimeoutError, _SkippedError) as error:
            lost = deleted and step.verb == _AGAIN
            said = leaving.NOT_CREATED(what=step.object, error=error, file=file)
            answers.complain([said if lost else leaving.FAILED(what=step.object, error=error)])
    print(leaving.DONE(done=done, count=pluralize(len(todo), "step")))
    return answers.OK if done == len(todo) else answers.FAILED


async def _as_it_is(
    step: Step, read_steps: Callable[[], Awaitable[Sequence[Step]]], send: Callable[[Step], Any]
) -> None:
    """Take a step if it is right still: pods may have started since it was found, or the object may be another one.

    ``send`` gets the step as it was found now. An object that was written in between is looked at again. Raises
    :class:`_SkippedError` if the step is right no more, and what ``send`` raises.
    """
    from gangsched.cluster.kube.client import ApiError  # noqa: PLC0415 - see cli.inputs

    for left in range(_ATTEMPTS - 1, -1, -1):
        patches = step.verb == _PATCH
        now = next(
            (each for each in await read_steps() if each.path == step.path and (each.verb == _PATCH) == patches), None
        )
        if now is None or not step.is_still(now):
            raise _SkippedError(leaving.CHANGED(now=now.text if now is not None else leaving.NOTHING_TO_DO))
        try:
            await send(now)
        except ApiError as error:
            if error.status != _CONFLICT or not left:
                raise
        else:
            return


async def _patch(client: Client, step: Step) -> None:
    """Change a template, unless the object is another one or was written since."""
    same = [
        {"op": "replace", "path": "/metadata/uid", "value": step.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": step.version},
    ]
    body = json.dumps([*step.body, *same]).encode()
    await client.attempt("PATCH", step.path, body=body, content_type="application/json-patch+json")


async def _delete(client: Client, step: Step) -> None:
    """Delete an object, unless it is another one or was written since."""
    conditions = {"uid": step.uid, "resourceVersion": step.version}
    options = {"propagationPolicy": "Background", "preconditions": conditions}
    await client.attempt("DELETE", step.path, body=json.dumps(options).encode())


async def _wait_for_deletion(client: Client, step: Step, until: float) -> None:
    """Wait until a deleted object is gone, at most ``until`` then (time of the loop).

    Raises TimeoutError when it stays, and what the client raises.
    """
    from gangsched.cluster.kube.client import ApiError  # noqa: PLC0415 - see cli.inputs

    try:
        async with asyncio.timeout_at(min(until, asyncio.get_running_loop().time() + _GONE_SECONDS)):
            while True:
                found = json.loads(await client.get(step.path))
                if found["metadata"]["uid"] != step.uid:
                    return  # its name is taken: to create it says so
                await asyncio.sleep(0.2)
    except ApiError as error:
        if error.status != 404:
            raise
    except TimeoutError:
        raise TimeoutError(leaving.STILL_THERE(seconds=_GONE_SECONDS)) from None
