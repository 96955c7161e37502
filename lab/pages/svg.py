"""The SVG elements for generated pictures: boxes, arrows and text, in a light and a dark colour scheme.

A picture has its own background, so that it is readable on any page, and follows the colour scheme of the reader's
system. Independent of what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

# All pictures of the documentation use these classes, including those drawn by hand.
STYLE = """
  .ground { fill: #ffffff; stroke: #d5d9e0 }
  .box { fill: #eef3f1; stroke: #4f7f73 }
  .end { fill: #f4f0e6; stroke: #9a7b32 }
  .frame { fill: none; stroke: #9aa3b2; stroke-dasharray: 5 5 }
  .line { fill: none; stroke: #66707f; stroke-width: 1.5 }
  .tip { fill: #66707f }
  text { font: 14px system-ui, sans-serif; fill: #1f2630 }
  .name { font-weight: 600; font-size: 15px }
  .small { font-size: 12.5px; fill: #566070 }
  .label { font-size: 14px; fill: #3d4654; paint-order: stroke; stroke: #ffffff; stroke-width: 5px }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #171b22; stroke: #333b48 }
    .box { fill: #1f2f2c; stroke: #6aa394 }
    .end { fill: #322c1c; stroke: #bd9c4d }
    .frame { stroke: #5d6778 }
    .line { stroke: #98a2b3 }
    .tip { fill: #98a2b3 }
    text { fill: #e8ebf0 }
    .small { fill: #a9b3c2 }
    .label { fill: #c3cad6; stroke: #171b22 }
  }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, given by its centre."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    def edge(self, x: float, y: float) -> tuple[float, float]:
        """The point where a line from the centre towards a point leaves the rectangle."""
        across, down = x - self.x, y - self.y
        if not across and not down:
            return self.x, self.y
        share = 1 / max(abs(across) / (self.width / 2), abs(down) / (self.height / 2))
        return self.x + across * share, self.y + down * share


def picture(title: str, about: str, width: int, height: int, parts: Iterable[str]) -> str:
    """The complete SVG file. Screen readers read `title` and `about`."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-labelledby="title about">\n'
        f'<title id="title">{escape(title)}</title>\n<desc id="about">{escape(about)}</desc>\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0L10 5L0 10z"/></marker></defs>\n'
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def rectangle(box: Box, kind: str = "box", radius: int = 8) -> str:
    return (
        f'<rect class="{kind}" x="{_number(box.left)}" y="{_number(box.top)}" width="{_number(box.width)}"'
        f' height="{_number(box.height)}" rx="{radius}"/>'
    )


def words(text: str, x: float, y: float, kind: str = "", anchor: str = "middle") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}">{escape(text)}</text>'


def arrow(*points: tuple[float, float]) -> str:
    """An arrow: two points make a line, three a quadratic curve, four a cubic curve."""
    letter = {2: "L", 3: "Q", 4: "C"}[len(points)]
    first, *others = (f"{_number(x)} {_number(y)}" for x, y in points)
    return f'<path class="line" d="M{first}{letter}{" ".join(others)}" marker-end="url(#tip)"/>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
