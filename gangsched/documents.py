"""Texts into documents: YAML and JSON from people one does not know, manifests and configuration alike.

YAML is read event by event with an explicit stack, because the library's loaders differ from the API's tools and are
not safe for every input. Here no tag makes an object, a timestamp stays text, a duplicate key is an error, nesting
cannot exhaust the stack, and aliases are limited.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import msgspec
import yaml

from gangsched.messages import invalid

#: Values that aliases may add to what is written out. Real manifests repeat a template or two.
MAX_ALIASED_VALUES = 1_000_000
#: Deeper than any Kubernetes object. Readers of the documents may recurse.
MAX_DEPTH = 200

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
#: The truth values of YAML 1.2; those of YAML 1.1, which the API's own tools read, are more.
_TRUTHS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_TRUTHS_1_1 = _TRUTHS | {
    form: word in {"yes", "on"}
    for word in ("yes", "on", "no", "off")
    for form in (word, word.capitalize(), word.upper())
}
_TAGGED: dict[str, type] = {_TAG + "int": int, _TAG + "float": float, _TAG + "bool": bool, _TAG + "null": type(None)}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# YAML 1.1 without its base-60 numbers, as the API's own tools read it.
_INT = re.compile(r"([-+]?)(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*\.[0-9_]*)(?:[eE][-+]?[0-9]+)?", re.ASCII)


class DocumentError(ValueError):
    """Text that cannot be read as documents. ``document`` and ``line`` count from 1 and are None where unknown;
    ``syntax`` says that it is not even YAML. ``str()`` has the place within the text and the ``message``.
    """

    def __init__(
        self, document: int | None, message: str, at: tuple[int, int] | None = None, *, syntax: bool = False
    ) -> None:
        super().__init__(invalid.at_line(line=at[0], column=at[1], message=message) if at else message)
        self.document = document
        self.line = at[0] if at else None
        self.message = message
        self.syntax = syntax


class Document(msgspec.Struct, frozen=True):
    """One document: its file, its number in the file, from 1, its value (never None), and where things stand in it."""

    file: str
    number: int
    value: Any
    first_line: int = 1
    #: By identity of a mapping or list, and key or index; empty unless :func:`located`.
    lines: Mapping[tuple[int, str | int], int] = {}

    def line(self, path: tuple[str | int, ...]) -> int:
        """The line of a value, where its key stands, or that of the nearest one above that is written down."""
        line, value = self.first_line, self.value
        for each in path:
            found = self.lines.get((id(value), each))
            if found is None:
                break
            line, value = found, value[each]
        return line


def documents(text: str, file: str) -> Iterator[Document]:
    """The documents of one text, without the empty ones. Text that begins as JSON has to be JSON in a ``*.json`` file.

    Raises :class:`DocumentError`.
    """
    if text.lstrip()[:1] in ("{", "["):
        found = _json(text, file)
        if found is not None:
            yield from found
            return
    yield from _yaml(text, _Builder(file))


def located(text: str, file: str, most_aliased: int) -> Iterator[Document]:
    """As :func:`documents`, with the lines of all values, and with the truth values of YAML 1.2, where ``off`` is text;
    aliases may add ``most_aliased`` values.
    """
    yield from _yaml(text, _Builder(file, _TRUTHS, most_aliased, {}))


# --------------------------------------------------------------------------------------------------------------- JSON


def _json(text: str, file: str) -> list[Document] | None:
    """The JSON values of the text, one after the other, or None if it may be YAML that begins with a bracket."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique, parse_int=_whole, parse_float=_fraction, parse_constant=_no_constant
    )
    position = 0
    out: list[Document] = []
    while position := _skip_space(text, position):
        number = len(out) + 1
        at = position - 1
        try:
            value, position = decoder.raw_decode(text, at)
        except _DuplicateKeyError as error:
            message = invalid.key_twice(key=error.args[0], kind="object")
            raise DocumentError(number, message) from None
        except json.JSONDecodeError as error:
            if not file.endswith(".json"):
                return None
            raise DocumentError(number, invalid.not_json(why=error.msg), (error.lineno, error.colno)) from None
        except RecursionError:
            raise DocumentError(number, invalid.NESTED_TOO_DEEPLY) from None
        if value is not None:
            out.append(Document(file, number, value))
    escaped = _SURROGATE.search(text) is not None
    for document in out:
        if _too_deep(document.value):
            raise DocumentError(document.number, invalid.NESTED_TOO_DEEPLY)
        if escaped and not _is_unicode(document.value):
            raise DocumentError(document.number, invalid.SURROGATE)
    return out


