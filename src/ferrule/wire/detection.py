"""Detect which format a chat template is written for, from the markers in its source. Nothing is rendered.

Each `Format` lists `markers`: texts that its chat templates contain. When a template contains the markers of two
formats, the format that lists the other in `beats` wins; if neither does, detection raises `FormatConflictError`. A
template that uses tools but contains no known markers raises `UnknownFormatError`. A template without tools works with
any format that is explained in the prompt, so it gets the generic one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ferrule.errors import FormatConflictError, UnknownFormatError
from ferrule.wire.format import Format
from ferrule.wire.registry import all_formats, get_format
from ferrule.wire.template.chat_template import identifiers_of

FALLBACK = "generic_xml"
# A template that reads none of these neither shows tools to the model nor writes its calls.
_TOOL_WORDS = frozenset({"available_tools", "custom_tools", "functions", "tool_calls", "tools", "xml_tools"})
_BY_HAND = "Set the format explicitly (`ferrule formats` lists them), or write one: docs/how-to/add-a-format.md."


class DetectionMethod(StrEnum):
    """How the format was detected."""

    MARKERS = "markers"
    NO_TOOLS = "no_tools"


@dataclass(frozen=True, slots=True)
class Detection:
    """The format of a template and the evidence for it.

    `markers` are the texts found in the template; `beaten` are the formats whose markers it also contains.
    """

    format: Format
    method: DetectionMethod
    markers: tuple[str, ...] = ()
    beaten: tuple[str, ...] = ()

    @property
    def evidence(self) -> str:
        """The evidence as one sentence."""
        if self.method is DetectionMethod.NO_TOOLS:
            return (
                f"the template has no tool support, so the prompt explains the tools in the format {self.format.name}"
            )
        quoted = " and ".join(repr(mark) for mark in self.markers)
        overruled = f"; it beats {', '.join(self.beaten)}, whose markers it also contains" if self.beaten else ""
        return f"the template contains {quoted}{overruled}"


def detect(template_source: str) -> Detection:
    """Return the format that a chat template is written for.

    Raises `FormatConflictError` if several formats match and `UnknownFormatError` if it uses tools and none matches.
    """
    detection = _match_markers(_with_unescaped(template_source))
    if detection is not None:
        return detection
    used = identifiers_of(template_source) & _TOOL_WORDS
    if used:
        raise UnknownFormatError(
            f"the template uses {', '.join(sorted(used))} but contains the markers of no known format", hint=_BY_HAND
        )
    return Detection(get_format(FALLBACK), DetectionMethod.NO_TOOLS)


def detect_rendered(text: str, *, shows_tools: bool) -> Detection:
    """Detect the format from a rendered conversation with tools and calls, for templates whose source is not available.

    Some servers render a template and do not publish its source.
    """
    detection = _match_markers(text)
    if detection is not None:
        return detection
    if shows_tools:
        raise UnknownFormatError("the template shows tools but writes the markers of no known format", hint=_BY_HAND)
    return Detection(get_format(FALLBACK), DetectionMethod.NO_TOOLS)


def _match_markers(text: str) -> Detection | None:
    """The one format whose markers the text contains, or None."""
    claims = [form for form in all_formats().values() if form.markers and all(mark in text for mark in form.markers)]
    beaten = {name for form in claims for name in form.beats}
    winners = [form for form in claims if form.name not in beaten]
    if len(winners) > 1 or (claims and not winners):
        names = " and ".join(form.name for form in winners or claims)
        raise FormatConflictError(f"the template contains the markers of {names}", hint=_BY_HAND)
    if not winners:
        return None
    (winner,) = winners
    others = tuple(form.name for form in claims if form is not winner)
    return Detection(winner, DetectionMethod.MARKERS, winner.markers, others)


def _with_unescaped(source: str) -> str:
    """The source, followed by the source with its string escapes undone: a marker may appear in either."""
    return source + "\0" + source.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
