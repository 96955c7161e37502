"""Nemotron: a JSON array between <TOOLCALL> tags. Nemotron-Nano-v2, Llama-Nemotron."""

from __future__ import annotations

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, THINK_TAGS, calls, free, lit, turn

FORMAT = Format(
    name="nemotron_toolcall",
    about="Nemotron-Nano-v2, Llama-Nemotron",
    markers=("<TOOLCALL>", "<AVAILABLE_TOOLS>"),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            JSON_CALL,
            open=lit("<TOOLCALL>[", "<TOOLCALL>\n["),
            sep=", ",
            close=lit("]</TOOLCALL>", "]\n</TOOLCALL>", "]"),
            glue="\n",
        ),
    ),
    result=results(BODY, sep=", ", role="user", open="<TOOL_RESPONSE>[", close="]</TOOL_RESPONSE>"),
    declaration=Declaration(open="<AVAILABLE_TOOLS>[", close="]</AVAILABLE_TOOLS>", sep=", "),
    stops=("<SPECIAL_12>",),
)
FORMATS = (FORMAT,)

EXAMPLES = (
    Example(
        "nemotron_toolcall",
        '<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, '
        '{"name": "get_weather", "arguments": {"city": "Rome"}}]</TOOLCALL>',
        Reply.of(PARIS, ROME),
    ),
)
