"""How costs grow with the cluster, as a picture with a logarithm on both axes: a straight line is a power law."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.bench.publish import svg

_WIDTH, _MARGIN, _CHART, _HIGH = 880.0, 24.0, 560.0, 230.0
#: The first chart begins there; another one each so many pixels below.
_TOP, _BELOW = 96.0, 300.0
#: Names at the ends of the curves are kept so far apart.
_APART = 14.0


class Curve(NamedTuple):
    """A name and a value for each size; ``power`` is the exponent, None where there is only one size."""

    name: str
    values: Sequence[float]
    power: float | None


class Chart(NamedTuple):
    """Curves of one unit."""

    title: str
    curves: Sequence[Curve]


def picture(pods: Sequence[int], charts: Sequence[Chart], about: str) -> str:
    """An SVG: charts one below the other over the number of pods. ``about`` says where and when it was measured."""
    title = "How costs grow with the cluster"
    parts = [
        svg.text(_MARGIN, 32, title, "title"),
        svg.text(_MARGIN, 50, "Both axes are logarithmic. ^1 is linear in the number of pods, ^0 constant.", "soft"),
    ]
    for n, chart in enumerate(charts):
        parts += _chart(_TOP + n * _BELOW, pods, chart)
    bottom = _TOP + len(charts) * _BELOW
    parts.append(svg.text(_MARGIN + 40 + _CHART / 2, bottom - 32, "pods, 20 on each node", "soft", "middle"))
    parts.append(svg.text(_MARGIN, bottom, about, "soft"))
    return svg.document(_WIDTH, bottom + 18, title, parts)


def _chart(top: float, pods: Sequence[int], chart: Chart) -> list[str]:
    left, bottom = _MARGIN + 40, top + _HIGH
    values = [value for curve in chart.curves for value in curve.values if value > 0]
    across = svg.Axis(svg.round_down(pods[0]), max(pods[-1], pods[0] * 2), left, left + _CHART, logarithmic=True)
    low, high = svg.round_down(min(values)), svg.round_up(max(values))
    up = svg.Axis(low, max(high, 2 * low), bottom, top, logarithmic=True)
    parts = [svg.text(left - 40, top - 14, chart.title)]
    for tick in up.ticks():
        parts.append(svg.line(left, up.at(tick), left + _CHART, up.at(tick), "axis" if tick == low else "grid"))
        parts.append(svg.text(left - 6, up.at(tick) + 4, svg.number(tick), "soft", "end"))
    for size in pods:
        x = across.at(size)
        parts.append(svg.line(x, top, x, bottom + 4, "grid"))
        parts.append(svg.text(x, bottom + 17, _short(size), "soft", "middle"))
    ends = _spread([up.at(curve.values[-1]) for curve in chart.curves])
    for series, (curve, y) in enumerate(zip(chart.curves, ends, strict=True)):
        points = [(across.at(size), up.at(value)) for size, value in zip(pods, curve.values, strict=True)]
        parts.append(svg.path(points, series, dots=True))
        power = "" if curve.power is None else f"  ^{curve.power:.2f}"
        parts.append(svg.text(left + _CHART + 8, y + 4, f"{curve.name}{power}"))
    return parts


def _short(size: int) -> str:
    return f"{size // 1000}k" if size % 1000 == 0 else f"{size:,}"


def _spread(places: Sequence[float]) -> list[float]:
    """The places, moved so that none is on another: in their order, each at least so far below the one above it."""
    out = list(places)
    order = sorted(range(len(out)), key=out.__getitem__)
    for above, below in pairwise(order):
        out[below] = max(out[below], out[above] + _APART)
    return out
