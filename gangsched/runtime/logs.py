"""Structured logs on standard error: one JSON object per line, or aligned text for people."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

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
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder(allow=())],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(as_json=as_json, colors=not as_json and out.isatty()),
            ],
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


def get(component: str, **context: object) -> structlog.typing.FilteringBoundLogger:
    """A logger of a part of this program; lines about a gang carry ``gang=ns/name``."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(f"gangsched.{component}", **context)
    return logger


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
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]


def _message_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Time, level and message before everything else: a line is read from the left."""
    ordered = {"time": event.pop("timestamp", None), "level": event.pop("level", None)}
    ordered["message"] = event.pop("event", None)
    return {**ordered, **event}
