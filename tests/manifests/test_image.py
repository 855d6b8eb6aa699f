"""The image: what it runs as, and what its build takes from where."""

from __future__ import annotations

import json
import re
import tomllib

from tests.manifests.shipped import (
    MANIFESTS,
    ROOT,
    container,
    dockerfile,
    pod_spec,
)


def test_image_runs_as_the_user_of_the_deployment() -> None:
    """The last stage sets the numeric user and group that the Deployment asks for, and starts our command."""
    steps = dockerfile()
    last_stage = steps[max(index for index, (name, _) in enumerate(steps) if name == "FROM") :]
    (user,) = (value for name, value in last_stage if name == "USER")
    security = pod_spec()["securityContext"]
    assert user == f"{security['runAsUser']}:{security['runAsGroup']}"
    (entrypoint,) = (value for name, value in last_stage if name == "ENTRYPOINT")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    (command,) = json.loads(entrypoint)
    assert command in scripts
    assert "command" not in container()
    (exposed,) = (value for name, value in last_stage if name == "EXPOSE")
    assert int(exposed) == container()["ports"][0]["containerPort"]
    assert any(name == "ENV" and "PYTHONDONTWRITEBYTECODE=1" in value for name, value in last_stage)


def test_image_installs_nothing_without_a_hash() -> None:
    """Each `pip install` or `pip wheel` requires hashes, or can reach nothing but what this repository built."""
    commands = [
        command
        for name, value in dockerfile()
        if name == "RUN"
        for command in value.split("&&")
        if re.search(r"pip (install|wheel|download)", command)
    ]
    assert len(commands) >= 3
    for command in commands:
        from_the_lock = "--require-hashes" in command and "--only-binary=:all:" in command
        from_here = "--no-deps" in command and ("--no-index" in command or "--no-build-isolation" in command)
        assert from_the_lock or from_here, command


def test_image_has_no_installer() -> None:
    """The environment's own pip is removed at the end of the build, and that of the base image in the last stage."""
    steps = dockerfile()
    last = max(index for index, (name, _) in enumerate(steps) if name == "FROM")
    build, final = ([value for name, value in part if name == "RUN"] for part in (steps[:last], steps[last:]))
    assert "/opt/gangsched/bin/pip uninstall" in build[-1]
    assert any("pip uninstall" in each and "ensurepip" in each for each in final)


def test_image_build_takes_the_whole_build_backend_from_the_lock() -> None:
    """The list in the Dockerfile names the build backend and everything that the lock says is there because of it."""
    (script,) = (value for name, value in dockerfile() if name == "RUN" and "awk" in value)
    match = re.search(r"/\^\(([a-z|-]+)\)==/", script)
    assert match
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^([a-z0-9-]+)==.*\n((?:[ ]+.*\n)*)", lock, re.MULTILINE)
    wanted = {name for name, notes in entries if name == "hatchling" or re.search(r"#\s+(via )?hatchling\n", notes)}
    assert wanted
    assert wanted <= set(match[1].split("|"))


def test_image_build_sees_what_it_copies_and_little_else() -> None:
    """The ignore file refuses everything, then lets in exactly what the Dockerfile copies from the repository."""
    copied = {
        source.rstrip("*")
        for name, value in dockerfile()
        if name == "COPY" and not value.startswith("--from")
        for source in value.split()[:-1]
    }
    patterns = (MANIFESTS / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in patterns if line and not line.startswith("#")]
    assert patterns[0] == "*"
    assert {line[1:] for line in patterns if line.startswith("!")} == copied
