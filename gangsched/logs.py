"""Structured logs on standard error: one JSON object per line, or aligned text for people."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

#: The libraries' own chatter below this level says nothing to an operator, unless all is to be seen (debug).
_LIBRARY_LEVELS = {"aiohttp": logging.WARNING, "asyncio": logging.WARNING, "kopf": logging.ERROR}


def configure(style: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Send structlog and the standard library's logging to ``stream`` (standard error) in one form.

    ``style`` is json, console, or auto: console when the stream is a terminal. Libraries that use the standard
    library's logging (kopf, aiohttp, asyncio) come out of the same pipe, with ``logger`` set to their name.
    May be called again; the last call wins.
    """
    out = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = style == "json" or (style == "auto" and not out.isatty())
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.add_logger_name,
        _retried,
        _printable,
    ]
    handler = logging.StreamHandler(out)
    renderers = _renderers(as_json=as_json, colors=not as_json and out.isatty())
    # Not by way of the standard library, which looks at the stack and renders twice: a line for each decided pod would
    # cost a fifth of the decision.
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda name="": _Lines(name, handler),
        cache_logger_on_first_use=False,
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(allow=())],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for name, floor in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(number if number <= logging.DEBUG else max(number, floor))


def get(name: str, **fields: object) -> structlog.typing.FilteringBoundLogger:
    """The logger of this name; ``fields`` stand in all of its lines, as ``gang=ns/name`` in those about a gang."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(name, **fields)
    return logger


class _Lines:
    """Writes the finished lines of the logger ``name`` where those of the standard library's loggers go."""

    def __init__(self, name: str, handler: logging.StreamHandler[TextIO]) -> None:
        self.name = name
        self._handler = handler

    def msg(self, line: str) -> None:
        """Write one line, whole."""
        handler = self._handler
        handler.acquire()
        try:
            handler.stream.write(f"{line}\n")
            handler.flush()
        except (OSError, ValueError):
            pass  # a log that cannot be written must not end what it is about
        finally:
            handler.release()

    debug = info = warning = error = critical = msg


def _renderers(*, as_json: bool, colors: bool) -> list[Processor]:
    if not as_json:
        return [
            structlog.dev.ConsoleRenderer(
                colors=colors,
                pad_event_to=36,
                # The coloured tracebacks print local variables, credentials among them.
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    return [
        structlog.processors.format_exc_info,
        _message_first,
        _as_json,
    ]


#: Characters that may hide or forge lines in a terminal: controls except tab and newline, and marks that turn text.
_HIDDEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")


def _retried(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A request that kopf repeats by itself, as while an API server restarts, is no error yet."""
    said = str(event.get("event", ""))
    if said.startswith("Request attempt") and ("will retry" in said or "will re-authenticate" in said):
        event["level"] = "warning"
    return event


def _printable(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Names and messages of others, with what is not to be seen written as it is in Python."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), value)
    return event


#: Made once: json.dumps with options makes one for every line.
_encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode


def _as_json(_logger: Any, _method: str, event: EventDict) -> str:
    try:
        return _encode(event)
    except (TypeError, ValueError):  # keys that are no strings, cycles, numbers without end: what there is to say stays
        return _encode({key: value if isinstance(value, str) else repr(value) for key, value in event.items()})


def _message_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Time, level and message before everything else: a line is read from the left."""
    ordered = {"time": event.pop("timestamp", None), "level": event.pop("level", None)}
    ordered["message"] = event.pop("event", None)
    return {**ordered, **event}
