"""Reads and checks the configuration file, and prints it.

Every problem of a file is reported at once, each with line, path and what would be right. The checks walk the YAML
beside the structs of :mod:`gangsched.runtime.settings`, because the words of a decoder are no words for people.
"""

from __future__ import annotations

import contextlib
import copy
import ipaddress
import json
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from gangsched.core.framework.arguments import ARGUMENTS
from gangsched.core.framework.registry import BUILT_IN
from gangsched.documents import Document, DocumentError, located
from gangsched.messages import invalid, standing
from gangsched.messages.text import nearest
from gangsched.model.errors import UserError, one_line
from gangsched.model.sections import Section
from gangsched.model.times import seconds_of
from gangsched.runtime.profiles import (
    MultiPointPlugins,
    PluginConfig,
    Plugins,
    Profile,
    WeightedPlugin,
    plugin_problems,
)
from gangsched.runtime.settings import Configuration

#: Longest requestTimeout in seconds: a new leader waits this long for the writes of an old one to end.
MAX_REQUEST_TIMEOUT_SECONDS = 2.0
#: More values than this by aliases are a mistake or an attack.
MAX_ALIASED_VALUES = 10_000
#: Attempts at the lease are spread by up to a fifth of the retry period.
RETRY_JITTER = 1.2


#: Each pass finds what only shows when what was wrong before has been left out.
_MOST_PASSES = 4

#: From the top of the file to a value: names of keys, and places in lists from 0.
Path: TypeAlias = tuple[str | int, ...]
#: A value, and what is wrong with it.
Problem: TypeAlias = tuple[Path, str]


