"""Regular expressions in time that is linear in the text: no expression of a tenant may hold up the scheduler.

The syntax is the part of RE2's (https://github.com/google/re2/wiki/Syntax) that selectors use. What is valid in RE2 but
missing here is refused by name. Matching explores each pair of an instruction and a position once, in the order of
preference, as the bit-state matcher of RE2 does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gangsched.model.cel.values import ExpressionError, UnsupportedExpressionError

#: Instructions of one expression. RE2 refuses larger ones as well, by memory.
MAX_INSTRUCTIONS = 5_000
MAX_REPEAT = 1_000

_Test = Callable[[str], bool]
_CLASSES: dict[str, _Test] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c in "\t\n\f\r ",
}
_PLAIN_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANCHORS = {"A": "start", "z": "end", "b": "word", "B": "inner"}


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled expression: instructions ``(kind, argument, next, other)``."""

    program: tuple[tuple[str, Any, int, int], ...]

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return begin and end of the first match at or after ``start``, or None."""
        seen: set[tuple[int, int]] = set()
        for begin in range(start, len(text) + 1):
            end = self._match(text, begin, seen)
            if end is not None:
                return begin, end
        return None

    def _match(self, text: str, begin: int, seen: set[tuple[int, int]]) -> int | None:
        # A pair that failed from an earlier begin fails from this one too: nothing after it depends on the begin.
        stack = [(0, begin)]
        while stack:
            at, position = stack.pop()
            while (at, position) not in seen:
                seen.add((at, position))
                kind, argument, following, other = self.program[at]
                if kind == "match":
                    return position
                if kind == "char":
                    if position == len(text) or not argument(text[position]):
                        break
                    position += 1
                elif kind == "split":
                    stack.append((other, position))
                elif not _holds(argument, text, position):
                    break
                at = following
        return None


def _holds(anchor: str, text: str, at: int) -> bool:
    if anchor == "always":
        return True
    if anchor == "start":
        return at == 0
    if anchor == "end":
        return at == len(text)
    before, after = at > 0 and _CLASSES["w"](text[at - 1]), at < len(text) and _CLASSES["w"](text[at])
    return (before != after) == (anchor == "word")


@lru_cache(maxsize=256)
def compile_regex(pattern: str) -> Regex:
    """Return the compiled expression. Raises :class:`ExpressionError` if it is invalid or not supported."""
    parser = _Parser(pattern)
    tree = parser.alternatives()
    if parser.at < len(pattern):
        raise ExpressionError(f"regular expression {pattern!r}: unexpected )")
    program: list[tuple[str, Any, int, int]] = []
    _emit(tree, program, pattern)
    program.append(("match", None, 0, 0))
    return Regex(tuple(program))


class _Parser:
    """Trees are ``("char", test)``, ``("anchor", name)``, ``("all", parts)``, ``("any", parts)`` or
    ``("repeat", part, least, most or None, greedy)``.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self._depth = 0
        self._ignore_case = False
        self._dot_all = False

    def _fail(self, why: str) -> ExpressionError:
        return ExpressionError(f"regular expression {self.pattern!r}: {why}")

    def _unsupported(self, what: str) -> UnsupportedExpressionError:
        return UnsupportedExpressionError(f"regular expression {self.pattern!r}: {what}")

    def _accept(self, sign: str) -> bool:
        found = self.pattern.startswith(sign, self.at)
        self.at += len(sign) * found
        return found

    def alternatives(self) -> Any:
        self._depth += 1
        if self._depth > 50:
            raise self._unsupported("nested more than 50 times")
        parts = [self._sequence()]
        while self._accept("|"):
            parts.append(self._sequence())
        self._depth -= 1
        return ("any", parts) if len(parts) > 1 else parts[0]

    def _sequence(self) -> Any:
        parts: list[Any] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return ("all", parts)

    def _repeated(self, atom: Any) -> Any:
        repeated = False
        while (bounds := self._bounds()) is not None:
            if repeated:
                raise self._fail("two repetitions in a row")
            atom = ("repeat", atom, *bounds, not self._accept("?"))
            repeated = True
        return atom

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(sign):
                return bounds
        end = self.pattern.find("}", self.at)
        if not self.pattern.startswith("{", self.at) or end < 0:
            return None
        least, comma, most = self.pattern[self.at + 1 : end].partition(",")
        if not least.isdecimal() or (most and not most.isdecimal()):
            return None  # RE2 reads such braces as plain characters
        low, high = int(least), int(most) if most else None if comma else int(least)
        if low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or high < low)):
            raise self._fail("bad repetition")
        self.at = end + 1
        return low, high

    def _atom(self) -> Any:
        sign = self.pattern[self.at]
        self.at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return "char", self._folded(self._set())
        if sign == "\\":
            return self._escape()
        if sign in "*+?":
            raise self._fail(f"nothing to repeat before {sign}")
        if sign in "^$":
            return "anchor", "start" if sign == "^" else "end"
        if sign == ".":
            dot_all = self._dot_all
            return "char", lambda c: dot_all or c != "\n"
        return "char", self._folded(lambda c: c == sign)

    def _folded(self, test: _Test) -> _Test:
        if not self._ignore_case:
            return test
        return lambda c: test(c) or test(c.lower()) or test(c.upper())

    def _group(self) -> Any:
        outer = self._ignore_case, self._dot_all
        if self._accept("?"):
            if self._accept("P<") or (
                self.pattern.startswith("<", self.at) and self.pattern[self.at + 1 : self.at + 2].isalpha()
            ):
                self.at = self.pattern.find(">", self.at) + 1
                if not self.at:
                    raise self._fail("bad name of a group")
            elif not self._accept(":"):
                end = min((i for i in (self.pattern.find(s, self.at) for s in ":)") if i >= 0), default=-1)
                flags = self.pattern[self.at : end] if end >= 0 else ""
                if not flags or set(flags) - set("is"):
                    raise self._unsupported(f"(?{self.pattern[self.at : self.at + 1]}")
                self._ignore_case |= "i" in flags
                self._dot_all |= "s" in flags
                self.at = end + 1
                if self.pattern[end] == ")":  # the flags hold for the rest of the group around
                    return "all", []
        found = self.alternatives()
        self._ignore_case, self._dot_all = outer
        if not self._accept(")"):
            raise self._fail("missing )")
        return found

    def _escape(self) -> Any:
        sign = self.pattern[self.at : self.at + 1]
        if sign in _ANCHORS and sign:
            self.at += 1
            return "anchor", _ANCHORS[sign]
        return "char", self._folded(self._escaped())

    def _escaped(self) -> _Test:
        """The test of an escape that stands for characters, inside and outside of a set."""
        sign = self.pattern[self.at : self.at + 1]
        self.at += 1
        if not sign:
            raise self._fail("it ends with a backslash")
        if sign.lower() in _CLASSES:
            test = _CLASSES[sign.lower()]
            return test if sign.islower() else lambda c: not test(c)
        if sign in _PLAIN_ESCAPES:
            return _is(_PLAIN_ESCAPES[sign])
        if sign.isalnum():
            raise self._unsupported(f"\\{sign}")
        return _is(sign)

    def _set(self) -> _Test:
        negated = self._accept("^")
        tests: list[_Test] = []
        while not self._accept("]") or not tests:
            if self.at >= len(self.pattern):
                raise self._fail("missing ]")
            if self.pattern.startswith("[:", self.at):
                raise self._unsupported("[:")
            if self.pattern[self.at - 1] == "]" and not tests:
                self.at -= 1  # a ] that comes first is a plain character
            low = self.pattern[self.at]
            self.at += 1
            if low == "\\":
                if self.pattern[self.at : self.at + 1].lower() in _CLASSES:
                    tests.append(self._escaped())
                    continue
                low = self._character()
            if self.pattern.startswith("-", self.at) and self.pattern[self.at + 1 : self.at + 2] not in {"]", ""}:
                self.at += 1
                high = self.pattern[self.at]
                self.at += 1
                if high == "\\":
                    high = self._character()
                if high < low:
                    raise self._fail(f"bad range {low}-{high}")
                tests.append(_between(low, high))
            else:
                tests.append(_is(low))
        return lambda c: any(test(c) for test in tests) != negated

    def _character(self) -> str:
        sign = self.pattern[self.at : self.at + 1]
        self.at += 1
        if sign in _PLAIN_ESCAPES:
            return _PLAIN_ESCAPES[sign]
        if not sign or sign.isalnum():
            raise self._unsupported(f"\\{sign}")
        return sign


