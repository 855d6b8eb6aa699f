"""Objects with values nested as deep as the API server keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.retry import TokenBucket

#: More than any recursive decoder reads in Python, and less than the 10,000 of the API server.
LEVELS = 3000


def deep(levels: int = LEVELS, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    """JSON of so many levels."""
    return opening * levels + b"{}" + closing * levels


def with_deep(body: dict[str, Any], value: bytes | None = None) -> bytes:
    """The JSON of an object of which a field manager says this; without a value, very much, and in bytes that are no
    text.
    """
    said = msgspec.Raw(value or deep(opening=b'{"f:\xff":'))
    manager = {"manager": "m", "operation": "Update", "apiVersion": body.get("apiVersion", "v1")}
    field = manager | {"fieldsType": "FieldsV1", "fieldsV1": said}
    return msgspec.json.encode(body | {"metadata": body["metadata"] | {"managedFields": [field]}})


@asynccontextmanager
async def stored(kubeconfig: Path, path: str, body: dict[str, Any]) -> AsyncIterator[str]:
    """Such an object on a real API server, as one of the collection at ``path``; its UID. It is deleted in the end, as
    whoever lists it without care fails.
    """
    client = Client(await load_connection(kubeconfig), TokenBucket(100.0, 100))
    client.open()
    try:
        answer = await client.attempt("POST", path, body=with_deep(body))
        try:
            assert answer.count(b'{"f:') > LEVELS, "the API server does not keep it any more"
            yield answer.partition(b'"uid":"')[2].partition(b'"')[0].decode()
        finally:
            now = b'{"gracePeriodSeconds":0}'
            await client.attempt("DELETE", f"{path}/{body['metadata']['name']}", body=now)
    finally:
        await client.close()
