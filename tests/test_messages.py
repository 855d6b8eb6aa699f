"""What users read stands in ``gangsched/messages``, once; elsewhere only its names are used."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangsched.messages.text import Text, pluralize
from tests.pages import ROOT

PRODUCT = ROOT / "gangsched"
MODULES = tuple(
    path.stem for path in sorted((PRODUCT / "messages").glob("*.py")) if path.stem not in ("__init__", "text")
)
#: What `explain`, `plan` and `demo` answer at length is put together from facts, in these files and nowhere else.
ANSWERS = (
    *(f"cli/{name}.py" for name in ("decisions", "demo", "explanation", "pod_explanation")),
    *(f"cli/{name}.py" for name in ("render", "render_html", "render_html_plan", "render_html_ui")),
    *(f"cli/{name}.py" for name in ("render_simulation", "render_html_table", "page")),
)
#: The errors of CEL have the words of cel-go, which people who write selectors know from the API server.
OF_THE_LANGUAGE = ("model/cel/",)
#: Documentation: of commands, settings, metrics and the table of states; words of the log; the simulated API server.
DOCUMENTATION = (
    *("cli/main.py", "cli/completion.py", "cli/inputs.py", "core/framework/registry.py", "core/lifecycle/table.py"),
    *(f"runtime/{name}.py" for name in ("memory", "metrics", "observers", "waits")),
    *("cluster/kube/dryrun.py", "cluster/sim/"),
)
#: Calls, and the attribute ``epilog``, whose texts are documentation, errors of the program or lines of the log.
NOT_FOR_USERS = {
    *("doc", "_doc", "epilog", "add_sources_argument", "add_argument", "add_parser", "ArgumentParser", "Command"),
    *("Counter", "Gauge", "Histogram", "RuntimeError", "ValueError", "TypeError", "KeyError", "AssertionError"),
    *(
        "AttributeError",
        "ConnectionError",
        "TimeoutError",
        "UnreachableError",
        "SilentError",
        "compile",
        "create_task",
        "TypeVar",
    ),
    *("log", "_reload", "put", "Documented", "in_status", "used", "ignored"),
}
WORD = re.compile(r"\(?[a-z]{2,}[,.:;)]*")


def is_sentence(text: str) -> bool:
    """Three words or fields, two of them words in lower case."""
    words = text.split()
    return len(words) >= 3 and sum(WORD.fullmatch(word) is not None for word in words) >= 2


def sentences(source: str) -> Iterator[str]:
    """Sentences in string constants, but for docstrings, annotations, what texts of others are compared with, and what
    is not for users; fields are ``…``.
    """
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    annotations = {id(a) for node in ast.walk(tree) if (a := getattr(node, "annotation", None)) is not None}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant | ast.JoinedStr) or isinstance(
            above[node], ast.JoinedStr | ast.Expr | ast.Compare
        ):
            continue
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in _parts(node))
        outer = [node, *_outwards(node, above)]
        names = {_name(each.func) for each in outer if isinstance(each, ast.Call)}
        names |= {
            t.attr
            for each in outer
            if isinstance(each, ast.Assign)
            for t in each.targets
            if isinstance(t, ast.Attribute)
        }
        if is_sentence(text) and not names & NOT_FOR_USERS and not any(id(each) in annotations for each in outer):
            yield text


def _parts(node: ast.Constant | ast.JoinedStr) -> list[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else [node]


def _outwards(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in above and not isinstance(node, ast.stmt):
        node = above[node]
        yield node


def _name(function: ast.expr) -> str:
    """``log`` for methods of loggers, else the last name."""
    if isinstance(function, ast.Attribute):
        return "log" if "log" in ast.unparse(function.value).lower() else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_users_read_nothing_that_is_not_in_the_catalogue() -> None:
    """Neither what decides and writes nor a command has a sentence for users: those are in messages."""
    found = {}
    for path in sorted(PRODUCT.rglob("*.py")):
        name = str(path.relative_to(PRODUCT))
        if not name.startswith(("messages/", *ANSWERS, *OF_THE_LANGUAGE, *DOCUMENTATION)):
            found[name] = list(sentences(path.read_text()))
    assert len(found) > 200
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('return f"{pod} waits for its volumes"', ["… waits for its volumes"]),
        ('event(about, "Normal", "Bound", "the pod is bound")', ["the pod is bound"]),
        ('_log.warning("a status could not be written")', []),
        ('def f() -> None:\n    """What this does."""', []),
        ('raise ValueError("slot 3 holds no pod")', []),
        ("waiting = causes.waits_for_volumes(names)", []),
    ],
)
def test_sentences_are_found(source: str, expected: list[str]) -> None:
    """In whatever they are given to; not docstrings, log lines and errors of the program."""
    assert list(sentences(source)) == expected


def texts() -> Iterator[tuple[str, str, Text | str]]:
    """Module, name and text of all of the catalogue."""
    for module in MODULES:
        for name, value in vars(importlib.import_module(f"gangsched.messages.{module}")).items():
            if isinstance(value, Text | str) and not name.startswith("__"):
                yield module, name, value


def uses() -> Iterator[tuple[Path, str, str, ast.Call | None]]:
    """File, module and name of each text that is used, and its call if it is called."""
    for path in sorted(PRODUCT.rglob("*.py")):
        tree = ast.parse(path.read_text())
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES:
                yield path, node.value.id, node.attr, calls.get(id(node))


def test_texts_get_their_values_by_name() -> None:
    """Each text is used, each field of a text gets its value by keyword, and the rest is plain text."""
    known = {(module, name): value for module, name, value in texts()}
    used = set()
    for path, module, name, call in uses():
        if (module, name) not in known:
            continue
        text = known[module, name]
        used.add((module, name))
        where = f"{path}:{call.lineno if call else ''}: {module}.{name}"
        if not isinstance(text, Text):
            assert call is None, where
        else:
            assert call is not None, where
            assert not call.args, f"{where} takes its values by keyword"
            assert {each.arg for each in call.keywords} == text.fields, where
    assert set(known) - used == set()


def test_no_text_stands_twice() -> None:
    """No text has a twin."""
    templates = [value.template if isinstance(value, Text) else value for _, _, value in texts()]
    assert len(templates) > 200
    assert sorted({each for each in templates if templates.count(each) > 1}) == []


def test_a_text_takes_keywords_only() -> None:
    """A field may stand twice, and the order of the values says nothing."""
    text = Text("{pod} waits; {pod!r} of {count:.1f} {{all}}")
    assert text(pod="a", count=2) == text(count=2, pod="a") == "a waits; 'a' of 2.0 {all}"


@pytest.mark.parametrize(
    ("positional", "named", "says"),
    [
        (("a", 2), {}, "positional argument"),
        (("a",), {"count": 2}, "positional argument"),
        ((), {"pod": "a"}, r"no value for \['count'\]"),
        ((), {"pod": "a", "count": 2, "node": "n"}, r"no field for \['node'\]"),
    ],
)
def test_a_text_refuses_other_values(positional: tuple[object, ...], named: dict[str, object], says: str) -> None:
    """A value without a name, a missing one and one too many are errors that name it."""
    with pytest.raises(TypeError, match=says):
        Text("{pod} waits for {count}")(*positional, **named)


@pytest.mark.parametrize(
    ("noun", "many"), [("pod", "pods"), ("PriorityClass", "PriorityClasses"), ("policy", "policies"), ("day", "days")]
)
def test_counted_nouns_have_their_plural(noun: str, many: str) -> None:
    """One is singular; none and several are plural, also of nouns that end with s or y."""
    assert [pluralize(number, noun) for number in (0, 1, 2)] == [f"0 {many}", f"1 {noun}", f"2 {many}"]