def _is(sign: str) -> _Test:
    return lambda c: c == sign


def _between(low: str, high: str) -> _Test:
    return lambda c: low <= c <= high


def _emit(tree: Any, program: list[tuple[str, Any, int, int]], pattern: str) -> None:
    """Append the instructions of ``tree``; control leaves them at the end of the program."""
    if len(program) > MAX_INSTRUCTIONS:
        raise UnsupportedExpressionError(f"regular expression {pattern!r}: more than {MAX_INSTRUCTIONS} instructions")
    kind = tree[0]
    if kind in {"char", "anchor"}:
        program.append((kind, tree[1], len(program) + 1, 0))
    elif kind == "all":
        for part in tree[1]:
            _emit(part, program, pattern)
    elif kind == "any":
        _emit_choice(tree[1], program, pattern)
    else:
        _, part, least, most, greedy = tree
        for _ in range(least):
            _emit(part, program, pattern)
        if most is None:
            at = len(program)
            program.append(("split", None, 0, 0))
            _emit(part, program, pattern)
            program.append(("anchor", "always", at, 0))
            program[at] = _split(at + 1, len(program), greedy=greedy)
        else:
            splits = []
            for _ in range(most - least):
                splits.append(len(program))
                program.append(("split", None, 0, 0))
                _emit(part, program, pattern)
            for at in splits:
                program[at] = _split(at + 1, len(program), greedy=greedy)


def _emit_choice(parts: list[Any], program: list[tuple[str, Any, int, int]], pattern: str) -> None:
    ends = []
    for number, part in enumerate(parts):
        at = len(program)
        if number + 1 < len(parts):
            program.append(("split", None, 0, 0))
        _emit(part, program, pattern)
        if number + 1 < len(parts):
            ends.append(len(program))
            program.append(("anchor", "always", 0, 0))
            program[at] = _split(at + 1, len(program), greedy=True)
    for at in ends:
        program[at] = ("anchor", "always", len(program), 0)


def _split(inner: int, outer: int, *, greedy: bool) -> tuple[str, Any, int, int]:
    return ("split", None, inner, outer) if greedy else ("split", None, outer, inner)
