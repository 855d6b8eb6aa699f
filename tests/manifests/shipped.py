"""What is shipped as YAML, read strictly, and the parts of it that several tests look at."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
EXAMPLES = ROOT / "examples"
SCHEDULER_NAME = "py-gang-scheduler"

Object = dict[str, Any]


class StrictLoader(yaml.SafeLoader):
    """A loader that refuses what PyYAML accepts in silence and an API server does not: the same key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, or raise when a key is repeated."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = [key for key, count in Counter(keys).items() if count > 1]
        if repeated:
            raise yaml.constructor.ConstructorError(None, None, f"repeated keys: {repeated}", node.start_mark)
        return super().construct_mapping(node, deep)


def load_all(path: Path) -> list[Object]:
    """All documents of a file; none of them may be empty."""
    documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=StrictLoader))
    assert all(documents), f"{path} has an empty document"
    return documents


def load_folder(folder: Path) -> list[Object]:
    """All objects of a folder, in the order of its file names."""
    return [document for path in sorted(folder.glob("*.yaml")) for document in load_all(path)]


def installed() -> list[Object]:
    """All objects that `kubectl apply -k manifests/` creates."""
    return [document for document in load_folder(MANIFESTS) if document["kind"] != "Kustomization"]


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    """The only object of this kind (and name)."""
    found = [o for o in objects if o["kind"] == kind and name in {None, o["metadata"]["name"]}]
    assert len(found) == 1, f"{len(found)} objects of kind {kind} and name {name}"
    return found[0]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """All objects of this kind."""
    return [o for o in objects if o["kind"] == kind]


def rights(role: Object) -> dict[tuple[str, str, str | None], set[str]]:
    """Everything a role grants, by (API group, resource, object name or None)."""
    granted: dict[tuple[str, str, str | None], set[str]] = {}
    for rule in role["rules"]:
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}, f"unexpected key in {rule}"
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [None]):
                    granted.setdefault((group, resource, name), set()).update(rule["verbs"])
    return granted


def pod_template() -> Object:
    """The pod template of the Deployment."""
    template: Object = one(installed(), "Deployment")["spec"]["template"]
    return template


def pod_spec() -> Object:
    """The pod spec of the Deployment."""
    spec: Object = pod_template()["spec"]
    return spec


def container() -> Object:
    """The only container of the Deployment."""
    (only,) = pod_spec()["containers"]
    result: Object = only
    return result


def configuration() -> Object:
    """The configuration file in the ConfigMap."""
    (text,) = one(installed(), "ConfigMap")["data"].values()
    document: Object = yaml.load(text, Loader=StrictLoader)
    return document


SUFFIXES = {"m": Decimal("0.001"), "": Decimal(1), "Mi": Decimal(2**20), "Gi": Decimal(2**30)}


def quantity(value: str | int) -> Decimal:
    """A quantity in base units; only the suffixes that our files use."""
    match = re.fullmatch(r"([0-9]+)(m|Mi|Gi|)", str(value))
    assert match, f"{value!r} is no quantity"
    return Decimal(match[1]) * SUFFIXES[match[2]]


def seconds(duration: str) -> Decimal:
    """Seconds of a duration such as 15s or 500ms."""
    match = re.fullmatch(r"([0-9]+)(ms|s|m)", duration)
    assert match, f"{duration!r} is no duration"
    return Decimal(match[1]) * {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60)}[match[2]]


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, arguments) of the Dockerfile, with continued lines joined."""
    text = (MANIFESTS / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    instructions = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in instructions]
