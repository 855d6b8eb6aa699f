"""Reads and checks the configuration file, and prints it.

Every problem of a file is reported at once, each with line, path and what would be right. The checks walk the YAML
beside the structs of :mod:`gangsched.runtime.settings`, because the words of a decoder are no words for people.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from gangsched.runtime import profiles
from gangsched.runtime.profiles import PluginConfig, nearest
from gangsched.runtime.sections import Section, duration_seconds
from gangsched.runtime.settings import Configuration
from gangsched.runtime.yamlfile import Located, YamlError, read_yaml

#: Longest requestTimeout in seconds: a new leader waits this long for the writes of an old one to end.
MAX_REQUEST_TIMEOUT_SECONDS = 2.0
#: Attempts at the lease are spread by up to a fifth of the retry period.
RETRY_JITTER = 1.2


class ConfigurationError(ValueError):
    """A configuration that cannot be used. ``problems`` are lines for people, each starting with the file."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(path: Path) -> Configuration:
    """The configuration in a file. Raises :class:`ConfigurationError` with all that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([f"{path}: is not UTF-8 text"]) from None
    return parse(text, str(path))


def parse(text: str, file: str = "configuration") -> Configuration:
    """As :func:`load`; ``file`` is the name in messages."""
    try:
        root = read_yaml(text)
    except YamlError as error:
        raise ConfigurationError([f"{file}:{error.line}: {error.message}"]) from None
    problems = list(_check_document(root))
    try:
        configuration = msgspec.convert(root.plain(), Configuration) if not problems else _understood(root, problems)
    except msgspec.ValidationError as error:
        problems.append((root.line, str(error)))
    else:
        problems.extend((root.line_of(path), f"{path}: {text}") for path, text in check(configuration))
        if not problems:
            return configuration
    raise ConfigurationError([f"{file}:{line}: {message}" for line, message in sorted(problems)])


def _understood(root: Located, problems: list[Problem]) -> Configuration:
    """The sections in which nothing is wrong, so that what is wrong together is reported at once too."""
    wrong = {re.split(r"[.:\[]", message)[0] for _, message in problems}
    sections = root.value if isinstance(root.value, dict) else {}
    return msgspec.convert({key: v.plain() for key, v in sections.items() if key not in wrong}, Configuration)


def check(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """(path, problem) for values that are right one by one and wrong together."""
    election = configuration.leader_election
    lease, renew, retry = (
        duration_seconds(text) for text in (election.lease_duration, election.renew_deadline, election.retry_period)
    )
    if not retry > 0:
        yield "leaderElection.retryPeriod", "must be longer than zero"
    if not retry * RETRY_JITTER < renew:
        yield (
            "leaderElection.renewDeadline",
            f"{election.renew_deadline} is not longer than {RETRY_JITTER:g} times retryPeriod",
        )
    if lease < 1:
        yield "leaderElection.leaseDuration", f"{election.lease_duration} is shorter than 1s, the unit of a Lease"
    elif not renew < lease:
        yield "leaderElection.leaseDuration", f"{election.lease_duration} is not longer than renewDeadline"
    connection = configuration.client_connection
    timeout = duration_seconds(connection.request_timeout)
    if not 0 < timeout <= MAX_REQUEST_TIMEOUT_SECONDS:
        yield (
            "clientConnection.requestTimeout",
            f"{connection.request_timeout} is not between 1ms and {MAX_REQUEST_TIMEOUT_SECONDS:g}s",
        )
    elif election.leader_elect and renew < lease <= renew + timeout:
        yield (
            "clientConnection.requestTimeout",
            f"{connection.request_timeout} does not fit between renewDeadline and leaseDuration",
        )
    queue = configuration.queue
    if not duration_seconds(queue.backoff_initial) > 0:
        yield "queue.backoffInitial", "must be longer than zero"
    if duration_seconds(queue.backoff_max) < duration_seconds(queue.backoff_initial):
        yield "queue.backoffMax", f"{queue.backoff_max} is shorter than backoffInitial"
    if not duration_seconds(configuration.preemption.gang_timeout) > 0:
        yield "preemption.gangTimeout", "must be longer than zero"
    yield from _check_profiles(configuration)


def _check_profiles(configuration: Configuration) -> Iterator[tuple[str, str]]:
    seen: dict[str, int] = {}
    for index, profile in enumerate(configuration.profiles):
        path = f"profiles[{index}]"
        if profile.scheduler_name in seen:
            yield (
                f"{path}.schedulerName",
                f"{profile.scheduler_name} is the name of profiles[{seen[profile.scheduler_name]}] too",
            )
        seen.setdefault(profile.scheduler_name, index)
        yield from ((f"{path}.{below}", text) for below, text in profiles.problems(profile))


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the file."""
    from gangsched.runtime.arguments import ARGUMENTS  # noqa: PLC0415 - with numpy

    body = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Configuration)))
    definitions = body["$defs"]
    # The decoder has defaults for these two, a file has not: without them nobody knows what it is a file of.
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

