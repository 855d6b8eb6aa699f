"""Write the parts of the Helm chart that say what `manifests/` says: rights, CRD, service account, budget, service.

    python .ci/chart.py [--check]

The files of `manifests/` are the source. Names and the namespace become values of the release, labels become the
chart's, and each rule of a ClusterRole that belongs to a feature gets the condition of that feature. The schema of the
values under `config` is that of the configuration file. Everything else of the chart is written by hand; tests compare
all of it with `manifests/`. The version of the package is written into the chart and into the kustomization.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from gangsched.runtime.config import schema

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = ROOT / "manifests"
TEMPLATES = MANIFESTS / "helm" / "gangsched" / "templates"
HEADER = "{{- /* Written by .ci/chart.py from manifests/%s. Do not edit. */ -}}\n"

#: What is written, and the value that switches the whole file on.
FILES = {
    "rbac.yaml": "rbac.create",
    "rbac-users.yaml": "rbac.userRoles",
    "serviceaccount.yaml": "serviceAccount.create",
    "poddisruptionbudget.yaml": "podDisruptionBudget.enabled (not .Values.shadow.enabled)",
    "resourcequota.yaml": "resourceQuota.enabled",
    "service.yaml": "service.enabled",
    "crd-podgroups.scheduling.sigs.k8s.io.yaml": "crds.install",
}

#: The feature of a rule of the scheduler's ClusterRole, by API group, or by group/resource. Others are always there.
FEATURES = {
    "kueue.x-k8s.io": "queues",
    "scheduling.volcano.sh/queues": "queues",
    "batch/jobs/status": "queues",
    "jobset.x-k8s.io/jobsets/status": "queues",
    "scheduling.koordinator.sh": "koordinator",
    "scheduling.volcano.sh": "volcano",
    "topology.volcano.sh": "volcano",
    "scheduling.run.ai": "kai",
    "kai.scheduler": "kai",
    "scheduler.grove.io": "operators",
    "scheduling.x-k8s.io": "coscheduling",
    "kubeflow.org": "operators",
    "trainer.kubeflow.org": "operators",
    "ray.io": "operators",
    "sparkoperator.k8s.io": "operators",
    "leaderworkerset.x-k8s.io": "operators",
    "/pods/eviction": "evictionApi",
}

_RULE = re.compile(
    r"(?:^  #[^\n]*\n)+^  - apiGroups: \[(?P<groups>[^\]]*)\]\n"
    r"    resources: \[(?P<resources>[^\]]*)\]\n(?:    [^\n]*\n)*",
    re.MULTILINE,
)


def _feature(groups: str, resources: str) -> str | None:
    group = groups.split(",", maxsplit=1)[0].strip().strip('"')
    resource = resources.split(",", maxsplit=1)[0].strip()
    return FEATURES.get(f"{group}/{resource}") or FEATURES.get(group)


def _verbs_for_pods(groups: str, resources: str) -> str | None:
    """What of a rule is left where only plain pods are scheduled, as the component says; None: nothing."""
    rules = (MANIFESTS / "components" / "pods-only" / "rbac.yaml").read_text()
    rule = f"  - apiGroups: [{groups}]\n    resources: [{resources}]\n    verbs: ["
    return rules.partition(rule)[2].partition("]")[0] or None


_READ = ("get", "list", "watch")


def _verbs_in_shadow(rule: str) -> str:
    """What of a rule is left for shadow mode, which reads and does nothing else; empty: nothing. It does not ask whose
    Leases are renewed.
    """
    (every,) = re.findall(r"    verbs: \[(.*)\]\n", rule)
    return "" if "resourceNames" in rule else ", ".join(verb for verb in every.split(", ") if verb in _READ)


def shadow_rules() -> str:
    """The ClusterRole of the component for shadow mode."""
    head, _ = (MANIFESTS / "rbac.yaml").read_text().split("\n---\n", 1)

    def read(found: re.Match[str]) -> str:
        verbs = _verbs_in_shadow(found[0])
        without_why = re.sub(r"^  #.*\n", "", found[0], flags=re.MULTILINE)
        return re.sub(r"verbs: \[.*\]", f"verbs: [{verbs}]", without_why) if verbs else ""

    text = _RULE.sub(read, _without_head(head) + "\n")
    head = "# Written by .ci/chart.py: the rules of manifests/rbac.yaml, which has the reasons, without any write."
    return f"{head}\n{text}"


def _named(text: str) -> str:
    text = text.replace("namespace: gangsched-system", "namespace: {{ .Release.Namespace }}")
    text = re.sub(
        r"^(\s*(?:- )?name: )gangsched(-[a-z-]+)?$",
        lambda found: f'{found[1]}{{{{ include "gangsched.fullname" . }}}}{found[2] or ""}',
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(
        r"^( *)app\.kubernetes\.io/name: gangsched$",
        lambda found: f'{found[1]}{{{{- include "gangsched.selectorLabels" . | nindent {len(found[1])} }}}}',
        text,
        flags=re.MULTILINE,
    )
    # Labels of the object itself have more to say than those by which pods are found.
    text = re.sub(
        r"^(  labels:\n)    \{\{- include \"gangsched\.selectorLabels\"",
        r'\1    {{- include "gangsched.labels"',
        text,
        flags=re.MULTILINE,
    )
    return text.replace(
        "resourceNames: [py-gang-scheduler]", "resourceNames: [{{ .Values.config.leaderElection.resourceName }}]"
    )


def _without_head(text: str) -> str:
    """The file without the comment that stands before its first object."""
    return text[text.index("apiVersion:") :]


def template(name: str) -> str:
    """The template that is made of one file of `manifests/`."""
    text = (MANIFESTS / name).read_text()
    if name == "rbac.yaml":
        head, rest = text.split("\n---\n", 1)

        def conditional(found: re.Match[str]) -> str:
            feature = _feature(found["groups"], found["resources"])
            for_pods = _verbs_for_pods(found["groups"], found["resources"])
            (every,) = re.findall(r"    verbs: \[(.*)\]\n", found[0])
            in_shadow, rule = _verbs_in_shadow(found[0]), found[0]
            wanted = [f".Values.features.{feature}"] if feature is not None and for_pods is None else []
            wanted += ["(not .Values.rbac.podsOnly)"] if for_pods is None else []
            wanted += ["(not .Values.shadow.enabled)"] if not in_shadow else []
            fewer = ".Values.rbac.podsOnly"
            if found["resources"] == "nodes":  # where no room is held, no node is written
                fewer = f'or {fewer} (not (include "gangsched.holdsRoom" .))'
            others = {".Values.shadow.enabled": in_shadow, fewer: for_pods}
            others = {value: verbs for value, verbs in others.items() if verbs and verbs != every}
            if others:
                cases = "{{ else if ".join(f"{value} }}}}{verbs}" for value, verbs in others.items())
                rule = rule.replace(f"verbs: [{every}]", f"verbs: [{{{{ if {cases}{{{{ else }}}}{every}{{{{ end }}}}]")
            if not wanted:
                return rule
            if_all = f"and {' '.join(wanted)}" if len(wanted) > 1 else wanted[0].strip("()")
            return f"  {{{{- if {if_all} }}}}\n{rule}  {{{{- end }}}}\n"

        # What is written in the scheduler's own namespace: Lease and ConfigMaps.
        bound, own = rest.split("\n---\n", 1)
        own = f"{{{{- if not .Values.shadow.enabled }}}}\n---\n{own.rstrip()}\n{{{{- end }}}}"
        text = f"{_RULE.sub(conditional, head + chr(10))}---\n{bound}\n{own}"
    text = _named(_without_head(text))
    if name == "rbac.yaml":
        text = re.sub(
            r'^(  - kind: ServiceAccount\n    name: ){{ include "gangsched.fullname" . }}$',
            r'\1{{ include "gangsched.serviceAccountName" . }}',
            text,
            flags=re.MULTILINE,
        )
    if name == "serviceaccount.yaml":
        text = text.replace('{{ include "gangsched.fullname" . }}', '{{ include "gangsched.serviceAccountName" . }}')
    if name.startswith("crd-"):
        text = text.replace("  annotations:\n", "  annotations:\n    helm.sh/resource-policy: keep\n", 1)
    wanted = f".Values.{FILES[name]}"
    wanted = f"and {wanted}" if " " in wanted else wanted
    return f"{HEADER % name}{{{{- if {wanted} }}}}\n{text.rstrip()}\n{{{{- end }}}}\n"


def values_schema() -> dict[Path, str]:
    """The schema of the values, with that of the configuration file under `config`. Helm reads draft 7 everywhere."""
    target = TEMPLATES.parent / "values.schema.json"
    values = json.loads(target.read_text())
    text = json.dumps(schema()["$defs"]).replace("#/$defs/", f"#/definitions/{_OF_CONFIG}")
    of_config: dict[str, Any] = {f"{_OF_CONFIG}{name}": each for name, each in json.loads(text).items()}
    whole = of_config[f"{_OF_CONFIG}Configuration"]
    whole["required"] = ["profiles", "leaderElection"]  # templates write the kind of the file, and use these two
    lease = whole["properties"]["leaderElection"].pop("$ref")
    whole["properties"]["leaderElection"] = {"allOf": [{"$ref": lease}, {"required": ["resourceName"]}]}
    own = {name: each for name, each in values["definitions"].items() if not name.startswith(_OF_CONFIG)}
    values["definitions"] = own | of_config
    values["properties"]["config"] = {"$ref": f"#/definitions/{_OF_CONFIG}Configuration"}
    return {target: json.dumps(values, indent=1) + "\n"}


_OF_CONFIG = "config."


def versioned() -> dict[Path, str]:
    """The files that name the version of the package, as they are to be."""
    found = re.search(r'^__version__ = "([^"]+)"$', (ROOT / "gangsched" / "__init__.py").read_text(), re.MULTILINE)
    assert found, "gangsched/__init__.py has the version"
    chart, kustomization = TEMPLATES.parent / "Chart.yaml", MANIFESTS / "kustomization.yaml"
    text = re.sub(r"^version: .*$", f"version: {found[1]}", chart.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^appVersion: .*$", f'appVersion: "{found[1]}"', text, flags=re.MULTILINE)
    tagged = re.sub(r'newTag: ".*"$', f'newTag: "{found[1]}"', kustomization.read_text(), flags=re.MULTILINE)
    return {chart: text, kustomization: tagged}


def main() -> int:
    """Write the files, or with --check say which are not up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file would change")
    options = parser.parse_args()
    stale: list[Path] = []
    shadow = {MANIFESTS / "components" / "shadow" / "rbac.yaml": shadow_rules()}
    for target, text in (
        {TEMPLATES / name: template(name) for name in FILES} | shadow | versioned() | values_schema()
    ).items():
        if target.exists() and target.read_text() == text:
            continue
        stale.append(target)
        if not options.check:
            target.write_text(text)
    for target in stale:
        print(f"{target.relative_to(ROOT)}: {'is out of date: make chart' if options.check else 'written'}")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
