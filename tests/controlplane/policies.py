"""Admission policies that refuse pods, as the webhook of an administrator does."""

from __future__ import annotations

from collections.abc import Mapping

from tests.controlplane.client import Object

_API = "admissionregistration.k8s.io/v1"


def refuses(
    name: str,
    operation: str,
    labels: Mapping[str, str],
    message: str,
    *,
    unless: str = "false",
    namespace: str = "",
    resource: str = "pods",
) -> list[Object]:
    """A ValidatingAdmissionPolicy, and its binding, that refuses to CREATE, UPDATE or DELETE pods with these labels, or
    another ``resource`` of them, with this message, ``unless`` an expression holds; in all namespaces, or in one.
    """
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    match: Object = {
        "resourceRules": [rule],
        "objectSelector": {"matchLabels": dict(labels)},
    }
    if namespace:
        match["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    validation = {"expression": unless, "message": message}
    return [
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", "matchConstraints": match, "validations": [validation]},
        },
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]
