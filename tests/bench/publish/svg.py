"""A little drawing as SVG: marks, and axes on which values have places.

Everything lies on paper of its own, light or dark as the reader's screen is: whoever shows the file as an image does
not tell it what is around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

#: Of the series 0, 1, ...: on light paper, on dark paper. They differ in brightness too, for those who see no colours.
_SERIES = (
    ("#a3adb8", "#6b7682"),
    ("#1f5fd0", "#5b9bff"),
    ("#e08a2c", "#e39a47"),
    ("#2c8a57", "#56b881"),
    ("#a1478f", "#d07ec0"),
)
_LIGHT = {"paper": "#ffffff", "ink": "#1f2328", "soft": "#59636e", "grid": "#e3e7eb", "axis": "#818b98"}
_DARK = {"paper": "#0d1117", "ink": "#f0f6fc", "soft": "#9aa4af", "grid": "#262c34", "axis": "#7d8590"}
#: Pixels of an average letter of the text, for what stands side by side.
LETTER = 6.3


class Axis(NamedTuple):
    """Values from ``low`` to ``high`` have places from ``start`` to ``end``, in pixels."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """The place of a value; what lies beyond an end, at that end."""
        held = min(max(value, self.low), self.high)
        if self.logarithmic:
            part = math.log(held / self.low) / math.log(self.high / self.low)
        else:
            part = (held - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self, steps: Sequence[int] = (1, 2, 5), about: int = 4) -> list[float]:
        """Round values within: with a logarithm ``steps`` times powers of ten, else about so many, evenly spaced."""
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [step * 10.0**decade for decade in decades for step in steps]
        else:
            wide = (self.high - self.low) / about
            power = 10.0 ** math.floor(math.log10(wide))
            step = next(power * n for n in (1, 2, 5, 10) if power * n >= wide * 0.999)
            found = [n * step for n in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]
        return [tick for tick in found if self.low * 0.999 <= tick <= self.high * 1.001]


def round_down(value: float) -> float:
    """The next of 1, 2, 5, 10, ... that is not more."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (5, 2, 1) if n * power <= value * 1.000001)


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, ... that is not less."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= value * 0.999999)


def number(value: float) -> str:
    """As on an axis: no more digits than it has."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def text(x: float, y: float, what: str, kind: str = "", anchor: str = "start") -> str:
    """``what``, left of, right of or around ``x``; kinds are of the style: soft, bold, title."""
    kind = f' class="{kind}"' if kind else ""
    anchor = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}{anchor}>{escape(what)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    """A straight line; kinds: grid, axis, limit, thin."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def box(x: float, y: float, width: float, height: float, series: int) -> str:
    """A filled rectangle in the colour of a series."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="fill{series}"/>'


def arrow(x: float, y: float, width: float, height: float, series: int) -> str:
    """A tip at the end of a bar that goes on further than is drawn."""
    tip = f"{x + width:.1f},{y + height / 2:.1f}"
    return f'<polygon points="{x:.1f},{y:.1f} {tip} {x:.1f},{y + height:.1f}" class="fill{series}"/>'


def paper(x: float, y: float, width: float, height: float) -> str:
    """Nothing, on which something can be written without lines behind it."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="paper"/>'


def path(points: Iterable[tuple[float, float]], series: int, *, dots: bool = False) -> str:
    """A line through these places, with a dot on each if so wanted."""
    places = [(f"{x:.1f}", f"{y:.1f}") for x, y in points]
    drawn = f'<polyline points="{" ".join(",".join(place) for place in places)}" class="line{series}"/>'
    if dots:
        drawn += "".join(f'<circle cx="{x}" cy="{y}" r="2.7" class="fill{series}"/>' for x, y in places)
    return drawn


def legend(x: float, y: float, entries: Iterable[tuple[str, int]]) -> str:
    """Names of series, one beside the other; ``y`` is the line on which the text stands."""
    parts = []
    for name, series in entries:
        parts += [box(x, y - 9, 10, 10, series), text(x + 15, y, name)]
        x += 15 + len(name) * LETTER + 18
    return "".join(parts)


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """The whole file. ``title`` is for those to whom it is read aloud."""
    dark = f"@media(prefers-color-scheme:dark){{{_colours(_DARK, 1)}}}"
    style = (
        "text{font:12px system-ui,-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,'DejaVu Sans',sans-serif}"
        ".bold{font-weight:600}.title{font-size:15px;font-weight:600}"
        f".limit{{stroke-dasharray:4 3}}{_colours(_LIGHT, 0)}{dark}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img"><title>{escape(title)}</title><style>{style}</style>'
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" class="paper"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _colours(of: dict[str, str], paper: int) -> str:
    series = "".join(
        f".fill{n}{{fill:{colours[paper]}}}.line{n}{{stroke:{colours[paper]};fill:none;stroke-width:1.8}}"
        for n, colours in enumerate(_SERIES)
    )
    return (
        f"text{{fill:{of['ink']}}}.soft{{fill:{of['soft']}}}.paper{{fill:{of['paper']}}}.grid{{stroke:{of['grid']}}}"
        f".axis,.limit{{stroke:{of['axis']}}}.thin{{stroke:{of['ink']}}}{series}"
    )