class ConfigurationError(UserError):
    """A configuration that cannot be used, with a line for each problem, which starts with the file."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems

    @property
    def lines(self) -> list[str]:
        """One for each problem."""
        return [one_line(problem) for problem in self.problems]


def load(path: FilePath) -> Configuration:
    """The configuration in a file. Raises :class:`ConfigurationError` with all that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError([f"{path}: {invalid.cannot_be_read(why=error.strerror or error)}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError([f"{path}: {invalid.not_utf8(reason=error.reason, start=error.start)}"]) from None
    return parse(text, str(path))


def parse(text: str, file: str = "configuration") -> Configuration:
    """As :func:`load`; ``file`` is the name in messages."""
    root = _document(text, file)
    problems = list(_check_document(root.value))
    try:
        right = _right_sections(root.value, problems) if problems else root.value
        configuration = msgspec.convert(right, Configuration)
    except msgspec.ValidationError as error:
        problems.append(((), str(error)))
    else:
        problems += check(configuration)
        if not problems:
            return configuration
    lines = sorted((root.line(path), f"{_dotted(path)}{': ' if path else ''}{problem}") for path, problem in problems)
    raise ConfigurationError([f"{file}:{line}: {message}" for line, message in lines])


def understood(document: dict[str, Any]) -> tuple[Configuration, list[str]]:
    """The configuration of another process, which may be of another version or have plug-ins that are not here; what is
    left out of it is named.
    """
    value = copy.deepcopy(document)
    left_out: list[str] = []
    for _ in range(_MOST_PASSES):
        problems = list(_check_document(value))
        if not problems:
            configuration = msgspec.convert(value, Configuration)
            problems = list(check(configuration))
            if not problems:
                return configuration, left_out
        for path in sorted({path for path, _ in problems if path}, key=lambda each: (-len(each), _reverse(each))):
            with contextlib.suppress(LookupError, TypeError):  # what it is in has been left out already
                _remove_at(value, path)
            left_out.append(_dotted(path))
    return Configuration(), [standing.ALL_SETTINGS]


def _reverse(path: Path) -> tuple[str, ...]:
    """The last item of a list goes first: the places of others stay as they are."""
    return tuple(f"{10**9 - each:010}" if isinstance(each, int) else each for each in path)


def _remove_at(value: Any, path: Path) -> None:
    """Take what is at the path out of it; where something is missing there, what lacks it."""
    *before, last = path
    above = value
    for part in before:
        above, value = value, value[part]
    if isinstance(value, dict) and last not in value and before:
        value, last = above, before[-1]
    value.pop(last)


def _document(text: str, file: str) -> Document:
    """The one document of the text. Raises :class:`ConfigurationError`."""
    try:
        found = list(located(text, file, MAX_ALIASED_VALUES))
    except DocumentError as error:
        what = f"{invalid.NOT_YAML}: {error.message}" if error.syntax else error.message
        raise ConfigurationError([f"{file}:{error.line or 1}: {what}"]) from None
    if len(found) > 1:
        raise ConfigurationError([f"{file}:{found[1].first_line}: {invalid.OTHER_DOCUMENT}"])
    return found[0] if found else Document(file, 1, None)


def _right_sections(document: Any, problems: list[Problem]) -> dict[str, Any]:
    """The sections in which nothing is wrong, so that what is wrong together is reported at once too."""
    wrong = {path[0] for path, _ in problems if path}
    return {key: value for key, value in document.items() if key not in wrong} if isinstance(document, dict) else {}


def check(configuration: Configuration) -> Iterator[Problem]:
    """What is wrong with values that are right one by one and wrong together."""
    election = configuration.leader_election
    lease, renew, retry = (
        seconds_of(text) for text in (election.lease_duration, election.renew_deadline, election.retry_period)
    )
    if not retry > 0:
        yield ("leaderElection", "retryPeriod"), invalid.NOT_LONGER_THAN_ZERO
    if not retry * RETRY_JITTER < renew:
        yield (
            ("leaderElection", "renewDeadline"),
            invalid.not_longer_than_retries(renew_deadline=election.renew_deadline, times=RETRY_JITTER),
        )
    if lease < 1:
        yield ("leaderElection", "leaseDuration"), invalid.lease_too_short(lease_duration=election.lease_duration)
    elif not renew < lease:
        yield (
            ("leaderElection", "leaseDuration"),
            invalid.not_longer_than_deadline(lease_duration=election.lease_duration),
        )
    connection = configuration.client_connection
    timeout = seconds_of(connection.request_timeout)
    if not 0 < timeout <= MAX_REQUEST_TIMEOUT_SECONDS:
        yield (
            ("clientConnection", "requestTimeout"),
            invalid.not_between(value=connection.request_timeout, low="1ms", high=f"{MAX_REQUEST_TIMEOUT_SECONDS:g}s"),
        )
    elif election.leader_elect and renew < lease <= renew + timeout:
        yield (
            ("clientConnection", "requestTimeout"),
            invalid.timeout_does_not_fit(request_timeout=connection.request_timeout),
        )
    queue = configuration.queue
    if not seconds_of(queue.backoff_initial) > 0:
        yield ("queue", "backoffInitial"), invalid.NOT_LONGER_THAN_ZERO
    if seconds_of(queue.backoff_max) < seconds_of(queue.backoff_initial):
        yield ("queue", "backoffMax"), invalid.shorter_than_initial(backoff_max=queue.backoff_max)
    if not seconds_of(configuration.preemption.gang_timeout) > 0:
        yield ("preemption", "gangTimeout"), invalid.NOT_LONGER_THAN_ZERO
    endpoint = configuration.tracing.endpoint
    if "@" in endpoint or "?" in endpoint:
        yield ("tracing", "endpoint"), invalid.ADDRESS_IS_PUBLISHED
    yield from _check_http(configuration)
    yield from _check_profiles(configuration)


def _check_http(configuration: Configuration) -> Iterator[Problem]:
    http = configuration.http
    if bool(http.tls_cert_file) != bool(http.tls_key_file):
        missing = "tlsKeyFile" if http.tls_cert_file else "tlsCertFile"
        yield ("http", missing), invalid.ONE_OF_A_PAIR
    elif http.authorize and not http.tls_cert_file and not is_loopback(http.bind_address):
        yield ("http", "authorize"), invalid.TOKENS_IN_THE_OPEN


def is_loopback(address: str) -> bool:
    """Return whether only processes of the same machine reach what listens there."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _check_profiles(configuration: Configuration) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, profile in enumerate(configuration.profiles):
        path = ("profiles", index)
        name = profile.scheduler_name
        if name in seen:
            yield (*path, "schedulerName"), invalid.name_of_two_profiles(name=name, seen=seen[name])
        seen.setdefault(name, index)
        yield from (((*path, *_parts(below)), text) for below, text in plugin_problems(profile))


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the file."""
    body = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Configuration)))
    definitions = body["$defs"]
    # The decoder has defaults for these two, a file has not: without them the kind of the file is unknown.
    definitions["Configuration"]["required"] = ["apiVersion", "kind"]
    _, arguments = msgspec.json.schema_components(ARGUMENTS.values())
    definitions.update(msgspec.json.decode(msgspec.json.encode(arguments)))
    definitions["PluginConfig"]["allOf"] = [
        {
            "if": {"properties": {"name": {"const": name}}},
            "then": {"properties": {"args": {"$ref": f"#/$defs/{kind.__name__}"}}},
        }
        for name, kind in ARGUMENTS.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GangSchedulerConfiguration",
        **body,
    }


