"""From the arguments of ``-f`` to typed objects: files, lists unpacked, kinds recognised, types and names checked."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from gangsched.cluster.kinds import KINDS, POD_SPEC_KEYS, SPEC_KEYS, TEMPLATED, UNREAD, Kind
from gangsched.documents import Document, DocumentError, documents
from gangsched.messages import invalid
from gangsched.messages.text import and_nearest
from gangsched.model import wire
from gangsched.model.errors import FieldError, InputError, Place, Problem

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
#: More than this in one source is refused before it is parsed (a listing of 50,000 pods is about 200 MB).
MAX_BYTES = 512 * 1024 * 1024


#: How a snapshot of a cluster begins, and ends.
SNAPSHOT = ('{"apiVersion": "v1", "kind": "List", "metadata": {"name": "gangsched-snapshot"}, "items": [\n', "\n]}\n")


class Source(NamedTuple):
    """One text of the input; ``name`` is how messages call it."""

    name: str
    text: str

    @property
    def is_snapshot(self) -> bool:
        """True if ``gangsched snapshot`` has written it: all that there is of the cluster is in it."""
        return self.text.startswith(SNAPSHOT[0])


def read(sources: Sequence[str | Source], stdin: IO[bytes] | IO[str] | None) -> Iterator[Source]:
    """Every text that the sources name, a file that is named twice once. Raises :class:`InputError`."""
    seen: set[Path] = set()
    for source in sources:
        if isinstance(source, Source):
            yield source
            continue
        if source == STDIN:
            if Path(STDIN) not in seen:
                seen.add(Path(STDIN))
                yield Source("stdin", _decoded("stdin", _read_stdin(stdin)))
            continue
        for path in _files(source):
            real = path.resolve()
            if real not in seen:
                seen.add(real)
                yield Source(str(path), text_of(path))


def text_of(path: Path) -> str:
    """The text of a file. Raises :class:`InputError`."""
    return _decoded(str(path), _read_file(path))


def parsed(source: Source) -> Iterator[Document]:
    """The documents of a text. Raises :class:`InputError`."""
    try:
        yield from documents(source.text, source.name)
    except DocumentError as error:
        raise InputError(Place(source.name, error.document), "", str(error)) from None


def _files(source: str) -> list[Path]:
    path = Path(source)
    if not path.is_dir():
        return [path]
    found = [Path(folder, name) for folder, name in _walk(path, source) if name.endswith(SUFFIXES)]
    # A kustomization describes files, it is no object; kubectl refuses it, but it lies in many folders.
    found = [f for f in found if f.stem != "kustomization"]
    if not found:
        raise InputError(Place(source), "", invalid.EMPTY_FOLDER)
    return sorted(found)


def _walk(path: Path, source: str) -> Iterator[tuple[str, str]]:
    def refuse(error: OSError) -> None:
        raise InputError(Place(error.filename or source), "", _reason(error))

    for folder, folders, names in os.walk(path, onerror=refuse):
        folders[:] = [f for f in folders if not f.startswith(".")]
        yield from ((folder, n) for n in names if not n.startswith("."))


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(Place(str(path)), "", _reason(error)) from None
    except ValueError as error:  # a NUL byte in the name
        raise InputError(Place(str(path)), "", str(error)) from None


def _read_stdin(stdin: IO[bytes] | IO[str] | None) -> bytes:
    stream = sys.stdin.buffer if stdin is None else stdin
    data = stream.read(MAX_BYTES + 1)
    return data.encode() if isinstance(data, str) else data


def _decoded(name: str, data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise InputError(Place(name), "", invalid.too_large(most=MAX_BYTES // 2**20))
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(Place(name), "", invalid.not_utf8(reason=error.reason, start=error.start)) from None


def _reason(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return invalid.NO_SUCH_FILE
        case PermissionError():
            return invalid.PERMISSION_DENIED
    return invalid.cannot_be_read(why=error.strerror or error)


#: Of generateName, as the API server cuts it.
_LONGEST_PREFIX = 58
_DNS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_TYPE_ERROR = re.compile(r"Expected `(?P<want>[^`]*)`, got `(?P<got>[^`]*)`(?: - at `(?P<path>[^`]*)`)?")
_PATH_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")
_TEXT_MAPS = frozenset(("labels", "annotations", "nodeSelector", "matchLabels"))


class Defaults(NamedTuple):
    """Defaults of objects: the namespace, and the number in a generated name."""

    namespace: str
    numbers: Iterator[int]


class Found(NamedTuple):
    """One object of the input that is read."""

    place: Place
    kind: Kind
    object: wire.Object


def objects(
    document: Document, warnings: list[Problem], refused: list[InputError], defaults: Defaults
) -> Iterator[Found]:
    """The objects of one document that are read; what is not read is put into ``warnings``, and what cannot be
    understood into ``refused``. ``defaults`` is what they get without saying it.

    Raises :class:`InputError` for anything that is no Kubernetes object.
    """
    for label, raw in _unpacked(document, document.value, ""):
        try:
            found = _object(document, label, raw, warnings, defaults)
        except InputError as error:
            refused.append(error)
            continue
        if found is not None:
            yield found


def _unpacked(document: Document, raw: Any, label: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object, or the items of a list (also of typed ones such as PodList), with a name for unnamed items."""
    where = f"{label}: " if label else ""
    if not isinstance(raw, dict):
        text = invalid.no_object(where=where, found=invalid.TYPES[_type_of(raw)])
        raise InputError(Place(document.file, document.number), "", text)
    kind, items = raw.get("kind"), raw.get("items")
    if not (isinstance(kind, str) and (kind == "List" or (kind.endswith("List") and "items" in raw))):
        yield label, raw
        return
    if items is not None and not isinstance(items, list):
        place = Place(document.file, document.number, kind)
        raise InputError(place, "items", invalid.not_a_list(found=invalid.TYPES[_type_of(items)]))
    for i, item in enumerate(items or ()):
        typed = item
        if kind != "List" and isinstance(item, dict):
            # kubectl prints typed lists without kind and apiVersion on the items.
            typed = {"kind": kind.removesuffix("List"), "apiVersion": raw.get("apiVersion"), **item}
        yield from _unpacked(document, typed, f"{label + '.' if label else ''}items[{i}]")


