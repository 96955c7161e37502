"""Draw which characters of a call are forced and which the model writes, `docs/images/skip.svg`, from the rule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.rules.skip.steps import SkipPlan
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
_ABOUT = "A call with three arguments. The model writes the text in boxes; the rule forces the rest."
_WIDTH, _LEFT, _TOP, _LINE, _ADVANCE = 1120, 30, 66, 34, 10.4


def spans(text: str, plan: SkipPlan) -> Iterator[tuple[str, bool]]:
    """Split the text into pieces, each with whether the model writes it under this rule."""
    place = plan.start()
    while text:
        step = plan.step(place)
        yield step.forced_text, False
        text = text[len(step.forced_text) :]
        if step.rule is None:
            return
        ends = [text.find(end) + len(end) for end in step.ends if end in text]
        prefix = text[: min(ends)] if ends else text
        yield prefix, True
        text = text[len(prefix) :]
        forced = step.hole.advance(prefix)
        assert forced is not None, "the picture's own call is one that the rule admits"
        place = forced


def skip_picture() -> str:
    plan = SkipPlan(bind(get_format("hermes"), _TOOLS, ToolChoice.required(), parallel=False))
    marked = [(character, is_chosen) for text, is_chosen in spans(_CALL, plan) for character in text]
    generated = sum(is_chosen for _, is_chosen in marked)
    parts = [words("forced: appended to the prompt", _LEFT, 34, "small", "start")]
    parts += [rectangle(Box(_LEFT + 300, 30, 26, 20), "end", 4)]
    parts += [
        words(f"written by the model: {generated} of {len(marked)} characters", _LEFT + 320, 34, "small", "start")
    ]
    line, column = 0, 0
    for is_chosen, run in groupby(marked, key=lambda pair: pair[1]):
        for piece in "".join(character for character, _ in run).splitlines(keepends=True):
            visible = piece.rstrip("\n")
            if visible:
                parts += _draw(visible, line, column, is_chosen=is_chosen)
            line, column = (line + 1, 0) if piece.endswith("\n") else (line, column + len(piece))
    return picture("What a model writes of a call", _ABOUT, _WIDTH, _TOP + (line + 1) * _LINE + 6, parts)


def _draw(text: str, line: int, column: int, *, is_chosen: bool) -> Iterator[str]:
    y = _TOP + line * _LINE + 14
    x = _LEFT + column * _ADVANCE
    if is_chosen:
        width = len(text) * _ADVANCE
        yield rectangle(Box(x + width / 2, y - 5, width, 24), "end", 4)
    for at, character in enumerate(text):
        # Each character is placed separately, because the reader's fonts are unknown.
        if character != " ":
            yield words(character, x + (at + 0.5) * _ADVANCE, y, "name" if is_chosen else "small")
