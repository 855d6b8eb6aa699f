"""The PodGroup CRD, and what an API server would say of an object under its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.manifests.shipped import (
    Object,
    installed,
    one,
)


def crd() -> Object:
    """The CustomResourceDefinition of PodGroup."""
    return one(installed(), "CustomResourceDefinition")


def crd_version() -> Object:
    """Its only version."""
    (version,) = crd()["spec"]["versions"]
    result: Object = version
    return result


def crd_schema() -> Object:
    """The schema of its only version."""
    schema: Object = crd_version()["schema"]["openAPIV3Schema"]
    return schema


def schema_nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """(path, schema) of a schema and of every schema of a field, element or map value in it."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from schema_nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from schema_nodes(schema[key], f"{path}[]")


def violations(schema: Object, value: Any, path: str = "") -> list[str]:
    """What an API server would reject or prune in `value`; only the keywords that our schema uses are understood."""
    understood = {
        *("type", "format", "description", "properties", "additionalProperties", "items", "required", "enum"),
        *("minimum", "minLength", "maxLength", "pattern", "anyOf"),
        *("x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    }
    assert set(schema) <= understood, f"{path}: this test does not know {set(schema) - understood}"
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, (int, str)) and not isinstance(value, bool)
    else:
        python_type = {"object": dict, "array": list, "string": str, "integer": int}[schema["type"]]
        fits = isinstance(value, python_type) and not isinstance(value, bool)
    if not fits:
        return [f"{path}: {value!r} has the wrong type"]
    found = []
    if isinstance(value, dict) and path != ".metadata":
        properties = schema.get("properties", {})
        found += [f"{path}.{name}: missing" for name in schema.get("required", []) if name not in value]
        for name, child in value.items():
            child_schema = properties.get(name) or schema.get("additionalProperties")
            if child_schema is None:
                found.append(f"{path}.{name}: unknown field")
            else:
                found += violations(child_schema, child, f"{path}.{name}")
    if isinstance(value, list):
        for index, child in enumerate(value):
            found += violations(schema["items"], child, f"{path}[{index}]")
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append(f"{path}: {value} is below the minimum")
    if isinstance(value, str):
        found += text_violations(schema, value, path)
    return found


def text_violations(schema: Object, value: str, path: str) -> Iterator[str]:
    """As :func:`violations`, of a text."""
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: length {len(value)}"
    if value not in schema.get("enum", [value]):
        yield f"{path}: {value!r} is none of {schema['enum']}"
