"""Pythonic: calls written as Python. Llama 3.2 and 4, ToolACE; LFM2, Olmo 3 and MiniCPM3 with their own markers."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Declaration, Example, Format, results
from ferrule.wire.node import (
    BODY,
    JSON,
    NAME,
    PYTHON_COMPACT,
    PYTHON_DOUBLE_QUOTED,
    PYTHON_JSON_OBJECTS,
    THINK_TAGS,
    Body,
    calls,
    free,
    keyword_args,
    lit,
    seq,
    think,
    turn,
)

CALL = seq(NAME, keyword_args(PYTHON_DOUBLE_QUOTED))
BARE = calls(CALL, open="[", sep=", ", close="]", only_offered=True)
AFTER_TAG = calls(CALL, open=lit("<|python_tag|>["), sep=", ", close="]")
MARKED = calls(
    CALL,
    open=lit("<|python_start|>[", "<|python_start|>"),
    sep=", ",
    close=lit("]<|python_end|>", "]", "<|python_end|>"),
)

PYTHONIC = Format(
    name="pythonic",
    about="Llama 3.2, ToolACE, Gemma 3 with a pythonic template",
    markers=("[func_name1(",),
    reply=turn(free(), BARE, also=(AFTER_TAG, MARKED), fence="```"),
    result=results(Body(as_json=True), role="ipython"),
    tokens=("<|python_tag|>",),
    stops=("<|eom_id|>", "<|eot_id|>"),
)
LLAMA4 = replace(
    PYTHONIC,
    name="llama4_pythonic",
    about="Llama 4: the list between <|python_start|> and <|python_end|>",
    markers=("<|python_start|>",),
    reply=turn(free(), MARKED, also=(BARE,), fence="```"),
    tokens=("<|python_start|>", "<|python_end|>"),
    stops=("<|eom|>", "<|eot|>"),
)
LFM2 = Format(
    name="lfm2",
    about="LFM2 and LFM2.5: a list of calls, objects inside as JSON",
    markers=("<|tool_call_start|>", "<|tool_call_end|>"),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(
            seq(NAME, keyword_args(PYTHON_JSON_OBJECTS)),
            open=lit("<|tool_call_start|>["),
            sep=", ",
            close=lit("]<|tool_call_end|>", "]"),
        ),
    ),
    result=results("<|tool_response_start|>", BODY, "<|tool_response_end|>", sep="", role="tool"),
    declaration=Declaration(open="List of tools: [", close="]", sep=", "),
    tokens=("<|tool_call_start|>", "<|tool_call_end|>"),
    stops=("<|im_end|>",),
)
OLMO3 = Format(
    name="olmo3",
    about="Olmo 3 and 3.1: one call to a line, values as JSON",
    markers=("<function_calls>",),
    reply=turn(
        THINK_TAGS,
        free(),
        calls(seq(NAME, keyword_args(JSON)), open="<function_calls>", sep="\n", close="</function_calls>"),
    ),
    result=results(BODY, role="environment"),
    declaration=Declaration(open="<functions>[", close="]</functions>", sep=", "),
    stops=("<|im_end|>",),
)
MINICPM3 = Format(
    name="minicpm3",
    about="MiniCPM3: one call to a line in a Python fence, text after it",
    markers=("<|tool_call_start|>", "<|thought_start|>"),
    reply=turn(
        think("<|thought_start|>\n", lit("\n<|thought_end|>\n", "\n<|thought_end|>", "<|thought_end|>")),
        calls(
            seq(NAME, keyword_args(PYTHON_COMPACT)),
            open=lit("<|tool_call_start|>\n```python\n", "<|tool_call_start|>\n", "<|tool_call_start|>"),
            sep="\n",
            close=lit(
                "\n```\n<|tool_call_end|>\n", "\n```\n<|tool_call_end|>", "<|tool_call_end|>\n", "<|tool_call_end|>"
            ),
        ),
        free(),
    ),
    result=results(BODY, role="tool"),
    tokens=("<|tool_call_start|>", "<|tool_call_end|>", "<|thought_start|>", "<|thought_end|>"),
    stops=("<|im_end|>",),
    beats=("lfm2",),
)
FORMATS = (PYTHONIC, LLAMA4, LFM2, OLMO3, MINICPM3)

EXAMPLES = (
    Example("pythonic", '[get_weather(city="Paris", days=2), get_weather(city="Rome")]', Reply.of(PARIS, ROME)),
    Example("pythonic", "[get_weather(city='Rome',)]", Reply.of(ROME), False),
    Example("pythonic", "See [1] and [this](page).", Reply.of("See [1] and [this](page).")),
    Example(
        "llama4_pythonic",
        '<|python_start|>[get_weather(city="Paris", days=2)]<|python_end|>',
        Reply.of(PARIS),
    ),
    Example(
        "lfm2",
        "<|tool_call_start|>[get_weather(city='Paris', days=2), get_weather(city='Rome')]<|tool_call_end|>",
        Reply.of(PARIS, ROME),
    ),
    Example(
        "olmo3",
        '<function_calls>get_weather(city="Paris", days=2)\nget_weather(city="Rome")</function_calls>',
        Reply.of(PARIS, ROME),
    ),
    Example(
        "minicpm3",
        "<|thought_start|>\nwhy\n<|thought_end|>\n<|tool_call_start|>\n```python\n"
        "get_weather(city='Paris',days=2)\nget_weather(city='Rome')\n```\n<|tool_call_end|>\nlooking",
        Reply.of(Reasoning("why"), PARIS, ROME, Text("looking")),
    ),
)
