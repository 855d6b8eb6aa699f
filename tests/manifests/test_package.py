"""The wheel and the source distribution: what is in them, and that they are enough for a first minute."""

from __future__ import annotations

import configparser
import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hatch_build
from gangsched.cli import main as cli
from gangsched.cli.demo import STORIES
from tests.manifests.shipped import ROOT, dockerfile


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and a source distribution of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel, open."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as found:
        yield found


@pytest.fixture(scope="module")
def shell(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """An empty folder, and an environment in which the wheel's command is on the PATH, and nothing of this tree."""
    folder = tmp_path_factory.mktemp("installed")
    wheel.extractall(folder / "site")
    (folder / "bin").mkdir()
    (folder / "empty").mkdir()
    script = folder / "bin" / "gangsched"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m gangsched "$@"\n')
    script.chmod(0o755)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return folder / "empty", {"PATH": path, "PYTHONPATH": str(folder / "site"), "HOME": str(folder)}


def metadata_file(wheel: zipfile.ZipFile, name: str) -> str:
    """A file of the wheel's .dist-info."""
    (path,) = [each for each in wheel.namelist() if each.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_commands_of_the_wheel(wheel: zipfile.ZipFile) -> None:
    """The package's own name, so that runners of packages find it; the command; and the plug-in of kubectl."""
    found = configparser.ConfigParser()
    found.read_string(metadata_file(wheel, "entry_points.txt"))
    assert dict(found["console_scripts"]) == dict.fromkeys(
        ("gangsched", "kubectl-gangsched", "py-gang-scheduler"), "gangsched.cli.main:main"
    )


def test_the_description_stands_alone(wheel: zipfile.ZipFile) -> None:
    """It is the README, and no link or picture in it leads to a file beside it."""
    text = str(email.message_from_string(metadata_file(wheel, "METADATA")).get_payload())
    assert text.startswith("# py-gang-scheduler\n")
    assert "\n## Run it on a cluster\n" in text
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://git.example.org/team/sched.git", "https://git.example.org/team/sched"),
        ("https://user:secret@git.example.org:8443/team/sched", "https://git.example.org:8443/team/sched"),
        ("git@git.example.org:team/sched.git", "https://git.example.org/team/sched"),
        ("ssh://git@git.example.org:2222/team/sched", "https://git.example.org/team/sched"),
        ("/srv/git/sched", ""),
        ("../sched", ""),
        ("file:///srv/git/sched", ""),
        ("", ""),
    ],
)
def test_the_package_names_the_repository_that_it_is_from(remote: str, address: str) -> None:
    """As people open it: a path of one machine is no address, and a password is not for others."""
    assert hatch_build.page(remote) == address


def test_a_package_of_a_source_distribution_names_the_same_repository(built: Path, tmp_path: Path) -> None:
    """The distribution has no history to ask."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    assert hatch_build.source(tree) == hatch_build.source(ROOT)
    (tree / "PKG-INFO").unlink()
    assert hatch_build.source(tree) == ""
    for command in (["init", "--quiet"], ["remote", "add", "origin", "https://me:secret@git.example.org/sched.git"]):
        subprocess.run(["git", "-C", str(tree), *command], check=True)
    again = tmp_path / "again"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(again)]
    subprocess.run(build, cwd=tree, check=True, capture_output=True)
    (path,) = again.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(again, filter="data")
    (tree,) = (each for each in again.iterdir() if each.is_dir())
    assert "secret" not in (tree / "PKG-INFO").read_text()
    assert hatch_build.source(tree) == "https://git.example.org/sched"


def suggested() -> list[str]:
    """The commands that the overview and the demos suggest."""
    overview = re.findall(r"^  (gangsched .+)$", cli._overview(), re.MULTILINE)
    assert overview
    return list(dict.fromkeys([*overview, *(command for story in STORIES for command in story.try_next)]))


@pytest.mark.parametrize("command", suggested())
def test_what_is_suggested_works_from_the_wheel(command: str, shell: tuple[Path, dict[str, str]]) -> None:
    """In an empty folder, with the wheel alone."""
    folder, environment = shell
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_wheel_is_what_runs(shell: tuple[Path, dict[str, str]]) -> None:
    """The environment of these tests does not find this tree."""
    folder, environment = shell
    code = "import gangsched; print(gangsched.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], check=True, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert Path(done.stdout.strip()).is_relative_to(environment["PYTHONPATH"])


def test_the_source_distribution_builds_the_image_and_holds_the_docs(built: Path) -> None:
    """All that the Dockerfile copies and the README links to is in it."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = {str(parent) for name in names for parent in Path(name).parents}
    copied = [
        source
        for instruction, value in dockerfile()
        if instruction == "COPY" and not value.startswith("--from")
        for source in value.split()[:-1]
    ]
    linked = re.findall(r"\]\((?!https://|#)([^)#]+)", (ROOT / "README.md").read_text())
    wanted = {each.rstrip("*/") for each in [*copied, *linked, "Makefile", ".ci/bootstrap.py"]}
    assert wanted - names - folders == set()
