"""Render a bar chart of shares as SVG, readable on light and dark pages. Independent of what the bars mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_LEFT, _WIDTH, _RIGHT, _TOP, _BOTTOM = 190, 420, 90, 76, 30
_BAR, _GAP = 13, 12
# Mid tones that colour-blind readers can distinguish too, on white and on near-black.
_COLOURS: Final = ("#3b82c4", "#d98324", "#5a9e6f", "#a65fa0")
_STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 14px; font-weight: 600; }
.faint { fill: #57606a; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.range { stroke: #24292f; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .faint { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .range { stroke: #e6edf3; }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A share between 0 and 1, its confidence interval, and the label at its end. With share None nothing is drawn."""

    share: float | None
    low: float = 0.0
    high: float = 0.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Bars with a common name, one per series."""

    name: str
    bars: tuple[Bar, ...]


def render_chart(title: str, about: str, series: Sequence[str], groups: Sequence[Group]) -> str:
    """Return the chart as SVG, with the line `about` under the title. Every group has one bar per series."""
    each = len(series) * _BAR + _GAP
    height = _TOP + len(groups) * each + _BOTTOM
    width = _LEFT + _WIDTH + _RIGHT
    end = height - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(f"{title}: {about}")}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="12" y="22">{escape(title)}</text>',
        f'<text class="faint" x="12" y="40">{escape(about)}</text>',
        *_legend(series),
        *_grid(end),
    ]
    for number, group in enumerate(groups):
        parts += _group(group, _TOP + number * each + _GAP / 2, len(series))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(series: Sequence[str]) -> list[str]:
    parts: list[str] = []
    for number, name in enumerate(series):
        x = _LEFT + number * 150
        parts.append(f'<rect x="{x}" y="52" width="10" height="10" rx="2" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
        parts.append(f'<text x="{x + 15}" y="61">{escape(name)}</text>')
    return parts


def _grid(end: float) -> list[str]:
    parts: list[str] = []
    for percent in (0, 25, 50, 75, 100):
        x = _x(percent / 100)
        parts.append(f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{end}"/>')
        parts.append(f'<text class="faint" x="{x}" y="{end + 18}" text-anchor="middle">{percent}%</text>')
    return parts


def _group(group: Group, top: float, width: int) -> list[str]:
    middle = top + width * _BAR / 2 + 4
    parts = [f'<text x="{_LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(group.name)}</text>']
    for number, bar in enumerate(group.bars):
        if bar.share is not None:
            parts += _bar(bar, bar.share, top + number * _BAR, _COLOURS[number % len(_COLOURS)])
    return parts


def _bar(bar: Bar, share: float, y: float, colour: str) -> list[str]:
    line, length = y + _BAR / 2, _x(share) - _LEFT
    end = max(_x(share), _x(bar.high)) + 5
    return [
        f'<rect x="{_LEFT}" y="{y + 1:.1f}" width="{length:.1f}" height="{_BAR - 2}" rx="2" fill="{colour}"/>',
        f'<line class="range" x1="{_x(bar.low)}" y1="{line:.1f}" x2="{_x(bar.high)}" y2="{line:.1f}"/>',
        f'<text class="faint" x="{end:.1f}" y="{line + 4:.1f}">{escape(bar.label)}</text>',
    ]


def _x(share: float) -> float:
    return round(_LEFT + share * _WIDTH, 1)
