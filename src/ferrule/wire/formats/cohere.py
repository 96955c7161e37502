"""Cohere: an indented JSON array between <|START_ACTION|> and <|END_ACTION|>, with small integers for ids."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.call import ToolCall
from ferrule.core.ids import COUNTER
from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, Results, results
from ferrule.wire.node import BODY, ID, NAME, Body, Entry, Slot, calls, envelope, free, lit, seq, think, turn

BEGIN, END = "<|START_ACTION|>", "<|END_ACTION|>"
THINK = think("<|START_THINKING|>", "<|END_THINKING|>")
ACTION = calls(
    envelope(
        Entry("tool_call_id", ID),
        Entry("tool_name", NAME, also=("name",)),
        Entry("parameters", Slot.ARGUMENTS, also=("arguments",)),
    ),
    open=lit(f"{BEGIN}[\n    ", f"{BEGIN}[\n", f"{BEGIN}["),
    sep=lit(",\n    ", ","),
    close=lit(f"\n]{END}", f"]{END}"),
)


def tool_results(*body: Body | str) -> Results:
    return results(
        '    {\n        "tool_call_id": "',
        ID,
        '",\n        "results": {\n            "0": ',
        *body,
        '\n        },\n        "is_error": null\n    }',
        sep=",\n",
        role="system",
        open="<|START_TOOL_RESULT|>[\n",
        close="\n]<|END_TOOL_RESULT|>",
    )


CMD3 = Format(
    name="cohere_action",
    about="Command R7B, Command A, A-Reasoning, A-Vision",
    markers=(BEGIN, "<|START_RESPONSE|>"),
    reply=turn(THINK, free("<|START_RESPONSE|>", "<|END_RESPONSE|>"), ACTION),
    result=tool_results(Body(as_json=True)),
    declaration=Declaration(open="[\n", close="\n]", sep=",\n"),
    ids=COUNTER,
    tokens=(BEGIN, END, "<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    stops=("<|END_OF_TURN_TOKEN|>",),
)
CMD4 = replace(
    CMD3,
    name="cohere_action_cmd4",
    about="Command A 2026 and North: answers between <|START_TEXT|> and <|END_TEXT|>",
    markers=(BEGIN, "<|START_TEXT|>"),
    reply=turn(THINK, free("<|START_TEXT|>", "<|END_TEXT|>"), ACTION),
    result=tool_results('{"content": ', Body(as_json=True), "}"),
    tokens=(BEGIN, END, "<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    beats=("cohere_action",),
)
RPLUS = replace(
    CMD3,
    name="cohere_rplus",
    about="Command R and R+ of 2024: a fenced array behind `Action:`",
    markers=("Action:", "directly-answer"),
    reply=turn(
        free(),
        calls(
            seq(
                envelope(
                    Entry("tool_name", NAME, also=("name",)), Entry("parameters", Slot.ARGUMENTS, also=("arguments",))
                )
            ),
            open=lit("Action: ```json\n[\n    ", "Action:```json\n[", "Action: ```json\n[", "Action:\n```json\n["),
            sep=lit(",\n    ", ","),
            close=lit("\n]```", "]```", "\n]\n```"),
        ),
    ),
    result=results("<results>\n", BODY, "\n</results>", role="system"),
    ids=CMD3.ids,
    tokens=(),
)
FORMATS = (CMD3, CMD4, RPLUS)

_PARIS, _ROME = ToolCall("0", PARIS.function), ToolCall("1", ROME.function)
EXAMPLES = (
    Example(
        "cohere_action",
        f"<|START_THINKING|>plan<|END_THINKING|>{BEGIN}[\n"
        '    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris", "days": 2}},\n'
        f'    {{"tool_call_id": "1", "tool_name": "get_weather", "parameters": {{"city": "Rome"}}}}\n]{END}',
        Reply.of(Reasoning("plan"), _PARIS, _ROME),
    ),
    Example("cohere_action", "<|START_RESPONSE|>Hello.<|END_RESPONSE|>", Reply.of("Hello.")),
)
