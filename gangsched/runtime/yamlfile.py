"""One YAML document with the line of every value, duplicate keys refused."""

from __future__ import annotations

import re
from typing import Any

import yaml

#: A configuration of more values than this is a mistake or an attack (aliases multiply).
MAX_NODES = 10_000


_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null"))


class YamlError(ValueError):
    """Text that is no single, unambiguous YAML document. ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"{line}: {message}")
        self.line = line
        self.message = message


class Located:
    """A value and where it stands; containers hold further Located values."""

    __slots__ = ("key_line", "line", "value")

    def __init__(self, value: Any, line: int, key_line: int) -> None:
        self.value = value
        self.line = line
        self.key_line = key_line

    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def line_of(self, path: str) -> int:
        """The line of ``a.b[0].c``, or of the nearest value above that is written down."""
        node = self
        for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
            below: Located | None = None
            if name and isinstance(node.value, dict):
                below = node.value.get(name)
            elif index and isinstance(node.value, list) and int(index) < len(node.value):
                below = node.value[int(index)]
            if below is None:
                break
            node = below
        return node.line


class _Loader(yaml.SafeLoader):
    """YAML 1.2 booleans and no dates: ``gangMode: off`` is a word, not false."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def read_yaml(text: str) -> Located:
    """The one document in the text. Raises :class:`YamlError`."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Located(None, 1, 1)
        return _Reader(loader).read(node, node.start_mark.line + 1, frozenset())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(mark.line + 1 if mark else 1, f"is not YAML: {problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(
            1, f"is not YAML: {str(error).splitlines()[0] if str(error) else 'nested too deeply'}"
        ) from None
    finally:
        loader.dispose()


class _Reader:
    def __init__(self, loader: _Loader) -> None:
        self.loader = loader
        self.count = 0

    def read(self, node: yaml.Node, key_line: int, above: frozenset[int]) -> Located:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > MAX_NODES:
            raise YamlError(line, f"has more than {MAX_NODES} values")
        if id(node) in above:
            raise YamlError(line, "an alias refers to what contains it")
        if node.tag not in _TAGS:
            raise YamlError(line, f"has a tag ({node.tag}); plain values are enough here")
        inside = above | {id(node)}
        if isinstance(node, yaml.SequenceNode):
            return Located([self.read(child, key_line, inside) for child in node.value], line, key_line)
        if isinstance(node, yaml.MappingNode):
            return Located(self._mapping(node, inside), line, key_line)
        return Located(self.loader.construct_object(node), line, key_line)

    def _mapping(self, node: yaml.MappingNode, inside: frozenset[int]) -> dict[str, Located]:
        values: dict[str, Located] = {}
        for key_node, child in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlError(line, "a key must be a word")
            key = str(key_node.value)
            if key in values:
                raise YamlError(line, f"{key}: is given twice; the first one is in line {values[key].key_line}")
            values[key] = self.read(child, line, inside)
        return values
