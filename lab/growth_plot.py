"""Draw how costs grow: small panels with logarithmic axes and a line for each version. Independent of what is drawn."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.pages.svg import Box, picture, rectangle, words

COLOURS: Final = ("#b07d2b", "#2f9e83", "#5b7fc7")
_COLUMNS: Final = 3
_PANEL: Final = (330, 230)
_PLOT: Final = (62, 40, 240, 142)
"""The place of the axes in a panel: left, top, width, height."""
_HEAD: Final = 52


@dataclass(frozen=True, slots=True)
class Panel:
    """One cost: the points of each version, by size, and the goal, if there is one."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    goal: float | None = None


def plot(title: str, x_label: str, y_label: str, panels: Sequence[Panel]) -> str:
    """The picture of all panels. All have the same sizes; each has a scale of its own."""
    labels = list(dict.fromkeys(label for panel in panels for label in panel.lines))
    rows = -(-len(panels) // _COLUMNS)
    width, height = _COLUMNS * _PANEL[0] + 10, _HEAD + rows * _PANEL[1] + 6
    parts = [words(f"{y_label}, by {x_label}", 20, 30, "small", "start")]
    for number, label in enumerate(labels):
        x = width - 120 * (len(labels) - number)
        parts += [_path([(x, 26), (x + 22, 26)], COLOURS[number]), words(label, x + 28, 31, "small", "start")]
    for number, panel in enumerate(panels):
        left, top = number % _COLUMNS * _PANEL[0], _HEAD + number // _COLUMNS * _PANEL[1]
        parts += _draw_panel(panel, labels, left, top)
    about = f"{y_label}, by {x_label}: " + "; ".join(_spoken(panel) for panel in panels)
    return picture(title, about, width, height, parts)


def _spoken(panel: Panel) -> str:
    lines = [f"{label} {line[0][1]:.3g} to {line[-1][1]:.3g}" for label, line in panel.lines.items() if line]
    return f"{panel.title}, {', '.join(lines)}"


def decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around values: at least one decade, and no value on or beyond an edge's far side."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _draw_panel(panel: Panel, labels: Sequence[str], left: float, top: float) -> Iterator[str]:
    points = [point for line in panel.lines.values() for point in line]
    if not points:
        return
    goals = [panel.goal] if panel.goal else []
    x_range, y_range = decades([x for x, _ in points]), decades([*(y for _, y in points), *goals])
    plot_left, plot_top, width, height = left + _PLOT[0], top + _PLOT[1], _PLOT[2], _PLOT[3]

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x_range[0]) / (x_range[1] - x_range[0])
        up = (math.log10(y) - y_range[0]) / (y_range[1] - y_range[0])
        return plot_left + across * width, plot_top + (1 - up) * height

    yield rectangle(Box(plot_left + width / 2, plot_top + height / 2, width, height), "frame", 0)
    yield words(panel.title, plot_left, plot_top - 12, "name", "start")
    for power in range(y_range[0], y_range[1] + 1):
        yield words(_power(power), plot_left - 8, place(10 ** x_range[0], 10**power)[1] + 4, "small", "end")
    for power in range(x_range[0], x_range[1] + 1):
        yield words(_power(power), place(10**power, 1.0)[0], plot_top + height + 18, "small")
    if panel.goal:
        ends = [place(10**power, panel.goal) for power in x_range]
        yield _path(ends, "#c0504d", dashes=True)
        yield words("goal", ends[1][0] - 4, ends[1][1] - 5, "small", "end")
    for label, line in panel.lines.items():
        colour = COLOURS[labels.index(label) % len(COLOURS)]
        yield _path([place(*point) for point in line], colour)
        for point in line:
            x, y = place(*point)
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'


def _power(power: int) -> str:
    """A power of ten as a short number."""
    if power >= 6:
        return f"{10 ** (power - 6):,}M"
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"


def _path(points: Sequence[tuple[float, float]], colour: str, *, dashes: bool = False) -> str:
    line = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(points))
    dashed = ' stroke-dasharray="4 4"' if dashes else ""
    return f'<path fill="none" stroke="{colour}" stroke-width="{1 if dashes else 2}"{dashed} d="{line}"/>'
