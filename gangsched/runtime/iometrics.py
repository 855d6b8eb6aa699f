"""Metrics of the I/O side: what the cluster adapter measures, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

#: By what is measured: labels and meaning. Durations are in seconds, counts are of what has just happened.
_DURATIONS = {
    "api_request_seconds": (
        ("verb", "code"),
        "One HTTP attempt at the API server, watches left out; code 0 when there was no answer.",
    ),
    "write_seconds": (
        ("kind", "outcome"),
        (
            "One write from asking for it to its answer, rate limit and retries included. Outcomes: ok, gone, "
            "conflict, outdated, refused, blocked, transient."
        ),
    ),
    "list_seconds": (("resource",), "One complete listing of a resource."),
    "io_loop_lag_seconds": ((), "How late a timer of the I/O loop fired, one every second."),
}
_COUNTS = {
    "reports_dropped": (
        ("reason",),
        "Events and conditions that were not written: replaced, repeated, overload, abandoned, failed.",
    ),
    "watch_ended": (("resource", "reason"), "Watches that ended and were started again, or listed anew."),
    "watch_events": (("resource",), "Changes that watches have brought."),
    "objects_refused": (("resource",), "Objects that could not be understood."),
}
_LEVELS = {
    "writes_waiting": (("lane",), "Writes that wait to be sent: lane write, and lane low for Events and conditions."),
    "leader": ((), "1 while this process may write, else 0."),
    "inbox_events": ((), "Changes and answers that the decision thread has not taken yet."),
}


class IoMetrics:
    """An :class:`~gangsched.cluster.kube.measuring.Observe`: call it with a measurement."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._metrics: dict[str, Histogram | Counter | Gauge] = {}
        for name, (labels, text) in _DURATIONS.items():
            buckets = _LAG if "lag" in name else _SECONDS
            self._metrics[name] = Histogram(f"gangsched_{name}", text, labels, registry=registry, buckets=buckets)
        for name, (labels, text) in _COUNTS.items():
            self._metrics[name] = Counter(f"gangsched_{name}", text, labels, registry=registry)
        for name, (labels, text) in _LEVELS.items():
            self._metrics[name] = Gauge(f"gangsched_{name}", text, labels, registry=registry)
        self._notes: dict[tuple[str, tuple[tuple[str, str], ...]], Callable[[float], None]] = {}

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        key = (name, tuple(labels.items()))
        note = self._notes.get(key)
        if note is None:
            note = self._notes[key] = self._note(name, labels)
        note(value)

    def _note(self, name: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """What takes the values of one time series; finding it takes longer than noting a value."""
        series = self._metrics[name].labels(**labels) if labels else self._metrics[name]
        if isinstance(series, Histogram):
            return series.observe
        return series.inc if isinstance(series, Counter) else series.set
