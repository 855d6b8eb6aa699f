"""The release: nothing that signs or builds it runs unpinned, and the bill of materials is the lock file."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.manifests.shipped import MANIFESTS, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMMIT = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
REQUIREMENT = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """The script that builds a release."""
    spec = importlib.util.spec_from_file_location("release_script", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_commit(workflow: Path) -> None:
    """With its version beside it: tags and branches can be moved by the owner of an action."""
    text = workflow.read_text()
    used = [match[1] for match in re.finditer(r"^\s*(?:- )?uses: (.+)$", text, re.MULTILINE)]
    assert len(used) == text.count("uses:")
    assert len(used) > 5
    assert [each for each in used if not COMMIT.fullmatch(each)] == []


def test_one_action_has_one_version() -> None:
    """No workflow is left behind when an action is renewed."""
    used = {match for path in WORKFLOWS for match in re.findall(r"uses: (\S+)@(\S+)", path.read_text())}
    assert len({name for name, _ in used}) == len(used)


def test_jobs_that_sign_install_tools_by_hash_alone(release: ModuleType) -> None:
    """Neither the script nor a job with an identity fetches a Python tool that no lock file has."""
    script = (ROOT / ".ci" / "release.py").read_text()
    assert "tool" not in re.findall(r'run\(UV, "(\w+)"', script)
    for install in re.findall(r'run\(UV, "pip", "install"[^\n]*', script):
        assert "--require-hashes" in install or "--no-deps" in install
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    for job in jobs.values():
        steps = " ".join(step.get("run", "") for step in job["steps"])
        assert not re.search(r"\b(pip|pipx|uvx|uv (?!publish)|npx|curl|wget)\b", steps)


def test_programs_of_a_release_are_built_from_modules_with_hashes(release: ModuleType) -> None:
    """Go builds them with `-mod=readonly`: a module that go.sum lacks, or has with another hash, is an error."""
    script = (ROOT / ".ci" / "release.py").read_text()
    assert '"-mod=readonly"' in script
    assert '"install", "-tags' not in script
    assert "shutil.which" not in script
    for package in (release.HELM, release.PROMTOOL):
        module = ROOT / ".ci" / "go" / package.rpartition("/")[2]
        assert f"tool {package}\n" in (module / "go.mod").read_text()
        named = re.findall(r"^\s(\S+) (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
        hashes = {tuple(line.split()[:2]) for line in (module / "go.sum").read_text().splitlines()}
        assert len(named) > 20
        assert {(name, f"{version}/go.mod") for name, version in named} <= hashes
    assert "--hash=sha256:" in release.GO.read_text()


def test_the_release_uses_no_action_that_fetches_a_program_by_its_version() -> None:
    """Neither a builder image, nor an emulator, nor a scanner: a new action is looked at before it is listed here."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert set(re.findall(r"uses: (\S+)@", text)) == {
        "actions/attest-build-provenance",
        "actions/checkout",
        "actions/download-artifact",
        "actions/upload-artifact",
        "docker/login-action",
        "sigstore/cosign-installer",  # it has the hash of the cosign that it installs
    }
    assert "docker build --provenance=false --sbom=false" in text
    assert "# syntax" not in (MANIFESTS / "Dockerfile").read_text()


def test_jobs_of_the_release_wait_for_what_they_use() -> None:
    """An output of another job, and a file that it has uploaded, are there when a job begins."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    uploaded = {
        step["with"]["name"].partition("-")[0]: name
        for name, job in jobs.items()
        for step in job["steps"]
        if "upload-artifact" in step.get("uses", "")
    }
    assert set(uploaded) == {"dist", "tools", "digest"}
    for name, job in jobs.items():
        needed = {job.get("needs", ())} if isinstance(job.get("needs"), str) else set(job.get("needs", ()))
        assert set(re.findall(r"needs\.(\w+)\.", json.dumps(job))) <= needed, name
        for step in job["steps"]:
            if "download-artifact" in step.get("uses", ""):
                artifact = (step["with"].get("name") or step["with"]["pattern"]).partition("-")[0]
                assert uploaded[artifact] in needed, (name, artifact)


def test_base_image_is_pinned_by_digest() -> None:
    """The release builds on what the repository names, and on nothing that a workflow finds out."""
    text = (MANIFESTS / "Dockerfile").read_text()
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.12-slim@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    assert "PYTHON_IMAGE" not in (ROOT / ".github" / "workflows" / "release.yml").read_text()


def test_lock_with_tracing_has_the_other_lock_in_it() -> None:
    """Tracing adds packages, and changes no version."""
    plain, more = (
        dict(REQUIREMENT.findall((ROOT / name).read_text())) for name in ("requirements.lock", "requirements-otel.lock")
    )
    assert plain.items() < more.items()
    assert "opentelemetry-exporter-otlp-proto-http" in more
    assert all(
        "--hash=sha256:" in entry for entry in re.split(r"\n(?=\w)", (ROOT / "requirements-otel.lock").read_text())[1:]
    )


def test_bill_of_materials_is_the_lock_file(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each package with its version and its hashes, as CycloneDX."""
    monkeypatch.setattr(release, "DIST", tmp_path)
    said = release.bill_of_materials("1.2.3")
    bom = json.loads((tmp_path / "gangsched-1.2.3.cdx.json").read_text())
    lock = (ROOT / "requirements.lock").read_text()
    assert (bom["bomFormat"], bom["specVersion"], bom["metadata"]["component"]["version"]) == (
        "CycloneDX",
        "1.6",
        "1.2.3",
    )
    found = bom["components"]
    assert sorted((each["name"], each["version"]) for each in found) == sorted(REQUIREMENT.findall(lock))
    assert f"{len(found)} packages" in said
    hashes = {h["content"] for each in found for ref in each["externalReferences"] for h in ref["hashes"]}
    assert hashes == set(re.findall(r"--hash=sha256:(\w+)", lock))
    assert "://" not in json.dumps(bom)


def test_bill_of_materials_needs_hashes(release: ModuleType) -> None:
    """A package without one is an error of the release."""
    with pytest.raises(release.ReleaseError, match="no hash for b"):
        release.locked_packages("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb==2\n")


def test_the_chart_of_a_release_links_to_its_runbooks(release: ModuleType) -> None:
    """By the repository of the workflow and the tag; a chart that is packed elsewhere has no link."""
    values = (MANIFESTS / "helm" / "gangsched" / "values.yaml").read_text()
    made = yaml.safe_load(release.with_runbooks(values, "1.2.3", {"GITHUB_REPOSITORY": "me/it"}))
    assert made["prometheusRule"]["runbookUrl"] == "https://github.com/me/it/blob/v1.2.3/docs/runbooks.md"
    assert release.with_runbooks(values, "1.2.3", {}) == values
