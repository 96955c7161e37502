"""Detect: which format a chat template is written for, from the marks that the formats name. It renders nothing.

A template that holds the marks of two formats belongs to the one that says it beats the other; where neither says so
it is refused, and so is one that shows tools in a way that no format knows. A template without tools fits any format
that is explained in the prompt, so it gets the generic one, and the detection says that this is why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ferrule.errors import FormatConflictError, UnknownFormatError
from ferrule.wire.format import Format
from ferrule.wire.registry import formats, get_format
from ferrule.wire.template.chat_template import words_of

FALLBACK = "generic_xml"
# A template that reads none of these neither shows tools to the model nor writes its calls.
_TOOL_WORDS = frozenset({"available_tools", "custom_tools", "functions", "tool_calls", "tools", "xml_tools"})
_BY_HAND = "Name the format by hand (`ferrule formats` lists them), or write one: docs/how-to/add-a-format.md."


class How(StrEnum):
    """By which evidence the format was found."""

    MARKS = "marks"
    NO_TOOLS = "no_tools"


@dataclass(frozen=True, slots=True)
class Detection:
    """The format of a template and the evidence: `marks` were seen; `beaten` are formats whose marks were there too."""

    format: Format
    how: How
    marks: tuple[str, ...] = ()
    beaten: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The evidence in a sentence."""
        if self.how is How.NO_TOOLS:
            return f"the template knows nothing of tools, so they are explained in the prompt, in {self.format.name}"
        seen = " and ".join(repr(mark) for mark in self.marks)
        over = f"; it beats {', '.join(self.beaten)}, whose marks are there too" if self.beaten else ""
        return f"the template holds {seen}{over}"


def detect(template_source: str) -> Detection:
    """The format that a chat template is written for.

    `FormatConflictError` where two formats claim it, `UnknownFormatError` where it has tools and none does.
    """
    found = _claimed(_legible(template_source))
    if found is not None:
        return found
    used = words_of(template_source) & _TOOL_WORDS
    if used:
        raise UnknownFormatError(
            f"the template uses {', '.join(sorted(used))} but holds the marks of no known format", hint=_BY_HAND
        )
    return Detection(get_format(FALLBACK), How.NO_TOOLS)


def detect_rendered(text: str, *, shows_tools: bool) -> Detection:
    """The same from what a template wrote of a conversation with tools and calls, for one that nobody gives out."""
    found = _claimed(text)
    if found is not None:
        return found
    if shows_tools:
        raise UnknownFormatError("the template shows tools but writes the marks of no known format", hint=_BY_HAND)
    return Detection(get_format(FALLBACK), How.NO_TOOLS)


def _claimed(text: str) -> Detection | None:
    """The one format whose marks are in the text."""
    claims = [form for form in formats().values() if form.marks and all(mark in text for mark in form.marks)]
    beaten = {name for form in claims for name in form.beats}
    winners = [form for form in claims if form.name not in beaten]
    if len(winners) > 1 or (claims and not winners):
        names = " and ".join(form.name for form in winners or claims)
        raise FormatConflictError(f"the template holds the marks of {names}", hint=_BY_HAND)
    if not winners:
        return None
    (found,) = winners
    others = tuple(form.name for form in claims if form is not found)
    return Detection(found, How.MARKS, found.marks, others)


def _legible(source: str) -> str:
    """The source as it stands, and again with the escapes of its string literals undone: a mark may be in either."""
    return source + "\0" + source.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
