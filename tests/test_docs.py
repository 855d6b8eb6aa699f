"""What the documentation says is so: links, files, commands, captured output, tables and examples."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangsched.cli import main as cli
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, Decision, Unschedulable
from gangsched.core.framework.registry import Plugin, PluginSet
from gangsched.core.lifecycle import table as lifecycle
from gangsched.model.dialects import coscheduling, koordinator, kueue, upstream
from tests.builders import OURS, gang, node, pod
from tests.core import harness
from tests.core.harness import Built, plan
from tests.pages import PAGES, ROOT, between, rows, text_of, without_code
from tests.settings import settings

page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


# --------------------------------------------------------------------------------------------------------------- links


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ +(.+)$", without_code(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@page
def test_links_lead_somewhere(path: Path) -> None:
    """Each link to a file of the repository has a file, and each anchor a heading."""
    broken = []
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", without_code(path.read_text())):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@page
def test_named_files_exist(path: Path) -> None:
    """Each path of the repository that is set as code is that of a file or folder."""
    layers = "model|core|cluster|runtime|controllers|cli"
    named = re.findall(rf"`((?:gangsched|tests|docs|examples|manifests|{layers})/[\w./-]*)`", path.read_text())
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "gangsched" / name).exists()]
    assert missing == []


DOCS = ROOT / "docs"
#: A page for one task is read in five minutes.
MOST_WORDS = 1200


def test_the_index_leads_to_every_page() -> None:
    """No page of docs/ is left out of docs/README.md, and the README leads there."""
    text = text_of("docs/README.md")
    pages = [path.relative_to(DOCS) for path in PAGES if path.is_relative_to(DOCS) and path != DOCS / "README.md"]
    assert [str(path) for path in pages if f"({path})" not in text] == []
    assert "(docs/README.md)" in text_of("README.md")


def is_word(text: str) -> bool:
    """Whether somebody reads it: tables are drawn with what is none."""
    return any(map(str.isalnum, text))


def test_pages_for_tasks_are_short() -> None:
    """What is longer belongs to the reference or to the internals."""
    long = {"CHANGELOG.md", "reference", "internals"}
    tasks = [path for path in (*PAGES, ROOT / "SECURITY.md") if not long & {path.name, path.parent.name}]
    counts = {str(path.relative_to(ROOT)): sum(map(is_word, path.read_text().split())) for path in tasks}
    assert {name: count for name, count in counts.items() if count > MOST_WORDS} == {}
    assert len(counts) > 8


# ------------------------------------------------------------------------------------------------------------ commands


def commands(path: Path) -> Iterator[list[str]]:
    """The words of every command in the ``console`` blocks of a page, pipes taken apart, redirections left out."""
    for block in re.findall(r"^```console\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        for line in re.findall(r"^\$ (.+)$", block, re.MULTILINE):
            for part in line.split(" | "):
                yield shlex.split(part.partition(" > ")[0])


ALL_COMMANDS = [(str(path.relative_to(ROOT)), words) for path in PAGES for words in commands(path)]


def named(program: str) -> list[object]:
    """Parameters: the documented commands of one program."""
    found = [(name, words) for name, words in ALL_COMMANDS if Path(words[0]).name == program]
    return [pytest.param(words, id=f"{name}: {' '.join(words)}"[:120]) for name, words in found]


@pytest.mark.parametrize("words", named("gangsched"))
def test_documented_commands_are_understood(words: list[str]) -> None:
    """Each `gangsched` command in the documentation has a sub-command, options and files that exist."""
    if len(words) == 2 and words[1] in ("--help", "version"):
        return
    (command,) = [c for c in cli.COMMANDS if c.name == words[1] and importlib.util.find_spec(c.module)]
    parser = argparse.ArgumentParser(prog=f"gangsched {command.name}", allow_abbrev=False)
    importlib.import_module(command.module).add_arguments(parser)
    given = parser.parse_args(words[2:])  # exits when it does not understand
    files = [name for name in (getattr(given, "sources", None) or ()) if name.startswith("examples/")]
    assert [name for name in files if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("words", named("make"))
def test_documented_make_targets_exist(words: list[str]) -> None:
    """Each `make` target in the documentation is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert {word for word in words[1:] if "=" not in word} <= targets