# ------------------------------------------------------------------------------------------------ checks of one value


def _check_document(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), invalid.NOT_A_CONFIGURATION
        return
    for key, wanted in (("apiVersion", Configuration().api_version), ("kind", Configuration().kind)):
        if key not in value:
            yield (key,), invalid.missing(wanted=wanted)
    yield from _check(value, inspect.type_info(Configuration), ())


def _check(value: Any, kind: inspect.Type, path: Path) -> Iterator[Problem]:
    """All problems of one value and of what is in it."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):  # with None: a section that may be left out; with a mapping: either
        kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        kind = next((k for k in kinds if isinstance(k, inspect.DictType) is isinstance(value, dict)), kinds[0])
    if isinstance(kind, inspect.StructType | inspect.DictType) and not isinstance(value, dict):
        yield path, invalid.must_be(wanted=invalid.TYPES["object"], found=_describe(value))
    elif isinstance(kind, inspect.StructType):
        yield from _check_struct(value, kind, path)
    elif isinstance(kind, inspect.VarTupleType):
        yield from _check_list(value, kind, path)
    elif isinstance(kind, inspect.DictType):
        for key, child in value.items() if not isinstance(kind.value_type, inspect.AnyType) else ():
            yield from _check(child, kind.value_type, (*path, key))
    elif problem := _scalar_problem(value, kind):
        yield path, problem


def _check_struct(value: dict[str, Any], kind: inspect.StructType, path: Path) -> Iterator[Problem]:
    fields = {field.encode_name: field for field in kind.fields}
    if kind.cls is PluginConfig:
        yield from _check_arguments(value, path)
    for key, child in value.items():
        if key in fields:
            yield from _check(child, fields[key].type, (*path, key))
        else:
            yield (*path, key), invalid.unknown_key(hint=nearest(key, sorted(fields)))
    for name, field in fields.items():
        if field.required and name not in value:
            yield (*path, name), "missing"


def _check_arguments(plugin: dict[str, Any], path: Path) -> Iterator[Problem]:
    """The ``args`` of a built-in plug-in; those of others are checked when they have been imported."""
    name, given = plugin.get("name"), plugin.get("args")
    if not isinstance(name, str) or not isinstance(given, dict):
        return
    kind = ARGUMENTS.get(name)
    if kind is not None:
        yield from _check(given, inspect.type_info(kind), (*path, "args"))


def _check_list(value: Any, kind: inspect.VarTupleType, path: Path) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield path, invalid.must_be(wanted=invalid.TYPES["array"], found=_describe(value))
        return
    if kind.min_length is not None and len(value) < kind.min_length:
        yield path, invalid.too_few_items(min_length=kind.min_length)
    if kind.max_length is not None and len(value) > kind.max_length:
        yield path, invalid.too_many(most=kind.max_length, what="items")
    for index, child in enumerate(value):
        yield from _check(child, kind.item_type, (*path, index))


def _scalar_problem(value: Any, kind: inspect.Type) -> str | None:
    """What is wrong with a leaf, or None."""
    said = _describe(value)
    if isinstance(kind, inspect.LiteralType):
        words = [str(word) for word in kind.values]
        if value in words:
            return None
        wanted = words[0] if len(words) == 1 else invalid.one_of(allowed=", ".join(words))
        return invalid.must_be(wanted=wanted, found=said)
    if isinstance(kind, inspect.BoolType):
        return None if isinstance(value, bool) else invalid.must_be(wanted=invalid.TYPES["bool"], found=said)
    if isinstance(kind, inspect.StrType):
        if kind.pattern:
            fits = isinstance(value, str) and re.search(kind.pattern, value)
            return None if fits else invalid.must_be(wanted=invalid.DURATION, found=said)
        if not isinstance(value, str):
            return invalid.must_be(wanted=invalid.TYPES["str"], found=said)
        if kind.min_length and not value:
            return invalid.EMPTY
        if kind.max_length and len(value) > kind.max_length:
            return invalid.too_many(most=kind.max_length, what="characters")
        return None
    assert isinstance(kind, inspect.IntType | inspect.FloatType), kind
    whole = isinstance(kind, inspect.IntType)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or math.isnan(value):
        return invalid.must_be(wanted=invalid.TYPES["int" if whole else "float"], found=said)
    low, high = kind.ge if kind.ge is not None else kind.gt, kind.le
    above = value >= kind.ge if kind.ge is not None else kind.gt is None or value > kind.gt
    if not above or (high is not None and value > high):
        edge = "between" if kind.ge is not None else "above"
        return invalid.beyond_limits(
            value=said, edge=edge, low=low, more="at most " if edge == "above" else "", high=high
        )
    return None


def _dotted(path: Path) -> str:
    """``a.b[0].c``, as messages call it."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")


