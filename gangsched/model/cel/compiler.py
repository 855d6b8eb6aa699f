"""Check an expression's types and turn its tree into closures.

Types are those that are known before anything runs: attributes of devices are ``dyn``, and lists and maps do not know
what they hold. Overloads are chosen among those that the static types allow, by the types of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from gangsched.model.cel import functions
from gangsched.model.cel.functions import BOOL, INT, LIST, MAP, OPTIONAL, STRING, TYPE, Overload
from gangsched.model.cel.regex import compile_regex
from gangsched.model.cel.syntax import Call, Index, ListOf, Literal, MapOf, Name, Node, Select
from gangsched.model.cel.values import (
    DYN,
    NONE,
    CostExceededError,
    EvaluationError,
    ExpressionError,
    Optional,
    TypeName,
    UnsupportedExpressionError,
    contains,
    equal,
    lookup,
    type_of,
)

#: The type of the variable ``device`` and those of its fields.
DEVICE = "device"
DEVICE_FIELDS = {"driver": STRING, "attributes": MAP, "capacity": MAP, "allowMultipleAllocations": BOOL}
#: Steps of one evaluation; upstream limits its own cost units by the same number.
COST_LIMIT = 1_000_000


class Frame:
    """The variables of one evaluation, and the steps that it took."""

    __slots__ = ("cost", "variables")

    def __init__(self, **variables: Any) -> None:
        self.variables: dict[str, Any] = variables
        self.cost = 0

    def charge(self, steps: int) -> None:
        """Count steps. Raises :class:`CostExceededError` when there are too many."""
        self.cost += steps
        if self.cost > COST_LIMIT:
            raise CostExceededError(f"more than {COST_LIMIT} steps")


Run: TypeAlias = Callable[[Frame], Any]
_Scope: TypeAlias = dict[str, str]


class Code(NamedTuple):
    """The compiled expression, and the static type of its result."""

    run: Run
    kind: str


def compile_tree(tree: Node, scope: _Scope) -> Code:
    """Return the code of a tree whose free variables have these types. Raises :class:`ExpressionError`."""
    match tree:
        case Literal(value):
            return Code(lambda _: value, type_of(value))
        case Name(name):
            return _variable(name, scope)
        case Select():
            return _select(tree, scope)
        case Index():
            return _index(tree, scope)
        case ListOf(elements):
            return _list(elements, scope)
        case MapOf(entries):
            return _map(entries, scope)
        case Call():
            return _call(tree, scope)


def _variable(name: str, scope: _Scope) -> Code:
    if name in scope:

        def run(frame: Frame) -> Any:
            frame.charge(1)
            return frame.variables[name]

        return Code(run, scope[name])
    if name in functions.TYPES:
        return Code(lambda _: TypeName(name), TYPE)
    raise ExpressionError(f"undeclared reference to {name!r}")


def _select(tree: Select, scope: _Scope) -> Code:
    operand, field = compile_tree(tree.operand, scope), tree.field
    inner = operand.run
    if operand.kind == DEVICE:
        if field not in DEVICE_FIELDS:
            raise ExpressionError(f"undefined field {field!r}")
        plain = Code(lambda frame: inner(frame)[field], DEVICE_FIELDS[field])
        return Code(lambda frame: Optional(inner(frame)[field]), OPTIONAL) if tree.optional else plain
    if operand.kind not in {MAP, DYN, OPTIONAL}:
        raise ExpressionError(f"type {operand.kind} does not support field selection")
    return _read(inner, lambda _: field, optional=tree.optional)


def _index(tree: Index, scope: _Scope) -> Code:
    operand, key = compile_tree(tree.operand, scope), compile_tree(tree.key, scope)
    if operand.kind not in {MAP, DYN, OPTIONAL} and not operand.kind.startswith(LIST):
        raise ExpressionError(f"found no matching overload for '_[_]' applied to {operand.kind}")
    return _read(operand.run, key.run, optional=tree.optional)


def _read(inner: Run, key: Run, *, optional: bool) -> Code:
    def run(frame: Frame) -> Any:
        container = inner(frame)
        frame.charge(1)
        if type(container) is Optional:
            return _present(container.value, key(frame)) if container.present else NONE
        return _present(container, key(frame)) if optional else lookup(container, key(frame))

    return Code(run, OPTIONAL if optional else DYN)


def _present(container: Any, key: Any) -> Optional:
    """What is under a key, if anything is."""
    if type(container) is list:
        return Optional(container[key]) if type(key) is int and 0 <= key < len(container) else NONE
    if not isinstance(container, dict):
        raise EvaluationError(f"no such overload: {type_of(container)}[?{type_of(key)}]")
    return Optional(lookup(container, key)) if contains(key, container) else NONE


def _list(elements: Sequence[tuple[Node, bool]], scope: _Scope) -> Code:
    made = [(compile_tree(node, scope), optional) for node, optional in elements]
    codes = [(code.run, optional) for code, optional in made]
    element = _one_kind([DYN if optional else code.kind for code, optional in made])

    def run(frame: Frame) -> list[Any]:
        frame.charge(1 + len(codes))
        out = []
        for code, optional in codes:
            value = code(frame)
            if not optional:
                out.append(value)
            elif value.present:
                out.append(value.value)
        return out

    return Code(run, f"list({element})")


def _one_kind(kinds: Sequence[str]) -> str:
    """The type of all elements. Kubernetes allows no literals of mixed types."""
    for kind in kinds:
        if kind != kinds[0]:
            raise ExpressionError(f"expected type {kinds[0]!r} but found {kind!r}")
    return kinds[0] if kinds else DYN


def _element(kind: str) -> str:
    """The type of a list's elements, or of a map's keys."""
    return kind[5:-1] if kind.startswith("list(") else DYN


def _map(entries: Sequence[tuple[Node, Node, bool]], scope: _Scope) -> Code:
    codes = [(compile_tree(k, scope).run, compile_tree(v, scope).run, optional) for k, v, optional in entries]

    def run(frame: Frame) -> dict[Any, Any]:
        frame.charge(1 + len(codes))
        out: dict[Any, Any] = {}
        for key_code, code, optional in codes:
            key, value = key_code(frame), code(frame)
            if type_of(key) not in {BOOL, INT, "uint", STRING}:
                raise EvaluationError(f"unsupported key type: {type_of(key)}")
            if not optional or value.present:
                out[key] = value.value if optional else value
        return out

    return Code(run, MAP)


# -- calls -------------------------------------------------------------------------------------------------------------


def _call(tree: Call, scope: _Scope) -> Code:
    name, target = tree.function, tree.target
    if target is None and name in _SPECIAL:
        return _SPECIAL[name](tree.args, scope)
    if isinstance(target, Name) and target.name not in scope:
        if (target.name, name) == ("cel", "bind"):
            return _bind(tree.args, scope)
        return _overloaded(f"{target.name}.{name}", functions.FUNCTIONS, tree.args, scope)
    if target is None:
        return _overloaded(name, functions.FUNCTIONS, tree.args, scope)
    if name in _MACROS and len(tree.args) in _MACROS[name][0]:
        return _MACROS[name][1](name, target, tree.args, scope)
    return _overloaded(name, functions.METHODS, (target, *tree.args), scope)


def _overloaded(name: str, table: dict[str, list[Overload]], args: Sequence[Node], scope: _Scope) -> Code:
    if name not in table:
        raise UnsupportedExpressionError(f"the function {name}() is not supported")
    codes = [compile_tree(arg, scope) for arg in args]
    kinds = [code.kind for code in codes]
    found = [o for o in table[name] if len(o.params) == len(kinds) and all(map(functions.fits, kinds, o.params))]
    if not found or (name == "in" and not functions.alike(kinds[0], _element(kinds[1]))):
        raise ExpressionError(f"found no matching overload for {name!r} applied to ({', '.join(kinds)})")
    if name in {"matches", "find", "findAll"} and isinstance(args[1], Literal):
        compile_regex(args[1].value)
    if name in _CONVERSIONS and isinstance(args[0], Literal):
        value = args[0].value
        try:
            found[0].run(value)
        except EvaluationError as error:
            raise ExpressionError(str(error)) from None
    results = {overload.result for overload in found}
    runs = [code.run for code in codes]

    def run(frame: Frame) -> Any:
        values = [each(frame) for each in runs]
        frame.charge(1 + sum(_size(value) for value in values) // 10)
        if name in {"matches", "find", "findAll"}:
            frame.charge((_size(values[0]) + 1) * (_size(values[1]) + 1))
        types = [type_of(value) for value in values]
        for overload in found:
            if all(map(functions.fits, types, overload.params)):
                return overload.run(*values)
        raise EvaluationError(f"no such overload: {name}({', '.join(types)})")

    return Code(run, results.pop() if len(results) == 1 else DYN)


#: Of these Kubernetes refuses a literal that cannot be converted before anything runs.
_CONVERSIONS = frozenset({"int", "uint", "double", "bool"})


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (str, list, dict)) else 0


def _equality(args: Sequence[Node], scope: _Scope, *, negated: bool) -> Code:
    left, right = (compile_tree(arg, scope) for arg in args)
    if not functions.alike(left.kind, right.kind):
        raise ExpressionError(f"found no matching overload for '_==_' applied to ({left.kind}, {right.kind})")

    def run(frame: Frame) -> bool:
        a, b = left.run(frame), right.run(frame)
        frame.charge(1 + min(_size(a), _size(b)) // 10)
        try:
            return equal(a, b) != negated
        except EvaluationError:
            if negated:  # cel-go takes what cannot be compared as different
                return True
            raise

    return Code(run, BOOL)


def _logic(args: Sequence[Node], scope: _Scope, *, deciding: bool) -> Code:
    """``||`` is decided by true, ``&&`` by false, whatever the other side is, an error included."""
    left, right = (_boolean(compile_tree(arg, scope)) for arg in args)

    def run(frame: Frame) -> bool:
        try:
            first = left(frame)
        except EvaluationError:
            if right(frame) is deciding:
                return deciding
            raise
        return deciding if first is deciding else right(frame)

    return Code(run, BOOL)


def _boolean(code: Code) -> Callable[[Frame], bool]:
    if code.kind == BOOL:
        return code.run
    if code.kind != DYN:
        raise ExpressionError(f"found no matching overload: {code.kind} where a bool is needed")
    inner = code.run

    def run(frame: Frame) -> bool:
        value = inner(frame)
        if type(value) is not bool:
            raise EvaluationError(f"no such overload: {type_of(value)} where a bool is needed")
        return value

    return run


def _conditional(args: Sequence[Node], scope: _Scope) -> Code:
    condition = _boolean(compile_tree(args[0], scope))
    yes, no = compile_tree(args[1], scope), compile_tree(args[2], scope)
    if not functions.alike(yes.kind, no.kind):
        raise ExpressionError(f"found no matching overload for '_?_:_' applied to ({yes.kind}, {no.kind})")
    return Code(
        lambda frame: yes.run(frame) if condition(frame) else no.run(frame), yes.kind if yes.kind == no.kind else DYN
    )


def _has(args: Sequence[Node], scope: _Scope) -> Code:
    if len(args) != 1 or not isinstance(args[0], Select) or args[0].optional:
        raise ExpressionError("invalid argument to has() macro")
    operand, field = compile_tree(args[0].operand, scope), args[0].field
    if operand.kind == DEVICE:
        if field not in DEVICE_FIELDS:
            raise ExpressionError(f"undefined field {field!r}")
        return Code(lambda _: True, BOOL)

    def run(frame: Frame) -> bool:
        container = operand.run(frame)
        frame.charge(1)
        if type(container) is Optional:
            return container.present and _present(container.value, field).present
        return _present(container, field).present

    return Code(run, BOOL)


# -- macros that bind variables ----------------------------------------------------------------------------------------


def _bind(args: Sequence[Node], scope: _Scope) -> Code:
    if len(args) != 3:
        raise ExpressionError("cel.bind takes a name, a value and an expression")
    name, value = _names(args[:1])[0], compile_tree(args[1], scope)
    body = compile_tree(args[2], {**scope, name: value.kind})
    return Code(lambda frame: _with(frame, body.run, {name: value.run(frame)}), body.kind)


def _with(frame: Frame, run: Run, bound: dict[str, Any]) -> Any:
    """Run with further variables, which hide others of the same names."""
    outer = frame.variables
    frame.variables = {**outer, **bound}
    try:
        return run(frame)
    finally:
        frame.variables = outer


def _names(args: Sequence[Node]) -> list[str]:
    names = [arg.name for arg in args if isinstance(arg, Name)]
    if len(names) < len(args) or len(set(names)) < len(names):
        raise ExpressionError("a macro's variable must be a simple name")
    return names


def _items(frame: Frame, value: Any, count: int) -> list[tuple[Any, ...]]:
    """The items of a comprehension: elements or keys, or with two variables also indices or values."""
    if isinstance(value, dict):
        out: list[tuple[Any, ...]] = list(value.items()) if count == 2 else [(key,) for key in value]
    elif isinstance(value, list):
        out = list(enumerate(value)) if count == 2 else [(each,) for each in value]
    else:
        raise EvaluationError(f"got {type_of(value)!r}, expected iterable type")
    frame.charge(1)
    return out


def _range(target: Node, names: Sequence[str], scope: _Scope) -> tuple[Callable[[Frame], list[Any]], _Scope]:
    """The code that sets the variables of each round, and the scope of the rounds."""
    inner = compile_tree(target, scope)
    if inner.kind not in {MAP, DYN} and not inner.kind.startswith(LIST):
        raise ExpressionError(f"expression of type {inner.kind} cannot be range of a comprehension")

    def rounds(frame: Frame) -> list[Any]:
        found = _items(frame, inner.run(frame), len(names))
        return [dict(zip(names, each, strict=True)) for each in found]

    return rounds, {**scope, **dict.fromkeys(names, DYN), names[-1]: _element(inner.kind)}


def _quantifier(name: str, target: Node, args: Sequence[Node], scope: _Scope) -> Code:
    rounds, inside = _range(target, _names(args[:-1]), scope)
    test = _boolean(compile_tree(args[-1], inside))
    if name in {"exists_one", "existsOne"}:

        def count(frame: Frame) -> bool:
            return sum(bool(_step(frame, test, bound)) for bound in rounds(frame)) == 1

        return Code(count, BOOL)
    deciding = name == "exists"

    def run(frame: Frame) -> bool:
        error: EvaluationError | None = None
        for bound in rounds(frame):
            try:
                if bool(_step(frame, test, bound)) == deciding:
                    return deciding
            except EvaluationError as found:
                error = found
        if error is not None:
            raise error
        return not deciding

    return Code(run, BOOL)


def _step(frame: Frame, run: Run, bound: dict[str, Any]) -> Any:
    frame.charge(2)
    return _with(frame, run, bound)


def _map_or_filter(name: str, target: Node, args: Sequence[Node], scope: _Scope) -> Code:
    """``map(x, e)``, ``map(x, test, e)`` and ``filter(x, test)``."""
    rounds, inside = _range(target, _names(args[:1]), scope)
    tests = [_boolean(compile_tree(args[1], inside))] if name == "filter" or len(args) == 3 else []
    made = compile_tree(args[0] if name == "filter" else args[-1], inside)

    def run(frame: Frame) -> list[Any]:
        return [
            _step(frame, made.run, bound) for bound in rounds(frame) if all(_step(frame, test, bound) for test in tests)
        ]

    return Code(run, f"list({made.kind})")


def _optional_map(name: str, target: Node, args: Sequence[Node], scope: _Scope) -> Code:
    inner, variable = compile_tree(target, scope), _names(args[:1])[0]
    if inner.kind not in {OPTIONAL, DYN}:
        raise ExpressionError(f"found no matching overload for {name!r} applied to {inner.kind}")
    body = compile_tree(args[1], {**scope, variable: DYN})

    def run(frame: Frame) -> Any:
        found = inner.run(frame)
        if type(found) is not Optional:
            raise EvaluationError(f"no such overload: {type_of(found)}.{name}")
        if not found.present:
            return NONE
        value = _with(frame, body.run, {variable: found.value})
        return value if name == "optFlatMap" else Optional(value)

    return Code(run, OPTIONAL)


def _or_else(name: str, target: Node, args: Sequence[Node], scope: _Scope) -> Code:
    """``a.orValue(b)`` and ``a.or(b)``: b is evaluated only if a is absent."""
    inner, other = compile_tree(target, scope), compile_tree(args[0], scope)
    if inner.kind not in {OPTIONAL, DYN}:
        raise ExpressionError(f"found no matching overload for {name!r} applied to {inner.kind}")

    def run(frame: Frame) -> Any:
        found = inner.run(frame)
        if type(found) is not Optional:
            raise EvaluationError(f"no such overload: {type_of(found)}.{name}")
        if not found.present:
            return other.run(frame)
        return found if name == "or" else found.value

    return Code(run, OPTIONAL if name == "or" else DYN)


_SPECIAL: dict[str, Callable[[Sequence[Node], _Scope], Code]] = {
    "==": lambda args, scope: _equality(args, scope, negated=False),
    "!=": lambda args, scope: _equality(args, scope, negated=True),
    "||": lambda args, scope: _logic(args, scope, deciding=True),
    "&&": lambda args, scope: _logic(args, scope, deciding=False),
    "?:": _conditional,
    "has": _has,
}
#: Macros with a target: how many arguments they have, and what makes their code.
_MACROS: dict[str, tuple[tuple[int, ...], Callable[[str, Node, Sequence[Node], _Scope], Code]]] = {
    **dict.fromkeys(("all", "exists", "exists_one", "existsOne"), ((2, 3), _quantifier)),
    "map": ((2, 3), _map_or_filter),
    "filter": ((2,), _map_or_filter),
    "optMap": ((2,), _optional_map),
    "optFlatMap": ((2,), _optional_map),
    "orValue": ((1,), _or_else),
    "or": ((1,), _or_else),
}
