"""Which characters of a call are forced and which are the model's: `docs/images/skip.svg`, by the rule's own steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ferrule.core.choice import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.rules.skip.steps import Plan
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind
from lab.pages.svg import Box, picture, rectangle, words

_TOOLS = (
    ToolDefinition.build("get_weather")
    .parameter("city", {"type": "string"}, required=True)
    .parameter("days", {"type": "integer"})
    .parameter("unit", {"type": "string", "enum": ["celsius", "fahrenheit"]}, required=True)
    .done(),
    ToolDefinition.build("get_time").parameter("city", {"type": "string"}, required=True).done(),
)
_CALL = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3, "unit": "celsius"}}\n</tool_call>'
)
_ABOUT = "A call with three arguments. What stands in a box is the model's to write; the rest the rule forces."
_WIDTH, _LEFT, _TOP, _LINE, _ADVANCE = 1120, 30, 66, 34, 10.4


def spans(text: str, plan: Plan) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether the model writes it, as an answer by this rule would come about."""
    place = plan.begun()
    while text:
        step = plan.step(place)
        yield step.forced, False
        text = text[len(step.forced) :]
        if step.rule is None:
            return
        ends = [text.find(end) + len(end) for end in step.ends if end in text]
        written = text[: min(ends)] if ends else text
        yield written, True
        text = text[len(written) :]
        found = step.hole.after(written)
        assert found is not None, "the picture's own call is one that the rule admits"
        place = found


def skip_picture() -> str:
    plan = Plan(bind(get_format("hermes"), _TOOLS, ToolChoice.required(), parallel=False))
    marked = [(character, is_chosen) for text, is_chosen in spans(_CALL, plan) for character in text]
    chosen = sum(is_chosen for _, is_chosen in marked)
    parts = [words("forced: appended to the prompt", _LEFT, 34, "small", "start")]
    parts += [rectangle(Box(_LEFT + 300, 30, 26, 20), "end", 4)]
    parts += [words(f"the model's: {chosen} of {len(marked)} characters", _LEFT + 320, 34, "small", "start")]
    line, column = 0, 0
    for is_chosen, run in groupby(marked, key=lambda pair: pair[1]):
        for piece in "".join(character for character, _ in run).splitlines(keepends=True):
            shown = piece.rstrip("\n")
            if shown:
                parts += _drawn(shown, line, column, is_chosen=is_chosen)
            line, column = (line + 1, 0) if piece.endswith("\n") else (line, column + len(piece))
    return picture("What a model writes of a call", _ABOUT, _WIDTH, _TOP + (line + 1) * _LINE + 6, parts)


def _drawn(text: str, line: int, column: int, *, is_chosen: bool) -> Iterator[str]:
    y = _TOP + line * _LINE + 14
    x = _LEFT + column * _ADVANCE
    if is_chosen:
        width = len(text) * _ADVANCE
        yield rectangle(Box(x + width / 2, y - 5, width, 24), "end", 4)
    for at, character in enumerate(text):
        # Each in a place of its own: which fonts a reader has is not known.
        if character != " ":
            yield words(character, x + (at + 0.5) * _ADVANCE, y, "name" if is_chosen else "small")