def _skip_space(text: str, position: int) -> int:
    """One more than the position of the next value; 0 at the end."""
    while position < len(text) and text[position] in " \t\r\n\ufeff":
        position += 1
    return position + 1 if position < len(text) else 0


class _DuplicateKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [key for key, _ in pairs]
        raise _DuplicateKeyError(next(key for i, key in enumerate(names) if key in names[:i]))
    return out


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(name: str) -> str:
    return name


def _fraction(text: str) -> float | str:
    """A number with a fraction or exponent; beyond what a float can hold it stays text."""
    number = float(text)
    return text if math.isinf(number) else number


def _whole(text: str) -> int | str:
    """A whole number of at most 64 bits; a longer one stays text, which a quantity may be and a count may not."""
    if len(text) > 66:
        return text
    number = int(text)
    return number if -(2**63) <= number < 2**63 else text


def _too_deep(value: Any) -> bool:
    level = [value] if type(value) is dict or type(value) is list else []
    for _ in range(MAX_DEPTH):
        # A decoder makes plain dicts and lists, possibly millions of them.
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


# --------------------------------------------------------------------------------------------------------------- YAML


def _yaml(text: str, builder: _Builder) -> Iterator[Document]:
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentEndEvent):
                document = builder.finish()
                if document is not None:
                    yield document
            else:
                builder.add_event(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or invalid.NOT_YAML
        if "cannot start any token" in what and mark is not None and _char(text, mark) == "\t":
            what = invalid.TAB
        at = (mark.line + 1, mark.column + 1) if mark is not None else None
        raise DocumentError(builder.current, what, at, syntax=True) from None
    except yaml.reader.ReaderError as error:
        # libyaml counts in bytes and Python in characters; the first such character is the one in both.
        code = error.character if isinstance(error.character, int) else ord(error.character)
        place = text.find(chr(code))
        at = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
        raise DocumentError(builder.current, invalid.character_not_allowed(code=code), at) from None


def _char(text: str, mark: Any) -> str:
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    return line[mark.column : mark.column + 1]


class _Frame:
    """A list or mapping that is being built.

    ``key`` waits for its value, in ``key_line``; ``merges`` says that it is the merge key. ``merged`` are the mappings
    that << named. ``size`` counts the values with all aliases written out. All begins in ``line``.
    """

    __slots__ = ("anchor", "key", "key_line", "line", "merged", "merges", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = self.key_line = line
        self.key: str | None = None
        self.merges = False
        self.merged: list[dict[str, Any]] = []
        self.size = 1


class _Builder:
    """Makes the values of one stream out of its events."""

    def __init__(
        self,
        file: str,
        truths: Mapping[str, bool] = _TRUTHS_1_1,
        most_aliased: int = MAX_ALIASED_VALUES,
        lines: dict[tuple[int, str | int], int] | None = None,
    ) -> None:
        self.number = 0
        self._file = file
        self._truths = truths
        self._most_aliased = most_aliased
        self._lines = lines
        self._aliased = 0
        self._reset()

    def _reset(self) -> None:
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open: set[str] = set()
        self._result: Any = None
        self._first_line = 1
        self._inside = False

    @property
    def current(self) -> int:
        """The document that is being read, or would come next."""
        return self.number if self._inside else self.number + 1

    def finish(self) -> Document | None:
        """The document that has just ended; None if it was empty."""
        value, line = self._result, self._first_line
        self._reset()
        return None if value is None else Document(self._file, self.number, value, line, self._lines or {})

    def add_event(self, event: Any) -> None:
        """Take in one event. Raises :class:`DocumentError`."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.MappingStartEvent():
                self._begin({}, event, "map")
            case yaml.SequenceStartEvent():
                self._begin([], event, "seq")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(event)
            case yaml.DocumentStartEvent():
                self.number += 1
                self._inside = True

    def _refuse(self, event: Any, message: str) -> NoReturn:
        raise DocumentError(self.number, message, (_line(event), event.start_mark.column + 1))

    def _begin(self, value: dict[str, Any] | list[Any], event: Any, tag: str) -> None:
        if event.tag not in (None, "!", _TAG + tag):
            self._refuse(event, invalid.tag_not_allowed(tag=_short(event.tag)))
        if len(self._stack) >= MAX_DEPTH:
            self._refuse(event, invalid.NESTED_TOO_DEEPLY)
        if self._wants_key():
            self._refuse(event, invalid.KEY_IS_COLLECTION)
        if event.anchor:
            self._open.add(event.anchor)
        self._stack.append(_Frame(value, event.anchor, _line(event)))

    def _end(self, event: Any) -> None:
        frame = self._stack.pop()
        for merged in frame.merged:
            assert isinstance(frame.value, dict)
            for key, value in merged.items():
                frame.value.setdefault(key, value)
        if frame.anchor:
            self._open.discard(frame.anchor)
            self._anchors[frame.anchor] = (frame.value, frame.size)
        self._add(frame.value, frame.size, event, frame.line)

    def _alias(self, event: Any) -> None:
        if event.anchor in self._open:
            self._refuse(event, invalid.alias_inside_itself(anchor=event.anchor))
        if event.anchor not in self._anchors:
            self._refuse(event, invalid.alias_of_nothing(anchor=event.anchor))
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > self._most_aliased:
            self._refuse(event, invalid.aliases_too_large(most=self._most_aliased))
        if self._wants_key():
            if not isinstance(value, str):
                self._refuse(event, invalid.KEY_IS_NO_TEXT)
            self._take_key(value, event, merges=False)
        else:
            self._add(value, size, event, _line(event))

    def _scalar(self, event: Any) -> None:
        if self._wants_key():
            if event.tag not in (None, "!", _TAG + "str"):
                self._refuse(event, invalid.tag_on_key(tag=_short(event.tag)))
            if event.anchor:
                self._anchors[event.anchor] = (event.value, 1)
            # Only a plain << merges: a quoted one is a key like any other.
            self._take_key(event.value, event, merges=event.implicit[0] and event.value == "<<")
            return
        value = self._resolved(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, 1, event, _line(event))

    def _wants_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _take_key(self, key: str, event: Any, *, merges: bool) -> None:
        frame = self._stack[-1]
        if key in frame.value and not merges:
            self._refuse(event, invalid.key_twice(key=_short(key), kind="mapping"))
        frame.key, frame.merges, frame.key_line = key, merges, _line(event)

    def _add(self, value: Any, size: int, event: Any, line: int) -> None:
        if not self._stack:
            self._result, self._first_line = value, line
            return
        frame = self._stack[-1]
        frame.size += size
        if isinstance(frame.value, list):
            if self._lines is not None:
                self._lines[id(frame.value), len(frame.value)] = line
            frame.value.append(value)
            return
        key, frame.key = frame.key, None
        assert key is not None
        if frame.merges:
            several = value if isinstance(value, list) else [value]
            if not all(isinstance(v, dict) for v in several):
                self._refuse(event, invalid.MERGE_OF_NO_MAPPING)
            frame.merged += several
        else:
            if self._lines is not None:
                self._lines[id(frame.value), key] = frame.key_line
            frame.value[key] = value

    def _resolved(self, event: Any) -> Any:
        text: str = event.value
        tag = event.tag
        if tag in (None, "!"):
            return _plain(text, self._truths) if event.implicit[0] and tag is None else text
        if tag == _TAG + "str":
            return text
        wanted = _TAGGED.get(tag)
        if wanted is None:
            self._refuse(event, invalid.tag_not_allowed(tag=_short(tag)))
        value = _plain(text, self._truths)
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted:
            self._refuse(event, invalid.does_not_fit_tag(value=_short(text), tag=_short(tag)))
        return value


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _plain(text: str, truths: Mapping[str, bool]) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar: null, a truth value, a number, or the text itself."""
    if text in _NULLS:
        return None
    if text in truths:
        return truths[text]
    if match := _INT.fullmatch(text):
        sign, digits = match.groups()
        digits = digits.replace("_", "")
        if len(digits) > 66 or digits in ("0b", "0o", "0x", ""):
            return text
        base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 8 if digits[0] == "0" else 10)
        number = int(digits, base) if base != 8 else int(digits.removeprefix("0o"), 8)
        number = -number if sign == "-" else number
        return number if -(2**63) <= number < 2**63 else text
    if _FLOAT.fullmatch(text):
        return _fraction(text.replace("_", ""))
    return text


def _short(text: str) -> str:
    text = text.replace(_TAG, "!!")
    return text if len(text) <= 60 else text[:57] + "..."
