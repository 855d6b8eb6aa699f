"""Which functions of the core a life calls, and how one of them is made to raise."""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import gangsched.core
from gangsched.core.events import Changed, Gone
from gangsched.core.lifecycle.group import Group
from gangsched.model.records import GangId
from tests.injected.life import Inside, Life

_ROOT = gangsched.core.__path__[0]


class InjectedError(Exception):
    """What the functions raise."""


class Place(NamedTuple):
    """Where a function of the core is found: a class or module, and its name there."""

    owner: type | ModuleType
    name: str

    def __str__(self) -> str:
        module = self.owner.__name__ if isinstance(self.owner, ModuleType) else self.owner.__module__
        inside = "" if isinstance(self.owner, ModuleType) else f"{self.owner.__name__}."
        return f"{module.removeprefix('gangsched.core.')}:{inside}{self.name}"


def called() -> dict[Place, int]:
    """The functions of the core that a life calls, each with how often; those that are defined in others are left
    out, and those of the scheduler that only ask others.
    """
    counts: Counter[CodeType] = Counter()

    def note(frame: FrameType, what: str, _: object) -> None:
        if what == "call" and Inside.depth and frame.f_code.co_filename.startswith(_ROOT):
            counts[frame.f_code] += 1

    life = Life(contained=False)
    sys.setprofile(note)
    try:
        life.run()
    finally:
        sys.setprofile(None)
    places = _places()
    found = {places[code]: count for code, count in counts.items() if code in places}
    return dict(sorted(found.items(), key=lambda each: str(each[0])))


def _places() -> dict[CodeType, Place]:
    out: dict[CodeType, Place] = {}
    for module in [m for name, m in sorted(sys.modules.items()) if name.startswith("gangsched.core")]:
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                out[value.__code__] = Place(module, name)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                for inner, made in vars(value).items():
                    function = _function(made)
                    if function is not None and not (inner.startswith("__") and inner != "__init__"):
                        out[function.__code__] = Place(value, inner)
    return out


def _function(made: object) -> FunctionType | None:
    if isinstance(made, property):
        made = made.fget
    elif isinstance(made, staticmethod | classmethod):
        made = made.__func__
    return made if isinstance(made, FunctionType) else None


@contextlib.contextmanager
def raising(place: Place, when: Callable[[tuple[Any, ...]], bool]) -> Iterator[list[int]]:
    """Inside, the function raises ``when`` that says so of its arguments; yields a list with an entry for each time."""
    raised: list[int] = []
    made = vars(place.owner)[place.name]
    right = _function(made)
    assert right is not None

    @functools.wraps(right)
    def wrong(*args: Any, **named: Any) -> Any:
        if Inside.depth and when((*args, *named.values())):
            raised.append(1)
            raise InjectedError(str(place))
        return right(*args, **named)

    owners: list[type | ModuleType] = [place.owner]
    replacement: Any = wrong
    if isinstance(made, property):
        replacement = property(wrong)
    elif isinstance(made, staticmethod | classmethod):
        replacement = type(made)(wrong)
    elif isinstance(place.owner, ModuleType):  # others have imported it by its name
        owners = [m for n, m in sys.modules.items() if n.startswith("gangsched") and vars(m).get(place.name) is made]
    for owner in owners:
        setattr(owner, place.name, replacement)
    try:
        yield raised
    finally:
        for owner in owners:
            setattr(owner, place.name, made)


def at_call(number: int) -> Callable[[tuple[Any, ...]], bool]:
    """True for the call of this number, from 0."""
    calls = iter(range(sys.maxsize))
    return lambda _: next(calls) == number


#: One object, or one gang with its members, by the names of these.
EVILS = {
    "bound": ("evil-bound",),
    "plain": ("evil-plain",),
    "gang": ("evil", "evil-0", "evil-1"),
    "high": ("evil-high", "evil-high-0", "evil-high-1"),
    "job": ("evil-job", "evil-job-0"),
    "budget": ("evil-budget",),
    "node": ("evil-node",),
}


def about(evil: str) -> Callable[[tuple[Any, ...]], bool]:
    """True if the function is called with this object, its gang or its name."""
    names = EVILS[evil]
    texts = {text for name in names for text in (name, f"uid-d-{name}", f"d/{name}")}
    return lambda args: any(_is_about(value, texts) for value in args)


def _is_about(value: object, texts: set[str]) -> bool:
    match value:
        case str():
            return value in texts
        case Group():
            return any(_is_about(gang, texts) for gang in getattr(value, "gangs", ()))  # it may be about to be made
        case GangId():
            return value[2] in texts
        case Changed(record):
            return getattr(record, "name", "") in texts
        case Gone(_, _, name):
            return name in texts
        case tuple():
            return 0 < len(value) < 4 and any(_is_about(each, texts) for each in value)
        case Mapping():
            return False
    return getattr(value, "name", "") in texts if isinstance(getattr(value, "name", None), str) else False


def differences(life: Life, expected: Life) -> list[str]:
    """How this life ended otherwise than the one without errors, evil objects left out."""
    pending = [f"{name} is pending" for name in life.pending() if name not in expected.pending()]
    return pending + life.left_behind()


#: At which calls an error comes: at one of them, or at each that is about one object.
MODES = ("first", "middle", "last", *EVILS)


def outcome(place: Place, count: int, expected: Life, mode: str) -> tuple[str, str]:
    """What comes of an error in this function: a word, in capitals if others are concerned, and what it is about."""
    calls = {"first": 0, "middle": count // 2, "last": count - 1}
    when = about(mode) if mode in EVILS else at_call(calls[mode])
    with raising(place, when) as raised:
        life = Life()
        try:
            life.run()
        except Exception as error:  # noqa: BLE001 - that is what is to be found out
            last = traceback.extract_tb(error.__traceback__)[-1]
            return "ENDS", f"{type(error).__name__}: {error} at {last.name} ({last.filename}:{last.lineno})"
    if not raised:
        return "-", ""
    wrong = differences(life, expected)
    return ("WRONG", "; ".join(wrong)) if wrong else ("ok", f"{len(raised)} raised, {len(life.faults.lines)} faults")
