"""Checks of bearer tokens: the account of a token, and its right to read a path. Only the API server knows both."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from gangsched.cluster.kube.client import Client, answer_of

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Access(Enum):
    """The result of a check of one client."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_token_review = msgspec.json.Decoder(_TokenReview)
_access_review = msgspec.json.Decoder(_AccessReview)


async def access(client: Client, token: str, verb: str, path: str, timeout_seconds: float) -> Access:
    """Return whether the account of ``token`` may do ``verb`` with the non-resource ``path``. Two requests of
    ``timeout_seconds`` each.

    Raises ApiError and UnreachableError.
    """
    asked: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    body = await client.attempt("POST", _TOKENS, body=msgspec.json.encode(asked), timeout_seconds=timeout_seconds)
    found = answer_of(_token_review, body, _TOKENS).status
    if not found.authenticated or not found.user.username:
        return Access.UNKNOWN
    user = found.user
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        },
    }
    body = await client.attempt("POST", _ACCESS, body=msgspec.json.encode(asked), timeout_seconds=timeout_seconds)
    judged = answer_of(_access_review, body, _ACCESS).status
    return Access.ALLOWED if judged.allowed and not judged.denied else Access.FORBIDDEN
