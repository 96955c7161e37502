"""Gemma 4 and FunctionGemma: `call:NAME{key:value}` with strings between quote tokens, raw."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, results
from ferrule.wire.node import BODY, NAME, calls, closer, free, literal_args, seq, think, token_quoted, turn

GEMMA4 = Format(
    name="gemma4",
    about="Gemma 4",
    markers=("<|tool_call>call:", '<|"|>'),
    reply=turn(
        think("<|channel>thought\n", "<channel|>"),
        calls(
            seq(
                "<|tool_call>call:",
                NAME,
                literal_args(token_quoted('<|"|>'), sorts_keys=True),
                closer("<tool_call|>"),
            )
        ),
        free(),
    ),
    result=results("<|tool_response>response:", NAME, '{value:<|"|>', BODY, '<|"|>}<tool_response|>', sep=""),
    declaration=Declaration(open="<|tool>", close="<tool|>"),
    tokens=(
        "<|tool_call>",
        "<tool_call|>",
        '<|"|>',
        "<|tool_response>",
        "<tool_response|>",
        "<|channel>",
        "<channel|>",
    ),
    stops=("<turn|>", "<|tool_response>"),
)
FUNCTIONGEMMA = replace(
    GEMMA4,
    name="functiongemma",
    about="FunctionGemma 270M",
    markers=("<start_function_call>", "<escape>"),
    reply=turn(
        calls(
            seq(
                "<start_function_call>call:",
                NAME,
                literal_args(token_quoted("<escape>", quotes_inner_keys=True), sorts_keys=True),
                closer("<end_function_call>"),
            )
        ),
        free(),
    ),
    result=results(
        "<start_function_response>response:", NAME, "{value:<escape>", BODY, "<escape>}<end_function_response>", sep=""
    ),
    declaration=Declaration(open="<start_function_declaration>", close="<end_function_declaration>"),
    tokens=("<start_function_call>", "<end_function_call>", "<escape>"),
    stops=("<end_of_turn>", "<start_function_response>"),
)
FORMATS = (GEMMA4, FUNCTIONGEMMA)

EXAMPLES = (
    Example(
        "gemma4",
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>'
        '<|tool_call>call:get_weather{city:<|"|>Rome<|"|>}<tool_call|>',
        Reply.of(PARIS, ROME),
    ),
    Example(
        "gemma4",
        '<|channel>thought\nwhere?<channel|><|tool_call>call:get_weather{city:<|"|>Rome<|"|>}<tool_call|>looking',
        Reply.of(Reasoning("where?"), ROME, Text("looking")),
    ),
    Example(
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call>",
        Reply.of(PARIS),
    ),
)