def _object(
    document: Document, label: str, raw: dict[str, Any], warnings: list[Problem], defaults: Defaults
) -> Found | None:
    kind_name, api_version = raw.get("kind"), raw.get("apiVersion")
    place = Place(document.file, document.number, _title(kind_name, raw, label))
    for field, value in (("kind", kind_name), ("apiVersion", api_version)):
        if not isinstance(value, str) or not value:
            problem = "is missing" if value is None or value == "" else invalid.not_text(value=value)
            raise InputError(place, field, problem)
    assert isinstance(kind_name, str)
    assert isinstance(api_version, str)
    group, _, version = api_version.rpartition("/")
    kind = KINDS.get((kind_name, group))
    if kind is None:
        warnings.append(_unread(place, kind_name, api_version, raw))
        return None
    if version not in kind.versions:
        text = invalid.version_not_read(api_version=api_version, api_versions=kind.api_versions)
        warnings.append(place.warning("apiVersion", text))
        return None
    place = Place(place.file, place.document, _title(kind_name, _with_namespace(raw, kind, defaults.namespace), label))
    with place.named():
        found = _converted(kind, raw)
        meta = found.metadata
        if not meta.name and meta.generate_name:  # the same name every time, of the length that the API server makes
            meta.name = f"{meta.generate_name[:_LONGEST_PREFIX]}{next(defaults.numbers):05d}"
        meta.namespace = (meta.namespace or defaults.namespace) if kind.namespaced else ""
        _check_metadata(meta)
    warnings.extend(_misspelt(place, kind, raw))
    return Found(place, kind, found)


def _converted(kind: Kind, raw: dict[str, Any]) -> wire.Object:
    try:
        # A null where it may stand means "not given" already; elsewhere it is taken away, which costs a copy.
        return msgspec.convert(raw, kind.type)
    except msgspec.ValidationError:
        raw = _without_nulls(raw)
    try:
        return msgspec.convert(raw, kind.type)
    except msgspec.ValidationError as error:
        raise _type_error(raw, str(error)) from None


def _title(kind: object, raw: dict[str, Any], label: str) -> str:
    """``Pod default/lp-pod-1``, as far as it is known; empty if nothing is."""
    meta = raw.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = meta.get("name") or label
    if meta.get("namespace") and name:
        name = f"{meta['namespace']}/{name}"
    return " ".join(str(part) for part in (kind if isinstance(kind, str) else "", name) if part)


def _with_namespace(raw: dict[str, Any], kind: Kind, namespace: str) -> dict[str, Any]:
    meta = raw.get("metadata")
    if not kind.namespaced or not isinstance(meta, dict) or meta.get("namespace"):
        return raw
    return {"metadata": {**meta, "namespace": namespace}}


def _unread(place: Place, kind: str, api_version: str, raw: dict[str, Any]) -> Problem:
    if kind == "GangSchedulerConfiguration":
        return place.warning("kind", invalid.CONFIGURATION)
    if kind in TEMPLATED:
        return place.warning("kind", invalid.kind_ignored(kind=kind))
    if kind in UNREAD:
        return place.warning("kind", invalid.NOT_READ)
    if any(known == kind for known, _ in KINDS):
        apis = " or ".join(k.api_versions for k in KINDS.values() if k.name == kind)
        return place.warning("apiVersion", invalid.kind_not_known(kind=kind, api_version=api_version, apis=apis))
    group = api_version.rpartition("/")[0]
    makes_pods = makes_its_own_pods(group, raw)
    near = and_nearest(kind, {k for k, of in KINDS if of == group or not makes_pods})
    hint = near or (invalid.AND_USE_PODS if makes_pods else "")
    return place.warning("kind", invalid.unknown_kind(kind=kind, hint=hint))


