"""Llama 3: a bare JSON object with `parameters`, after <|python_tag|> or not; and the <function=NAME> tag."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, results
from ferrule.wire.node import ARGS, BODY, NAME, Body, Entry, Slot, calls, closer, envelope, free, lit, seq, turn

PARAMETERS_CALL = envelope(
    Entry("name", NAME, also=("function",)), Entry("parameters", Slot.ARGUMENTS, also=("arguments", "args"))
)
AFTER_TAG = calls(PARAMETERS_CALL, open=lit("<|python_tag|>"), sep=lit("; ", ";"))
FUNCTION_TAG = calls(seq("<function=", NAME, ">", ARGS, closer("</function>")))

LLAMA3 = Format(
    name="llama3",
    about="Llama 3.1, 3.2 and 3.3; Llama 4 with the JSON template",
    markers=("<|start_header_id|>", '"parameters"'),
    reply=turn(
        free(),
        calls(PARAMETERS_CALL, sep=lit("; ", ";"), only_offered=True),
        also=(AFTER_TAG, FUNCTION_TAG),
        fence="```",
    ),
    result=results(Body(as_json=True), role="ipython"),
    tokens=("<|python_tag|>",),
    stops=("<|eom_id|>", "<|eot_id|>"),
    # The templates are the same: the prompt at run time decides which of the two a model writes.
    beats=("llama3_python_tag",),
)
TAGGED = replace(
    LLAMA3,
    name="llama3_python_tag",
    about="Llama 3.1 with the ipython environment: the object after <|python_tag|>",
    reply=turn(free(), AFTER_TAG, also=(FUNCTION_TAG,)),
    beats=(),
)
FUNCTION = replace(
    LLAMA3,
    name="llama3_function_tag",
    about="Llama 3.1 zero-shot, Functionary v3.1: <function=NAME>{...}</function>",
    markers=("<function=", "</function>", "<|start_header_id|>"),
    reply=turn(free(), FUNCTION_TAG),
    result=results(BODY, role="ipython"),
    beats=("llama3",),
)
FORMATS = (LLAMA3, TAGGED, FUNCTION)

EXAMPLES = (
    Example("llama3", '{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}', Reply.of(PARIS)),
    Example(
        "llama3",
        '{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}; '
        '{"name": "get_weather", "parameters": {"city": "Rome"}}',
        Reply.of(PARIS, ROME),
    ),
    Example(
        "llama3",
        '<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Rome"}}<|eom_id|>',
        Reply.of(ROME),
        False,
    ),
    Example("llama3", '{"name": "Ada", "born": 1815}', Reply.of('{"name": "Ada", "born": 1815}')),
    Example("llama3_function_tag", '<function=get_weather>{"city": "Rome"}</function>', Reply.of(ROME)),
)
