"""A chart as one HTML file that loads nothing and runs nothing.

Drawn in SVG, readable in light and dark, its points explained under the pointer, with the table below.
"""

import math
from html import escape

from thinstream.tune.charts import Axis, Chart, Panel, Series

#: Per curve, on light and on dark.
COLOURS = (("#2a7f9e", "#6cc3e0"), ("#c8553d", "#f08a72"), ("#6a8f2f", "#a9cf6b"))
_WIDTH, _HEIGHT = 560, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 18, 20, 76

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2327; --soft: #5c6770; --line: #dfe3e6; --paper: #ffffff; --mark: #b8860b;
  --picked: #fdf3d7; COLOURS0 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7ebee; --soft: #9aa6af; --line: #333b42; --paper: #14181b; --mark: #f0c75e; --picked: #3a3118;
    COLOURS1 } }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; } p { color: var(--soft); margin: .2rem 0 1rem; }
main { display: flex; flex-wrap: wrap; gap: 1rem 2rem; } figure { flex: 1 1 30rem; margin: 0; min-width: 0; }
figcaption { font-weight: 600; }
svg { width: 100%; height: auto; overflow: visible; font-size: 12px; fill: var(--ink); }
.grid { stroke: var(--line); } .base { stroke: var(--soft); } .tick { fill: var(--soft); } .curve { fill: none;
  stroke-width: 2; } .dashed { stroke-dasharray: 6 4; } .bar { stroke-width: 1.2; opacity: .7; }
.point:hover { stroke: var(--ink); stroke-width: 2; } .mark { fill: none; stroke: var(--mark); stroke-width: 2.5; }
SERIES
table { border-collapse: collapse; margin-top: 1.5rem; font-variant-numeric: tabular-nums; }
div { overflow-x: auto; } th, td { padding: .15rem .7rem; text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--soft); }
td { border-bottom: 1px solid var(--line); }
tr.picked td { background: var(--picked); font-weight: 600; }
"""


def page(chart: Chart) -> str:
    """The file's text."""
    panels = "\n".join(
        f"<figure><figcaption>{escape(panel.title)}</figcaption>\n{drawn(panel)}</figure>" for panel in chart.panels
    )
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(chart.title)}</title>\n<style>{_style()}</style>\n"
        f"<h1>{escape(chart.title)}</h1>\n<p>{escape(chart.note)}</p>\n<main>\n{panels}</main>\n{_table(chart)}</html>\n"
    )


def _style() -> str:
    text = _STYLE
    for theme in (0, 1):
        named = " ".join(f"--c{k}: {pair[theme]};" for k, pair in enumerate(COLOURS))
        text = text.replace(f"COLOURS{theme}", named)
    rules = (
        f".s{k} .curve, .s{k} .bar {{ stroke: var(--c{k}); }} .s{k} .point, .s{k} text {{ fill: var(--c{k}); }}"
        for k in range(len(COLOURS))
    )
    return text.replace("SERIES", "\n".join(rules))


def drawn(panel: Panel) -> str:
    """A panel in SVG."""
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(panel.title)}">']
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value, text in panel.y.ticks:
        y = _y(panel.y, value)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    for value, text in panel.x.ticks:
        x = _x(panel.x, value)
        parts.append(f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>')
        for line, word in enumerate(text.split("\n")):
            parts.append(
                f'<text class="tick" x="{x}" y="{bottom + 18 + 15 * line}" text-anchor="middle">{escape(word)}</text>'
            )
    parts.append(f'<line class="base" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 22}" text-anchor="middle">{escape(panel.x.label)}</text>'
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(panel.y.label)}</text>'
    )
    for k, series in enumerate(panel.series):
        parts.append(f'<g class="s{k % len(COLOURS)}">{_curve(panel, series)}</g>')
    if panel.mark is not None:
        x, y, _ = panel.mark
        parts.append(f'<circle class="mark" cx="{_x(panel.x, x)}" cy="{_y(panel.y, y)}" r="8"/>')
    parts.append(_legend(panel))
    return "\n".join([*parts, "</svg>"])


def _curve(panel: Panel, series: Series) -> str:
    places = [
        (_x(panel.x, x), _y(panel.y, y)) if math.isfinite(y) else None
        for x, y in zip(series.x.tolist(), series.y.tolist(), strict=True)
    ]
    known = [place for place in places if place is not None]
    line = " ".join(f"{x},{y}" for x, y in known)
    parts = [f'<polyline class="curve{" dashed" if series.dashed else ""}" points="{line}"/>']
    for k, place in enumerate(places):
        if place is None:
            continue
        x, y = place
        if series.spread is not None:
            ends = [_y(panel.y, float(series.y[k] + sign * series.spread[k])) for sign in (-1, 1)]
            parts.append(f'<line class="bar" x1="{x}" y1="{ends[0]}" x2="{x}" y2="{ends[1]}"/>')
        parts.append(f'<circle class="point" cx="{x}" cy="{y}" r="4"><title>{escape(series.words[k])}</title></circle>')
    return "".join(parts)


def _legend(panel: Panel) -> str:
    """Beneath the axis, side by side: it never lies on a curve."""
    names = [(series.label, f"s{k % len(COLOURS)}") for k, series in enumerate(panel.series)]
    if len(names) < 2 and panel.mark is None:
        return ""
    parts, x, y = [], _LEFT, _HEIGHT - 4
    for label, kind in names:
        parts.append(f'<g class="{kind}"><circle class="point" cx="{x}" cy="{y - 4}" r="4"/>')
        parts.append(f'<text x="{x + 9}" y="{y}">{escape(label)}</text></g>')
        x += 24 + 7 * len(label)
    if panel.mark is not None:
        parts.append(f'<circle class="mark" cx="{x}" cy="{y - 4}" r="5"/><text x="{x + 10}" y="{y}">picked</text>')
    return "".join(parts)


def _table(chart: Chart) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in chart.head)
    lines = []
    for k, row in enumerate(chart.rows):
        kind = ' class="picked"' if k == chart.chosen else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return f"<div><table>\n<tr>{head}</tr>\n" + "\n".join(lines) + "\n</table></div>\n"


def _x(axis: Axis, value: float) -> float:
    return round(_LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT), 1)


def _y(axis: Axis, value: float) -> float:
    return round(_HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM), 1)
