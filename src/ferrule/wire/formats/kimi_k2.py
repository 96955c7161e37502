"""Kimi K2: JSON behind a header that is the call's id, numbered over the whole conversation."""

from __future__ import annotations

from ferrule.core.call import ToolCall
from ferrule.core.ids import FUNCTION_COUNTER
from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import ARGS, BODY, ID, HeaderId, calls, closer, free, lit, seq, think, turn

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL_BEGIN, ARGS_BEGIN, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"

FORMAT = Format(
    name="kimi_k2",
    about="Kimi K2, K2-Thinking, K2.5 and 2.6",
    markers=(BEGIN, ARGS_BEGIN),
    reply=turn(
        think("<think>", "</think>"),
        free(),
        calls(
            seq(CALL_BEGIN, HeaderId("functions.", ":"), ARGS_BEGIN, ARGS, closer(CALL_END)),
            open=lit(BEGIN, "<|tool_call_section_begin|>"),
            close=lit(END, "<|tool_call_section_end|>"),
        ),
    ),
    result=results("## Return of ", ID, "\n", BODY),
    ids=FUNCTION_COUNTER,
    tokens=(BEGIN, END, CALL_BEGIN, ARGS_BEGIN, CALL_END),
    stops=("<|im_end|>",),
)
FORMATS = (FORMAT,)

_PARIS = ToolCall("functions.get_weather:0", PARIS.function)
_ROME = ToolCall("functions.get_weather:1", ROME.function)
EXAMPLES = (
    Example(
        "kimi_k2",
        f"<think>where?</think>ok{BEGIN}"
        f'{CALL_BEGIN}functions.get_weather:0{ARGS_BEGIN}{{"city": "Paris", "days": 2}}{CALL_END}'
        f'{CALL_BEGIN}functions.get_weather:1{ARGS_BEGIN}{{"city": "Rome"}}{CALL_END}{END}',
        Reply.of(Reasoning("where?"), "ok", _PARIS, _ROME),
    ),
)