def test_documented_modules_exist() -> None:
    """Each `python -m` in the documentation names a module that there is."""
    modules = {name for path in PAGES for name in re.findall(r"python -m ([\w.]+)", path.read_text())}
    assert {name for name in modules if importlib.util.find_spec(name) is None} == set()
    assert "tests.controlplane" in modules


def test_modules_that_docstrings_name_exist() -> None:
    """By their full name, or by one that begins with a dot and is that of a module beside it."""
    named = [
        (path, f"{'.'.join(path.parent.relative_to(ROOT).parts)}{name}" if name.startswith(".") else name)
        for path in sorted((ROOT / "gangsched").rglob("*.py"))
        for name in re.findall(r":mod:`([\w.]+)`", path.read_text())
    ]
    assert named
    assert [f"{path.name}: {name}" for path, name in named if importlib.util.find_spec(name) is None] == []


def test_documented_tests_exist() -> None:
    """Each test that the documentation runs by name is there."""
    wanted = re.findall(r"(tests/[\w/]+\.py)::(\w+)", text_of("docs/internals/developing.md"))
    assert wanted
    assert [name for file, name in wanted if f"def {name}(" not in text_of(file)] == []


# -------------------------------------------------------------------------------------------------- tables and examples


def test_the_life_cycle_is_current() -> None:
    """life-cycle.md has exactly the transitions of the table in the code."""
    assert between(text_of("docs/internals/life-cycle.md"), "life cycle") == lifecycle.as_markdown()


@pytest.mark.parametrize("mode", ["off", "minimal", "atomic", "elastic"])
def test_the_table_of_gang_modes_is_true(mode: str) -> None:
    """So many pods leave in each mode as preemption.md says."""
    header, *lines = rows(between(text_of("docs/reference/preemption.md"), "gang modes"))
    assert len(lines) == 3
    for line in lines:
        needed, expected = int(line[0].split()[0]), int(line[header.index(mode)])
        old = [pod(f"old-{i}").cpu(1).priority(1).gang("old").on(f"n{i}") for i in range(5)]
        new = [pod(f"new-{i}").cpu(1).priority(9).gang("new") for i in range(needed)]
        nodes = [node(f"n{i}").cpu(1) for i in range(5)]
        found = plan(*nodes, gang("old").min(3), *old, gang("new").min(needed), *new, gang_mode=mode)["d/new"]
        assert (found.outcome, len(found.victims)) == (PREEMPT, expected)


def test_settings_in_the_text_exist() -> None:
    """What reads like a setting of the configuration file is one."""
    known = {setting.path for setting in settings()}
    sections = {path.partition(".")[0] for path in known}
    used = {
        name
        for path in PAGES
        for name in re.findall(r"`(\w+\.[a-z]\w+)[:`]", path.read_text())
        if name.partition(".")[0] in sections and not name.endswith(".py")
    }
    assert "preemption.gangMode" in used
    assert used - known == set()


def test_all_gang_apis_are_named() -> None:
    """The README says for each gang API which versions are read and how a pod names its gang."""
    text = text_of("README.md")
    keys = [koordinator.GROUP_LABEL, koordinator.NAME, koordinator.GROUPS, coscheduling.GROUP_LABEL, kueue.GROUP_LABEL]
    families = [koordinator.FAMILY, coscheduling.FAMILY, upstream.FAMILY]
    wanted = [*keys, *families, *upstream.VERSIONS, "spec.schedulingGroup.podGroupName"]
    assert [word for word in wanted if word not in text] == []


def test_all_marks_against_preemption_are_named() -> None:
    """preemption.md has every label and annotation by which owners exclude a pod."""
    marks = set(re.findall(r'"([a-z.]+/[a-z-]+)"', text_of("gangsched/model/preemptible.py")))
    assert marks
    text = text_of("docs/reference/preemption.md")
    assert [mark for mark in sorted(marks) if mark not in text] == []


