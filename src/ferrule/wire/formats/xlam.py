"""xLAM and Hammer: a JSON array as the whole reply, fenced or not. Only offered tools are called from it."""

from __future__ import annotations

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, Calls, Lit, calls, free, lit, turn


def array(open: str | Lit, close: str | Lit) -> Calls:
    return calls(JSON_CALL, open=open, sep=lit(", ", ";"), close=close, only_offered=True)


FORMAT = Format(
    name="xlam",
    about="xLAM-2, Hammer 2",
    markers=("<|START OF JSON|>",),
    reply=turn(
        free(),
        array("[", "]"),
        also=(array(lit("```json\n[", "```\n[", "```json["), lit("]\n```", "]```")),),
        fence="```",
    ),
    result=results(BODY),
    declaration=Declaration(open="[", close="]", sep=", ", as_function=False),
    stops=("<|im_end|>",),
)
FORMATS = (FORMAT,)

_TWO = (
    '[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, '
    '{"name": "get_weather", "arguments": {"city": "Rome"}}]'
)
EXAMPLES = (
    Example("xlam", _TWO, Reply.of(PARIS, ROME)),
    Example("xlam", f"```json\n{_TWO}\n```", Reply.of(PARIS, ROME), False),
    Example("xlam", "[]", Reply.of("[]")),
    Example("xlam", '[{"name": "Ada"}]', Reply.of('[{"name": "Ada"}]')),
)