def _parts(path: str) -> Path:
    """The other way round."""
    return tuple(name or int(index) for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path))


def _describe(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f'"{value}"' if isinstance(value, str) else str(value)


__all__ = ["Configuration", "ConfigurationError", "Section", "check", "load", "parse", "schema"]


_WIDTH = 100
_SCALARS = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.LiteralType)
#: Their values must be written, so they are no settings.
_HEAD = ("apiVersion", "kind")


def defaults_text() -> str:
    """A file that says what no file at all says too, with all plug-ins and their arguments."""
    head = _comment(str(Configuration.__doc__), "")
    return "\n".join([*head, *_section(_struct(inspect.type_info(Configuration)), _spelt_out(), 0)]) + "\n"


def _spelt_out() -> Configuration:
    """The default configuration with the plug-ins that it means."""
    enabled = tuple(WeightedPlugin(name=plugin.name, weight=plugin.weight) for plugin in BUILT_IN if plugin.default)
    plugins = Plugins(multi_point=MultiPointPlugins(enabled=enabled))
    configured = tuple(PluginConfig(name=name) for name in ARGUMENTS)
    return Configuration(profiles=(Profile(plugins=plugins, plugin_config=configured),))


def _section(kind: inspect.StructType, value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for field in kind.fields:
        description, inner = _unwrap(field.type)
        current = getattr(value, field.name)
        top = depth == 0 and field.encode_name not in _HEAD
        if top:
            yield ""
        if field.encode_name not in _HEAD:
            yield from _comment(description, pad)
        if isinstance(value, PluginConfig) and field.name == "args":
            yield f"{pad}args:"
            arguments = ARGUMENTS[value.name]
            yield from _section(_struct(inspect.type_info(arguments)), arguments(), depth + 1)
        elif isinstance(inner, inspect.StructType):
            if current is None:
                yield f"{pad}# {field.encode_name}:"
                continue
            yield f"{pad}{field.encode_name}:"
            yield from _section(inner, current, depth + 1)
        elif isinstance(inner, inspect.VarTupleType):
            yield from _list(f"{pad}{field.encode_name}:", inner, current, depth)
        else:
            yield f"{pad}{field.encode_name}: {_yaml(current)}"


def _list(key: str, kind: inspect.VarTupleType, values: Sequence[Any], depth: int) -> Iterator[str]:
    pad = "  " * depth
    if not values:
        yield f"{key} []"
        return
    yield key
    item = _struct(kind.item_type)
    scores = {plugin.name for plugin in BUILT_IN if plugin.score is not None}
    if all(isinstance(_unwrap(field.type)[1], _SCALARS) for field in item.fields):
        for value in values:
            said = {field.encode_name: _yaml(getattr(value, field.name)) for field in item.fields}
            if isinstance(value, WeightedPlugin) and value.name not in scores:
                del said["weight"]
            yield f"{pad}  - {{{', '.join(f'{name}: {text}' for name, text in said.items())}}}"
        return
    for value in values:
        body = list(_section(item, value, depth + 2))
        first = next(n for n, line in enumerate(body) if not line.lstrip().startswith("#"))
        dash = f"{pad}  - " + body[first].lstrip()
        yield from (line[2:] for line in body[:first])
        yield dash
        yield from body[first + 1 :]


def _unwrap(kind: inspect.Type) -> tuple[str, inspect.Type]:
    """(description, the type itself); a section is described by its class."""
    description = ""
    while isinstance(kind, inspect.Metadata):
        description = description or str((kind.extra_json_schema or {}).get("description", ""))
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    if not description and isinstance(kind, inspect.StructType):
        description = str(kind.cls.__doc__)
    return description, kind


def _struct(kind: inspect.Type) -> inspect.StructType:
    inner = _unwrap(kind)[1]
    assert isinstance(inner, inspect.StructType), inner
    return inner


def _comment(text: str, pad: str) -> list[str]:
    return [f"{pad}# {line}" for line in textwrap.wrap(text, _WIDTH - len(pad) - 2)]


def _yaml(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str) and value:
        return value
    return json.dumps(value)
