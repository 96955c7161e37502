"""Phi-4-mini: a JSON array between <|tool_call|> markers, or after `functools`, which some templates request."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, results
from ferrule.wire.formats.hermes import JSON_CALL
from ferrule.wire.node import BODY, calls, free, lit, turn

NATIVE = calls(
    JSON_CALL,
    open=lit("<|tool_call|>[", "<|tool_call|> ["),
    sep=", ",
    close=lit("]<|/tool_call|>", "] <|/tool_call|>", "]"),
)
SINGLE = calls(JSON_CALL, open="<|tool_call|>", close="<|/tool_call|>")
FUNCTOOLS = calls(JSON_CALL, open=lit("functools[", "functools ["), sep=", ", close="]")

FORMAT = Format(
    name="phi4mini",
    about="Phi-4-mini",
    markers=("<|tool|>", "<|/tool|>"),
    reply=turn(free(), NATIVE, also=(SINGLE, FUNCTOOLS)),
    result=results(BODY),
    declaration=Declaration(open="<|tool|>[", close="]<|/tool|>", sep=", ", as_function=False),
    tokens=("<|tool_call|>", "<|/tool_call|>"),
    stops=("<|end|>",),
)
WITH_FUNCTOOLS = replace(
    FORMAT,
    name="phi4mini_functools",
    about="Phi-4-mini under the templates that ask for functools[...]",
    markers=("functools[",),
    reply=turn(free(), FUNCTOOLS, also=(NATIVE, SINGLE)),
    tokens=(),
)
FORMATS = (FORMAT, WITH_FUNCTOOLS)

_TWO = (
    '[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, '
    '{"name": "get_weather", "arguments": {"city": "Rome"}}]'
)
EXAMPLES = (
    Example("phi4mini", f"<|tool_call|>{_TWO}<|/tool_call|>", Reply.of(PARIS, ROME)),
    Example("phi4mini", f"<|tool_call|>{_TWO}", Reply.of(PARIS, ROME), False),
    Example(
        "phi4mini",
        '<|tool_call|>{"name": "get_weather", "arguments": {"city": "Rome"}}<|/tool_call|>',
        Reply.of(ROME),
        False,
    ),
    Example("phi4mini_functools", f"functools{_TWO}", Reply.of(PARIS, ROME)),
)
