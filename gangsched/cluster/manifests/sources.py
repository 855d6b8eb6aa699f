"""From the arguments of ``-f`` to named texts, and to the documents in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from gangsched.documents import Document, DocumentError, documents
from gangsched.messages import invalid
from gangsched.model.errors import InputError, Place

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
#: More than this in one source is refused before it is parsed (a listing of 50,000 pods is about 200 MB).
MAX_BYTES = 512 * 1024 * 1024


class Source(NamedTuple):
    """One text of the input; ``name`` is how messages call it."""

    name: str
    text: str


def read(sources: Sequence[str], stdin: IO[bytes] | IO[str] | None) -> Iterator[Source]:
    """Every text that the sources name, a file that is named twice once. Raises :class:`InputError`."""
    seen: set[Path] = set()
    for source in sources:
        if source == STDIN:
            if Path(STDIN) not in seen:
                seen.add(Path(STDIN))
                yield Source("stdin", _decoded("stdin", _read_stdin(stdin)))
            continue
        for path in _files(source):
            real = path.resolve()
            if real not in seen:
                seen.add(real)
                yield Source(str(path), _decoded(str(path), _read_file(path)))


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
        raise InputError(Place(name), "", invalid.too_large(MAX_BYTES // 2**20))
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(Place(name), "", invalid.not_utf8(error.reason, error.start)) from None


def _reason(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return invalid.NO_SUCH_FILE
        case PermissionError():
            return invalid.PERMISSION_DENIED
    return invalid.cannot_be_read(error.strerror or error)
