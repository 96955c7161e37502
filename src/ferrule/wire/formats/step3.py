"""Step-3: <steptml:invoke> elements between call tokens, values inline."""

from __future__ import annotations

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import BODY, KEY, NAME, THINK_TAGS, VALUE, calls, closer, fields, free, lit, seq, space, turn

BEGIN, END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"
CALL_BEGIN, CALL_END, SEP = "<｜tool_call_begin｜>", "<｜tool_call_end｜>", "<｜tool_sep｜>"
PARAMETER = seq('<steptml:parameter name="', KEY, '">', VALUE, "</steptml:parameter>", space("\n"))

FORMAT = Format(
    name="step3",
    about="Step-3",
    markers=(BEGIN, "steptml:invoke"),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(
                f'{CALL_BEGIN}function{SEP}<steptml:invoke name="',
                NAME,
                '">',
                space("\n"),
                fields(PARAMETER),
                "</steptml:invoke>",
                closer(CALL_END),
            ),
            open=lit(f"{BEGIN}\n", BEGIN),
            sep="\n",
            close=lit(f"\n{END}", END),
        ),
    ),
    result=results("<｜tool_output_begin｜>", BODY, "<｜tool_output_end｜>"),
    tokens=(BEGIN, END, CALL_BEGIN, CALL_END, SEP),
)
FORMATS = (FORMAT,)

_HEAD = f'{CALL_BEGIN}function{SEP}<steptml:invoke name="get_weather">\n'
EXAMPLES = (
    Example(
        "step3",
        f'{BEGIN}\n{_HEAD}<steptml:parameter name="city">Paris</steptml:parameter>\n'
        f'<steptml:parameter name="days">2</steptml:parameter>\n</steptml:invoke>{CALL_END}\n'
        f'{_HEAD}<steptml:parameter name="city">Rome</steptml:parameter>\n</steptml:invoke>{CALL_END}\n{END}',
        Reply.of(PARIS, ROME),
    ),
)
