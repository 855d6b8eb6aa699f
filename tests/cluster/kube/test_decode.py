"""Frames and pages, whole, broken, and with objects nobody can read."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cluster.kinds import Undecodable
from gangsched.cluster.kube.client import ApiError, api_error, lines_of
from gangsched.cluster.kube.decode import BOOKMARK, DELETED, ObjectDecoder
from gangsched.model import wire
from tests.cluster.kube.deep import deep, with_deep


def line(kind: str, thing: dict[str, Any]) -> bytes:
    """A frame of a watch."""
    return json.dumps({"type": kind, "object": thing}).encode()


META = {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "7"}
BAD_POD = {"metadata": META, "spec": {"containers": [{"resources": {"requests": "much"}}]}}


def test_good_frame() -> None:
    """A frame decodes into its type and typed object."""
    frame = ObjectDecoder(wire.Pod).frame(line("DELETED", {"metadata": META, "spec": {"nodeName": "n"}}))
    assert frame.type == DELETED
    assert frame.object.spec.node_name == "n"


def test_bookmark_as_servers_send_it() -> None:
    """A bookmark has null where a pod has lists; its version is still read."""
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "99", "creationTimestamp": None}}
    frame = ObjectDecoder(wire.Pod).frame(line("BOOKMARK", {**bookmark, "spec": {"containers": None}, "status": {}}))
    assert frame.type == BOOKMARK
    assert frame.object.metadata.resource_version == "99"


@pytest.mark.parametrize("wire_type", [wire.Pod, wire.Namespace, wire.Node, wire.UpstreamPodGroup])
def test_error_frame_is_raised(wire_type: type[Any]) -> None:
    """An ERROR frame holds a Status, whatever is watched."""
    status = {
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "too old",
        "reason": "Expired",
        "code": 410,
    }
    with pytest.raises(ApiError, match="too old") as caught:
        ObjectDecoder(wire_type).frame(line("ERROR", status))
    assert caught.value.status == 410


def test_bad_object_keeps_its_identity() -> None:
    """An object of the wrong types is not decoded, but it is known which one it is and what is wrong."""
    frame = ObjectDecoder(wire.Pod).frame(line("ADDED", BAD_POD))
    assert isinstance(frame.object, Undecodable)
    assert (frame.object.metadata.name, frame.object.metadata.uid) == ("a", "u")
    assert "requests" in frame.object.message


def test_bad_metadata_keeps_the_name() -> None:
    """Even when labels are not labels, the name and version are read."""
    frame = ObjectDecoder(wire.Pod).frame(line("ADDED", {"metadata": {**META, "labels": [1]}}))
    assert isinstance(frame.object, Undecodable)
    assert (frame.object.metadata.name, frame.object.metadata.resource_version) == ("a", "7")


def test_bad_object_does_not_spoil_its_page() -> None:
    """The other objects of a page are decoded as ever."""
    good = {"metadata": {**META, "name": "b"}}
    items = ObjectDecoder(wire.Pod).page(json.dumps({"items": [BAD_POD, good]}).encode())
    assert [type(item) for item in items] == [Undecodable, wire.Pod]
    assert [item.metadata.name for item in items] == ["a", "b"]


NEEDS = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}], "nodeName": "n"}


def test_an_object_that_is_too_deep_is_known() -> None:
    """A value that nobody reads hides neither its object nor the others of the page, nor what the object takes."""
    bodies = [with_deep({"metadata": META, "spec": NEEDS}), json.dumps({"metadata": {**META, "name": "b"}}).encode()]
    deepest, other = ObjectDecoder(wire.Pod).page(b'{"items":[%s]}' % b",".join(bodies))
    assert (deepest.metadata.name, deepest.spec.node_name, other.metadata.name) == ("a", "n", "b")
    assert deepest.spec.containers[0].resources.requests == {"cpu": "2"}
    frame = ObjectDecoder(wire.Pod).frame(b'{"type":"ADDED","object":%s}' % bodies[0])
    assert frame.object == deepest


@pytest.mark.parametrize("levels", [500, 940, 960, 3000])
def test_what_is_kept_of_a_bad_object_is_not_too_deep(levels: int) -> None:
    """An object of wrong types keeps its identity, and its JSON can be decoded once more from anywhere."""
    body = with_deep(BAD_POD, deep(levels))
    (bad,) = ObjectDecoder(wire.Pod).page(b'{"items":[%s]}' % body)
    assert isinstance(bad, Undecodable)
    assert (bad.metadata.name, bad.metadata.uid) == ("a", "u")
    assert copy.deepcopy(msgspec.json.decode(bad.body))["spec"] == BAD_POD["spec"]


@pytest.mark.parametrize("body", [b"{}", b'{"items":5}', b'{"kind":"Status"}', b"<html>", b"\xff"])
def test_what_has_no_items_is_no_page(body: bytes) -> None:
    """An answer that does not say what there is says not that there is nothing."""
    with pytest.raises(msgspec.DecodeError):
        ObjectDecoder(wire.Pod).page(body)


@pytest.mark.parametrize("body", [b'{"items":null}', b'{"items":[]}'])
def test_empty_pages(body: bytes) -> None:
    """A list without items has none."""
    assert ObjectDecoder(wire.Pod).page(body) == []


@pytest.mark.parametrize("garbage", [b"<html>", b'{"type":"ADDED","obj', b"[]", b'{"type":"ADDED"}'])
def test_garbage_is_a_decode_error(garbage: bytes) -> None:
    """What is no frame at all is reported as such."""
    with pytest.raises(msgspec.DecodeError):
        ObjectDecoder(wire.Pod).frame(garbage)


@pytest.mark.parametrize(
    ("body", "message", "causes"),
    [
        (b"Too many requests, please try again later.\n", "Too many requests, please try again later.", ()),
        (b'{"message":"m","details":{"causes":[{"reason":"DisruptionBudget"}]}}', "m", ("DisruptionBudget",)),
        (b'{"message":"m","details":null}', "m", ()),
        (b"\xff", "\ufffd", ()),
        (b'{"message":"caf\xe9 closed"}', "caf\ufffd closed", ()),
        (b'{"message":"m","metadata":' + deep() + b"}", "m", ()),
    ],
)
def test_errors_with_and_without_a_status(body: bytes, message: str, causes: tuple[str, ...]) -> None:
    """The message comes from a Status object, or else from the body as it is."""
    error = api_error(429, body)
    assert (error.message, error.causes, error.transient) == (message, causes, True)


@given(st.lists(st.binary(min_size=1).filter(lambda b: b"\n" not in b)), st.data())
async def test_lines_do_not_depend_on_chunks(frames: list[bytes], data: st.DataObject) -> None:
    """However the stream is cut into chunks, the same lines come out, and a cut-off tail never does."""
    stream = b"".join(frame + b"\n" for frame in frames) + b"cut off"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *cuts, len(stream)]

    async def chunks() -> AsyncIterator[bytes]:
        for start, end in itertools.pairwise(bounds):
            yield stream[start:end]

    assert [each async for batch in lines_of(chunks()) for each in batch] == frames
