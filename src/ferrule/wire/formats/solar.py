"""Solar Open: JSON behind an id of ten characters and the name, each after a token of its own."""

from __future__ import annotations

from ferrule.core.call import ToolCall
from ferrule.core.ids import TEN_LOWER
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import ARGS, BODY, ID, NAME, THINK_TAGS, calls, closer, free, seq, turn

BEGIN, CALLED, ARGUMENTS, END = "<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"
ANSWER, ANSWERED, ANSWER_END = "<|tool_response:begin|>", "<|tool_response:name|>", "<|tool_response:end|>"

FORMAT = Format(
    name="solar",
    about="Solar Open 100B",
    markers=(BEGIN, ARGUMENTS),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(BEGIN, ID, CALLED, NAME, ARGUMENTS, ARGS, closer(END)),
            open="<|tool_calls|>",
            close="<|calls|>",
        ),
    ),
    result=results(
        *(ANSWER, ID, ANSWERED, NAME, "<|tool_response:result|>", BODY, ANSWER_END), sep="", open="<|tool_response|>"
    ),
    ids=TEN_LOWER,
    tokens=("<|tool_calls|>", BEGIN, CALLED, ARGUMENTS, END, "<|calls|>"),
    stops=("<|end|>",),
)
FORMATS = (FORMAT,)

EXAMPLES = (
    Example(
        "solar",
        f'<|tool_calls|>{BEGIN}abcdefgh00{CALLED}get_weather{ARGUMENTS}{{"city": "Paris", "days": 2}}{END}'
        f'{BEGIN}abcdefgh01{CALLED}get_weather{ARGUMENTS}{{"city": "Rome"}}{END}<|calls|>',
        Reply.of(ToolCall("abcdefgh00", PARIS.function), ToolCall("abcdefgh01", ROME.function)),
    ),
)
