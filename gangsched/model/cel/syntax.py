"""Parse CEL into a tree. The grammar is that of https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from gangsched.model.cel.values import ExpressionError, UInt, UnsupportedExpressionError

#: Bytes of an expression; the API server allows no more.
MAX_LENGTH = 10 * 1024
#: How deep an expression may nest. Upstream's parser allows 250, of which one nesting here takes up to eight.
MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, a type, or the namespace of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``, or ``operand.?field``."""

    operand: Node
    field: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """``operand[key]``, or ``operand[?key]``."""

    operand: Node
    key: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """``function(args)``, or ``target.function(args)``. Operators are calls of a function with the operator's sign."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """``[a, ?b]``: each element, and whether it is optional."""

    elements: tuple[tuple[Node, bool], ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """``{k: a, ?l: b}``: each entry, and whether it is optional."""

    entries: tuple[tuple[Node, Node, bool], ...]


Node: TypeAlias = Literal | Name | Select | Index | Call | ListOf | MapOf

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)|\d+[uU]?)
    |(?P<string>(?:[rR]?[bB]?|[bB][rR])(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}))
    |(?P<line>(?:[bB])?(?:"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*'))
    |(?P<raw>(?:[rR][bB]?|[bB][rR])(?:"[^"\r\n]*"|'[^'\r\n]*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    |(?P<sign>&&|\|\||[=!<>]=|\.\?|\[\?|[-+*/%!<>?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{sign: sign for sign in "\\'\"`?"},
}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}
_RELATIONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "in"})


def parse(text: str) -> Node:
    """Return the tree of an expression. Raises :class:`ExpressionError`."""
    if len(text.encode(errors="replace")) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} bytes")
    parser = _Parser(text)
    tree = parser.expression()
    if parser.kind != "end":
        parser.fail()
    return tree


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"syntax error at {text[at : at + 20]!r}")
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match.group()))
        at = match.end()
    return [*found, ("end", "")]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def word(self) -> str:
        return self._tokens[self._at][1]

    def fail(self) -> NoReturn:
        raise ExpressionError(f"syntax error at {self.word!r}" if self.word else "syntax error: it ends too early")

    def _next(self) -> str:
        word = self.word
        self._at += 1
        return word

    def _has(self, *words: str) -> bool:
        """Whether the next token is one of these signs, or the word ``in``."""
        return self.word in words and self.kind in {"sign", "name"}

    def _accept(self, word: str) -> bool:
        found = self._has(word)
        self._at += found
        return found

    def _need(self, word: str) -> None:
        if not self._accept(word):
            self.fail()

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnsupportedExpressionError(f"nested more than {MAX_DEPTH} times")
        found = self._binary(0)
        if self._accept("?"):
            yes = self._binary(0)
            self._need(":")
            found = Call("?:", None, (found, yes, self.expression()))
        self._depth -= 1
        return found

    _LEVELS = (("||",), ("&&",), tuple(sorted(_RELATIONS)), ("+", "-"), ("*", "/", "%"))

    def _binary(self, level: int) -> Node:
        if level == len(self._LEVELS):
            return self._unary()
        found = self._binary(level + 1)
        while self._has(*self._LEVELS[level]):
            sign = self._next()
            found = Call(sign, None, (found, self._binary(level + 1)))
        return found

    def _unary(self) -> Node:
        sign = self.word
        if self.kind != "sign" or sign not in {"!", "-"}:
            return self._member()
        count = 0
        while self._accept(sign):
            count += 1
        if sign == "-" and self.kind == "number" and "." not in self.word and count == 1:
            return self._suffixes(self._number("-"))
        operand = self._member()
        if count % 2 == 0:
            return operand if sign == "!" else Call("-", None, (Call("-", None, (operand,)),))
        return Call(sign, None, (operand,))

    def _member(self) -> Node:
        return self._suffixes(self._primary())

    def _suffixes(self, found: Node) -> Node:
        while self.kind == "sign":
            if self._has(".", ".?"):
                optional = self._next() == ".?"
                if self.kind not in {"name", "quoted"}:
                    self.fail()
                name = self._next().strip("`")
                if not optional and self._accept("("):
                    found = Call(name, found, self._until(")"))
                else:
                    found = Select(found, name, optional)
            elif self._has("[", "[?"):
                optional = self._next() == "[?"
                key = self.expression()
                self._need("]")
                found = Index(found, key, optional)
            else:
                break
        return found

    def _until(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._accept(end):
            if found:
                self._need(",")
            found.append(self.expression())
        return tuple(found)

    def _primary(self) -> Node:
        if self.kind == "number":
            return self._number()
        if self.kind in {"string", "line", "raw"}:
            return self._string()
        if self._accept("("):
            found = self.expression()
            self._need(")")
            return found
        if self._has("[", "[?"):
            return self._list()
        if self._accept("{"):
            return self._map()
        self._accept(".")
        if self.kind != "name":
            self.fail()
        return self._name()

    def _name(self) -> Node:
        name = self._next()
        if name in _CONSTANTS:
            return Literal(_CONSTANTS[name])
        if name in _RESERVED or name == "in":
            raise ExpressionError(f"syntax error: {name} is a reserved word")
        if self._accept("("):
            return Call(name, None, self._until(")"))
        if self._has("{"):
            raise UnsupportedExpressionError(f"messages ({name}{{}})")
        return Name(name)

    def _list(self) -> Node:
        found: list[tuple[Node, bool]] = []
        first_optional = self._next() == "[?"
        while not self._accept("]"):
            if found:
                self._need(",")
                if self._accept("]"):
                    break
            optional = (first_optional and not found) or self._accept("?")
            found.append((self.expression(), optional))
        return ListOf(tuple(found))

    def _map(self) -> Node:
        found: list[tuple[Node, Node, bool]] = []
        while not self._accept("}"):
            if found:
                self._need(",")
                if self._accept("}"):
                    break
            optional = self._accept("?")
            key = self.expression()
            self._need(":")
            found.append((key, self.expression(), optional))
        return MapOf(tuple(found))

    def _number(self, sign: str = "") -> Node:
        word = self._next()
        if word[-1] in "uU" and not sign:
            value = int(word[:-1], 0) if word[:2] in {"0x", "0X"} else int(word[:-1])
            if value >= 2**64:
                raise ExpressionError(f"{word} does not fit into 64 bits")
            return Literal(UInt(value))
        if word[:2] in {"0x", "0X"} or word.isdigit():
            value = int(sign + word, 16 if word[:2] in {"0x", "0X"} else 10)
            if not -(2**63) <= value < 2**63:
                raise ExpressionError(f"{sign}{word} does not fit into 64 bits")
            return Literal(value)
        if word[-1] in "uU":
            raise ExpressionError(f"no matching overload for '-' applied to {word}")
        return Literal(float(sign + word))

    def _string(self) -> Node:
        word = self._next()
        prefix = word[: len(word) - len(word.lstrip("rRbB"))].lower()
        body = word[len(prefix) :]
        quotes = 3 if len(body) >= 6 and body[:3] in {'"""', "'''"} else 1
        body = body[quotes:-quotes]
        if "b" in prefix:
            raise UnsupportedExpressionError("literals of bytes")
        return Literal(body if "r" in prefix else _unescaped(body))


def _unescaped(body: str) -> str:
    out, at = [], 0
    while (slash := body.find("\\", at)) >= 0:
        match = _ESCAPE.match(body, slash)
        if match is None:
            raise ExpressionError(f"syntax error: unknown escape {body[slash : slash + 2]!r}")
        sign, *codes, octal = match.groups()
        code = next((int(c, 16) for c in codes if c is not None), int(octal, 8) if octal else 0)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ExpressionError(f"syntax error: {match.group()} is no character")
        out += [body[at:slash], _ESCAPES[sign] if sign else chr(code)]
        at = match.end()
    return "".join([*out, body[at:]])
