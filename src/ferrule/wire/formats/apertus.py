"""Apertus: a JSON array of objects whose only key is the tool's name."""

from __future__ import annotations

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import BODY, Keyed, calls, free, lit, think, turn

FORMAT = Format(
    name="apertus",
    about="Apertus 2509",
    markers=("<|tools_prefix|>", "<|tools_suffix|>"),
    reply=turn(
        think("<|inner_prefix|>", "<|inner_suffix|>"),
        free(),
        calls(Keyed(), open="<|tools_prefix|>[", sep=", ", close=lit("]<|tools_suffix|>", "]")),
    ),
    result=results(BODY, sep=", ", open="[", close="]"),
    tokens=("<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>"),
    stops=("<|assistant_end|>",),
)
FORMATS = (FORMAT,)

EXAMPLES = (
    Example(
        "apertus",
        'ok<|tools_prefix|>[{"get_weather": {"city": "Paris", "days": 2}}, '
        '{"get_weather": {"city": "Rome"}}]<|tools_suffix|>',
        Reply.of("ok", PARIS, ROME),
    ),
)