#: Fields of specs of which operators make pods; not all of them write a template of pods.
_OF_PODS = frozenset(("containers", "container", "image", "replicas", "podTemplate"))


def makes_its_own_pods(group: str, raw: Any) -> bool:
    """Return True if the controller of an object of an unknown kind seems to make pods of it."""
    custom = "." in group and not group.endswith(".k8s.io")
    return _mentions(raw, _OF_PODS if custom else frozenset(("containers",)))


def _mentions(raw: Any, fields: frozenset[str]) -> bool:
    if isinstance(raw, list):
        return any(_mentions(each, fields) for each in raw)
    return isinstance(raw, dict) and (
        not fields.isdisjoint(raw) or any(_mentions(each, fields) for each in raw.values())
    )


def _without_nulls(raw: Any) -> Any:
    """The API takes null for "not given", except as a value of a map from text to text."""
    if isinstance(raw, dict):
        return {
            key: value if key in _TEXT_MAPS else _without_nulls(value)
            for key, value in raw.items()
            if value is not None
        }
    if isinstance(raw, list):
        return [_without_nulls(v) for v in raw]
    return raw


def _check_metadata(meta: wire.ObjectMeta) -> None:
    if not meta.name:
        raise FieldError("metadata.name", "is missing")
    for field, value in (("metadata.name", meta.name), ("metadata.namespace", meta.namespace)):
        if value and not _DNS_NAME.fullmatch(value):
            text = invalid.not_a_name(value=value)
            raise FieldError(field, text)
    for key, value in (meta.labels or {}).items():
        if not _LABEL_VALUE.fullmatch(value):
            text = invalid.not_a_label_value(value=value)
            raise FieldError(f"metadata.labels[{key}]", text)


def _misspelt(place: Place, kind: Kind, raw: dict[str, Any]) -> Iterator[Problem]:
    spec = raw.get("spec") or {}
    known = SPEC_KEYS.get((kind.name, kind.group))
    if known is not None:
        for key, value in spec.items():
            if key not in known and value is not None:
                yield place.warning(f"spec.{key}", invalid.not_a_field(kind=kind.name, hint=and_nearest(key, known)))
    path = "spec"
    if kind.name == "Job":
        spec, path = (spec.get("template") or {}).get("spec") or {}, "spec.template.spec"
    if kind.name in ("Job", "Pod"):
        for key, value in spec.items():
            # New versions add fields, so only a key that looks like a known one is worth a word.
            if key not in POD_SPEC_KEYS and value is not None and (near := and_nearest(key, POD_SPEC_KEYS)):
                yield place.warning(f"{path}.{key}", invalid.not_a_field_of_pods(hint=near))


# --------------------------------------------------------------------------------------------------------- wrong types


def _type_error(raw: dict[str, Any], text: str) -> FieldError:
    """The decoder's error in the words and paths of manifests."""
    match = _TYPE_ERROR.fullmatch(text)
    if match is None:
        return FieldError("", text)
    want, got = match["want"].removesuffix(" | null"), match["got"]
    path, value = _resolve_path(raw, match["path"] or "$", got)
    wanted = invalid.TYPES.get(want, want)
    if got in ("array", "object", "null"):
        return FieldError(path, invalid.is_not(found=invalid.TYPES[got], wanted=wanted))
    shown = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else repr(value)
    hint = invalid.AND_QUOTES if want == "str" else ""
    return FieldError(path, invalid.not_that(shown=shown, wanted=wanted, hint=hint))


def _resolve_path(raw: Any, path: str, got: str) -> tuple[str, Any]:
    """The readable path and the value there. ``[...]`` is some key of a mapping: the first with which the path leads to
    a value of that type. As far as it leads anywhere, where it does not lead to one.
    """
    steps = [(step[1], step[2], step[3]) for step in _PATH_STEP.finditer(path)]
    out, value, _ = _along(raw, steps, got)
    return out.removeprefix("."), value


def _along(value: Any, steps: Sequence[tuple[str | None, str | None, str | None]], got: str) -> tuple[str, Any, bool]:
    """What is left of a path from this value on, what is there, and whether it is of that type."""
    if not steps:
        return "", value, _type_of(value) == got
    (key, index, some), rest = steps[0], steps[1:]
    if some:
        found = ("", value, False)
        for name, each in value.items() if isinstance(value, dict) else ():
            shown = f".{name}" if re.fullmatch(r"[A-Za-z0-9_-]+", str(name)) else f"[{name}]"
            more, there, fits = _along(each, rest, got)
            if fits:
                return shown + more, there, True
            found = found if found[0] else (shown + more, there, False)
        return found
    if index is not None:
        inside = isinstance(value, list) and int(index) < len(value)
        shown, there = f"[{index}]", value[int(index)] if inside else None
    else:
        shown, there = f".{key}", value.get(key) if isinstance(value, dict) else None
    more, there, fits = _along(there, rest, got)
    return shown + more, there, fits


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case dict():
            return "object"
        case list():
            return "array"
    return type(value).__name__
