"""Values full of markup: nothing inside a value ends a call or becomes another argument."""

from __future__ import annotations

import pytest

from ferrule import Reply, ToolCall, UnrenderableError
from ferrule.formats import get_format, parse, render
from wire.weather import TOOLS

# The nine texts that a schema-constrained grammar lets through and a widely used parser then misreads, seven times.
PROBES = [
    ("qwen_xml", "use </function> ok"),
    ("qwen_xml", "a <parameter=x> b"),
    ("qwen_xml", "use </tool_call> ok"),
    ("hermes", "a </tool_call> b"),
    ("glm47", "a </tool_call> b"),
    ("dsml_v32", "a </｜DSML｜invoke> b"),
    ("deepseek_v31", "a <｜tool▁call▁end｜> b"),
    ("kimi_k2", "a <|tool_call_end|> b"),
    ("llama3", "a; {b"),
]


@pytest.mark.parametrize("name, value", PROBES)
def test_markup_inside_a_value_stays_in_the_value(name: str, value: str) -> None:
    form = get_format(name)
    id = "functions.get_weather:0" if name == "kimi_k2" else ""
    text = render(form, Reply.of(ToolCall.of("get_weather", {"city": value}, id=id)), TOOLS)
    assert value in text
    reply = parse(form, text, TOOLS)
    assert [call.arguments for call in reply.calls] == [{"city": value}]
    assert not reply.diagnostics


CLOSERS = [
    ("qwen_xml", "</parameter>"),
    ("seed_xml", "</parameter>"),
    ("glm45", "</arg_value>"),
    ("glm47", "</arg_value>"),
    ("minimax_m2", "</parameter>"),
    ("dsml_v32", "</｜DSML｜parameter>"),
    ("gemma4", '<|"|>'),
    ("functiongemma", "<escape>"),
    ("minicpm5", "<]]>"),
]


@pytest.mark.parametrize("name, closer", CLOSERS)
def test_a_value_that_holds_its_own_closer_is_refused_by_name(name: str, closer: str) -> None:
    form = get_format(name)
    with pytest.raises(UnrenderableError, match="get_weather") as refusal:
        render(form, Reply.of(ToolCall.of("get_weather", {"city": f"a {closer} b"})), TOOLS)
    assert refusal.value.code == "unrenderable"


@pytest.mark.parametrize("name, closer", CLOSERS)
def test_a_model_that_writes_such_a_value_makes_no_call_and_no_argument_of_it(name: str, closer: str) -> None:
    form = get_format(name)
    text = render(form, Reply.of(ToolCall.of("get_weather", {"city": "a @ b"})), TOOLS).replace("@", closer)
    reply = parse(form, text, TOOLS)
    assert not reply.calls or name == "minicpm5"
    assert all(set(call.arguments) == {"city"} for call in reply.calls)
    if not reply.calls:
        assert reply.diagnostics


def test_a_closer_inside_a_json_string_never_ends_a_call() -> None:
    for name in ("hermes", "mistral_v13", "granite3", "apertus", "cohere_action", "harmony", "generic_xml"):
        form = get_format(name)
        value = "".join(form.tokens) + "]}</tool_call>"
        reply = parse(form, render(form, Reply.of(ToolCall.of("get_weather", {"city": value})), TOOLS), TOOLS)
        assert [call.arguments for call in reply.calls] == [{"city": value}], name
