"""Where manifests come from and how their text is read: nothing in it can crash or steer the reader."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cluster.manifests import load
from gangsched.core.events import records
from gangsched.documents import MAX_ALIASED_VALUES
from gangsched.model.errors import InputError
from gangsched.model.records import Namespace, Node
from tests.cluster.manifest_texts import POD, many, obj, pod, read, refusal


def test_files_folders_and_stdin_come_in_their_order(tmp_path):
    """Sources in the order given, a folder's files sorted by path, hidden and other files left alone."""
    folder = tmp_path / "folder"
    for name in ("b.yaml", "a.json", "sub/c.yml", ".hidden.yaml", "..data/d.yaml", "notes.txt", "kustomization.yaml"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}" if name.startswith("kust") else obj("Node", "v1", path.stem.strip(".")))
    single = tmp_path / "z.yaml"
    single.write_text(obj("Node", "v1", "z"))
    loaded = load([str(single), str(folder), "-"], stdin=io.BytesIO(obj("Node", "v1", "stdin").encode()))
    assert [e.name for e in records(loaded.events, Node)] == ["z", "a", "b", "c", "stdin"]
    assert [Path(p.file).name for p in loaded.places] == ["z.yaml", "a.json", "b.yaml", "c.yml", "stdin"]


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    """A folder and a file in it may both be given."""
    (tmp_path / "a.yaml").write_text(obj("Node", "v1", "n"))
    assert len(load([str(tmp_path), str(tmp_path / "a.yaml")]).events) == 1


def test_sources_that_cannot_be_read_are_named(tmp_path):
    """A missing file, a folder without manifests and text in another encoding give one line each."""
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: caf\xe9")
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, words in ((tmp_path / "no.yaml", "no such file"), (empty, "holds no"), (latin, "not UTF-8")):
        with pytest.raises(InputError, match=words) as caught:
            load([str(source)])
        assert caught.value.problem["file"] == str(source)
        assert caught.value.problem["document"] is None


def test_a_file_without_permission_is_named(tmp_path, monkeypatch):
    """Permission is a reason like any other."""

    def refuse(*_args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"a\.yaml: may not be read"):
        load([str(tmp_path / "a.yaml")])


def test_utf_16_and_byte_order_marks_are_read(tmp_path):
    """What editors on Windows write is fine."""
    (tmp_path / "a.yaml").write_text(obj("Node", "v1", "a"), encoding="utf-16")
    (tmp_path / "b.yaml").write_text(obj("Node", "v1", "b"), encoding="utf-8-sig")
    assert len(load([str(tmp_path)]).events) == 2


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: [1\nb: 2", "line 2, column 2: did not find"),
        ("kind: Pod\n\tx: 1", "line 2, column 1: found a tab character"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' is given twice"),
        ("a: b: c", "line 1, column 5"),
        ("x: 1\na: \x07", "line 2, column 4: the character U+0007"),
        ("a: *b", "line 1, column 4: the alias *b names nothing"),
        ("a: &b [*b]", "line 1, column 8: the alias *b stands inside"),
        ("a: !!python/object/apply:os.system [x]", "line 1, column 4: the tag !!python/object/apply:os.system"),
        ("a: !!timestamp 2026-01-01", "the tag !!timestamp"),
        ("{{ .Values.name }}: 1", "line 1, column 1: a mapping key must be text"),
        ("a: !!int x", "'x' does not fit its tag !!int"),
        ("<<: 1", "<< merges mappings"),
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": "\\uDFff"}', "surrogate"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text, where):
    """Line and column of what cannot be read, and neither a crash nor a called function."""
    error = refusal(text)
    assert where in str(error)
    assert error.problem["document"] == 1


def test_malformed_json_names_its_place(tmp_path):
    """A .json file is read as JSON, and its errors are those of JSON."""
    path = tmp_path / "a.json"
    path.write_text('{"kind": "Pod",\n "x": }')
    with pytest.raises(InputError, match=r"a\.json: document 1: line 2, column 7: is not JSON"):
        load([str(path)])


def test_the_document_is_counted():
    """Empty documents count, so that the number is the one a person finds."""
    error = refusal("---\n---\n# nothing\n---\nkind: [")
    assert error.problem["document"] == 3


def test_aliases_cannot_multiply_without_end():
    """A few lines that stand for billions of values are refused before they are made."""
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"{c}: &{c} [{', '.join(['*' + p] * 10)}]" for p, c in zip("abcdefghi", "bcdefghij", strict=True)]
    assert f"more than {MAX_ALIASED_VALUES}" in str(refusal("\n".join(lines)))


def test_anchors_and_merge_keys_are_understood():
    """What people use anchors for works: repeating a template, with own keys winning over merged ones."""
    text = many(
        POD % ("a", "&s {nodeName: n1, schedulerName: me}"),
        """
apiVersion: v1
kind: Pod
metadata: &m {name: b, labels: {app: x}}
spec:
  nodeSelector: &l {zone: a, rack: r}
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
  containers:
  - resources: &r {requests: {cpu: 1}}
  - resources: *r
  - resources: {<<: *r, limits: {memory: 1k}}
""",
    )
    assert dict(pod(text, "b").shape.requests) == {"cpu": 3000, "memory": 1000}


@pytest.mark.parametrize(
    ("plain", "label"),
    [
        ("2026-01-31", "2026-01-31"),
        ("1e3", "1e3"),
        ("08", "08"),
        ("v1.10", "v1.10"),
        ("'1.10'", "1.10"),
        ("!!str 5", "5"),
    ],
)
def test_text_stays_as_it_was_written(plain, label):
    """Dates and look-alikes of numbers are text, as in the API."""
    text = f"{{apiVersion: v1, kind: Namespace, metadata: {{name: a, labels: {{k: {plain}}}}}}}"
    assert next(e.labels["k"] for e in records(read(text).events, Namespace)) == label


@pytest.mark.parametrize(("plain", "shown"), [("1.10", "1.1"), ("yes", "true"), ("5", "5"), ("0x10", "16")])
def test_numbers_and_truth_values_are_no_labels(plain, shown):
    """The API server refuses them, and so does the loader, with the cure."""
    error = refusal(f"{{apiVersion: v1, kind: Namespace, metadata: {{name: a, labels: {{ok: x, k: {plain}}}}}}}")
    assert (error.problem["field"], error.problem["message"]) == (
        "metadata.labels.k",
        f"{shown} is not text; put it in quotes",
    )


@given(st.text(alphabet=st.sampled_from("ab:{}[]-&*!<|>#'\"%@`,? \n\t\\0\u2028\x85"), max_size=40))
def test_any_text_is_read_or_refused(text):
    """Whatever the text, there are events or one InputError."""
    try:
        read(text)
    except InputError as error:
        assert str(error).startswith("stdin")  # noqa: PT017 - both ends are right, a crash is not
