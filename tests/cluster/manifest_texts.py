"""Texts of manifests for the tests of the loader, and what loading them gives."""

from __future__ import annotations

import io
import json

import pytest

from gangsched.cluster.manifests import load
from gangsched.core.events import records
from gangsched.model.errors import InputError
from gangsched.model.records import Pod

HIGH = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: %s
"""


def read(text):
    """Load one text, as from stdin."""
    return load(["-"], stdin=io.StringIO(text))


def refusal(text):
    """The error that one text gives."""
    with pytest.raises(InputError) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    return caught.value


def pod(text, name="p"):
    """The record of one pod with this spec."""
    return next(e for e in records(read(text).events, Pod) if e.name == name)


def many(*documents):
    """Documents in one YAML text."""
    return "\n---\n".join(documents)


def obj(kind, api_version, name="x", **fields):
    """One object as JSON, which is YAML too."""
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields})