def test_the_example_of_a_filter_works() -> None:
    """A gang is kept to two GPU pods on a node, and takes a victim when that alone stands in its way."""
    code = between(text_of("docs/internals/filters.md"), "filter example").removeprefix("```python").removesuffix("```")
    names: dict[str, Any] = {}
    exec(code, names)
    example = Plugin("FewGpuPods", filters=lambda _: (names["FewGpuPods"](),), foreign=True)
    plugins = PluginSet(filters=(*PluginSet().filters, example.name), foreign=(example,))

    def plan(*objects: Built) -> dict[str, Decision]:
        return harness.plan(*objects, profiles=((OURS, plugins),))

    nodes = [node(f"n{i}").cpu(8).gpu(8) for i in range(2)]
    members = [pod(f"m{i}").cpu(1).gpu(1).priority(9).gang("g") for i in range(3)]
    found = plan(nodes[0], gang("g").min(3), *members)["d/g"]
    assert isinstance(found, Unschedulable)
    assert (found.outcome, found.reasons[0].text) == (UNSCHEDULABLE, "node(s) had too many pods with GPUs")
    found = plan(*nodes, gang("g").min(3), *members)["d/g"]
    assert found.outcome == BIND
    assert {p.node for p in found.placements} == {"n0", "n1"}
    running = [pod(f"r{i}").cpu(1).gpu(1).priority(i).on("n0") for i in range(2)]
    found = plan(nodes[0], *running, pod("new").cpu(1).gpu(1).priority(9))["d/new"]
    assert (found.outcome, [v.name for v in found.victims]) == (PREEMPT, ["r0"])


RECIPES = re.findall(
    r"^<!-- recipe (\w+): (\d+) -->\n```yaml\n(.+?)^```$", text_of("docs/gangs.md"), re.MULTILINE | re.DOTALL
)


assert len(RECIPES) == 3


@pytest.mark.parametrize(("name", "members", "text"), RECIPES, ids=[name for name, _, _ in RECIPES])
@pytest.mark.parametrize("cpus", [1, 100])
def test_recipes_make_a_gang(
    name: str, members: str, text: str, cpus: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All pods of the recipe are one gang that starts whole, or not at all where only some would fit."""
    file = tmp_path / f"{name}.yaml"
    nodes = [
        f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{i}}}\nstatus: {{capacity: {{cpu: {size}}}}}\n"
        for i, size in enumerate((cpus, 4))
    ]
    file.write_text(text + "".join(nodes))
    assert cli.main(["plan", "-f", str(file), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["warnings"] == []
    (decision,) = answer["decisions"]
    fits = name == "jobset" or cpus == 100
    assert (decision["kind"], decision["required"]) == ("Job" if name == "owner" else "PodGroup", int(members))
    assert decision["outcome"] == ("bind" if fits else "unschedulable")
    assert len(decision["placements"]) == (int(members) if fits else 0)


BY_INIT = re.findall(
    r"^<!-- recipe by init -->\n```yaml\n(.+?)^```$", text_of("docs/gangs.md"), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("text", BY_INIT, ids=[yaml.safe_load(text)["kind"] for text in BY_INIT])
def test_recipes_for_operators_lack_nothing(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`gangsched init` adds nothing to them, and adds the same again to one from which it was taken out."""
    file = tmp_path / "job.yaml"
    plain = text.replace('gangsched.dev/gang: "true"', "{}").replace(
        "schedulerName: py-gang-scheduler", "hostPID: true"
    )
    assert plain != text
    for changed in (text, plain):
        file.write_text(changed)
        assert cli.main(["init", "-f", str(file)]) == 0
        made = yaml.safe_load(capsys.readouterr().out)
        assert (made == yaml.safe_load(text)) is (changed == text)
        assert "gangsched.dev/gang" in str(made)


def test_files_that_pages_name_exist() -> None:
    """Files and folders in code marks, from the root, below the product, or below the tests."""
    below = [ROOT, ROOT / "gangsched", ROOT / "tests"]
    ours = {each.name for folder in below for each in folder.iterdir() if each.is_dir()}
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`((?:[\w.-]+/)+(?:[\w-]+\.py)?)(?:::\w+)?`", page.read_text())
        if name.split("/")[0] in ours
    }
    assert len(named) > 100
    assert sorted((page, name) for page, name in named if not any((folder / name).exists() for folder in below)) == []


def test_few_questions_need_an_answer() -> None:
    """Names of files tell: a dozen rows say where to look for the rest."""
    section = text_of("docs/internals/architecture.md").partition("## Where to look\n")[2].partition("\n## ")[0]
    assert 1 <= len(rows(section)) <= 13