Problem = tuple[int, str]


def _check_document(root: Located) -> Iterator[Problem]:
    if not isinstance(root.value, dict):
        yield root.line, "must be a mapping that starts with apiVersion and kind"
        return
    for key, wanted in (("apiVersion", Configuration().api_version), ("kind", Configuration().kind)):
        if key not in root.value:
            yield root.line, f"{key}: missing; must be {wanted}"
    yield from _check(root, inspect.type_info(Configuration), "")


def _check(node: Located, kind: inspect.Type, path: str) -> Iterator[Problem]:
    """All problems of one value and of what is in it."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):  # of a section and None: a section that may be left out
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    if isinstance(kind, inspect.StructType):
        yield from _check_struct(node, kind, path)
    elif isinstance(kind, inspect.VarTupleType):
        yield from _check_list(node, kind, path)
    elif isinstance(kind, inspect.DictType):
        if not isinstance(node.value, dict):
            yield node.line, f"{path}: must be a mapping, not {_describe(node.value)}"
    else:
        problem = _scalar_problem(node.value, kind)
        if problem:
            yield node.line, f"{path}: {problem}"


def _check_struct(node: Located, kind: inspect.StructType, path: str) -> Iterator[Problem]:
    if not isinstance(node.value, dict):
        yield node.line, f"{path}: must be a mapping, not {_describe(node.value)}"
        return
    fields = {field.encode_name: field for field in kind.fields}
    if kind.cls is PluginConfig:
        yield from _check_arguments(node.value, path)
    for key, child in node.value.items():
        below = f"{path}.{key}" if path else str(key)
        if key in fields:
            yield from _check(child, fields[key].type, below)
        else:
            yield child.key_line, f"{below}: unknown key; {nearest(str(key), sorted(fields))}"
    for name, field in fields.items():
        if field.required and name not in node.value:
            yield node.line, f"{path}.{name}: missing"


def _check_arguments(plugin: dict[str, Located], path: str) -> Iterator[Problem]:
    """The ``args`` of a built-in plug-in; those of others are checked when they have been imported."""
    name, given = plugin.get("name"), plugin.get("args")
    if name is None or given is None or not isinstance(given.value, dict):
        return
    from gangsched.runtime.arguments import ARGUMENTS  # noqa: PLC0415 - with numpy, and seldom needed

    kind = ARGUMENTS.get(name.value) if isinstance(name.value, str) else None
    if kind is not None:
        yield from _check(given, inspect.type_info(kind), f"{path}.args")


def _check_list(node: Located, kind: inspect.VarTupleType, path: str) -> Iterator[Problem]:
    if not isinstance(node.value, list):
        yield node.line, f"{path}: must be a list, not {_describe(node.value)}"
        return
    if kind.min_length is not None and len(node.value) < kind.min_length:
        yield node.line, f"{path}: must have at least {kind.min_length} item"
    if kind.max_length is not None and len(node.value) > kind.max_length:
        yield node.line, f"{path}: must have at most {kind.max_length} items"
    for index, child in enumerate(node.value):
        yield from _check(child, kind.item_type, f"{path}[{index}]")


def _scalar_problem(value: Any, kind: inspect.Type) -> str | None:
    """What is wrong with a leaf, or None."""
    said = _describe(value)
    if isinstance(kind, inspect.LiteralType):
        words = [str(word) for word in kind.values]
        if value in words:
            return None
        wanted = words[0] if len(words) == 1 else f"one of {', '.join(words)}"
        return f"must be {wanted}, not {said}"
    if isinstance(kind, inspect.BoolType):
        return None if isinstance(value, bool) else f"must be true or false, not {said}"
    if isinstance(kind, inspect.StrType):
        if kind.pattern:
            fits = isinstance(value, str) and re.search(kind.pattern, value)
            return None if fits else f"must be a duration such as 15s or 1m30s, not {said}"
        if not isinstance(value, str):
            return f"must be text, not {said}"
        if kind.min_length and not value:
            return "must not be empty"
        if kind.max_length and len(value) > kind.max_length:
            return f"must have at most {kind.max_length} characters"
        return None
    assert isinstance(kind, inspect.IntType | inspect.FloatType), kind
    whole = isinstance(kind, inspect.IntType)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or math.isnan(value):
        return f"must be a {'whole ' if whole else ''}number, not {said}"
    low, high = kind.ge if kind.ge is not None else kind.gt, kind.le
    above = value >= kind.ge if kind.ge is not None else kind.gt is None or value > kind.gt
    if not above or (high is not None and value > high):
        edge = "between" if kind.ge is not None else "above"
        return f"{said} is not {edge} {low:.12g} and {'at most ' if edge == 'above' else ''}{high:.12g}"
    return None


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
