"""A conversation with tools for a model whose template has none: plain messages that the same format can read."""

from __future__ import annotations

import json

import pytest

from ferrule import (
    ChatMessage,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    format_with_tools,
    has_native_support,
    parse_tool_calls,
)
from ferrule.formats import Format, all_formats, get_format, parse
from ferrule.wire.prompt import declaration
from wire.weather import TOOLS

FORMATS = all_formats()
SHOWN_AFTER = "To call one, write exactly in this way:\n"


def conversation(form: Format) -> list[ChatMessage]:
    most = form.calls.max_calls or 2
    called = [
        ToolCall.of("get_weather", {"city": city}, id=form.ids.sample("get_weather", number))
        for number, city in enumerate(["Paris", "Rome"][:most])
    ]
    return [
        ChatMessage.system("Be brief."),
        ChatMessage.user("Compare the weather."),
        ChatMessage.assistant("One moment.", called, reasoning="two calls"),
        *(ChatMessage.tool(call.id, f"clear in {call.arguments['city']}", call.name) for call in called),
        ChatMessage.assistant("Both clear."),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_only_system_user_and_assistant_text_is_left(name: str) -> None:
    messages = format_with_tools(FORMATS[name], conversation(FORMATS[name]), TOOLS)
    roles = [message.role for message in messages]
    assert roles == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    assert all([type(part) for part in message.parts] == [Text] for message in messages)


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_conversation_gives_the_same_prompt_so_that_caches_hold(name: str) -> None:
    form = FORMATS[name]
    assert format_with_tools(form, conversation(form), TOOLS) == format_with_tools(form, conversation(form), TOOLS)


@pytest.mark.parametrize("name", FORMATS)
def test_a_longer_conversation_begins_with_the_prompt_of_the_shorter(name: str) -> None:
    form = FORMATS[name]
    whole = conversation(form)
    before = format_with_tools(form, whole[:-1], TOOLS)
    assert format_with_tools(form, whole, TOOLS)[: len(before)] == before


@pytest.mark.parametrize("name", FORMATS)
def test_calls_in_the_history_read_back_as_themselves(name: str) -> None:
    form = FORMATS[name]
    expected = [call.function for call in conversation(form)[2].tool_calls]
    content = format_with_tools(form, conversation(form), TOOLS)[2].content
    assert [call.function for call in parse_tool_calls(form, content, TOOLS)] == expected


@pytest.mark.parametrize("name", FORMATS)
def test_calls_of_tools_that_are_offered_no_longer_stay_in_the_history(name: str) -> None:
    form = FORMATS[name]
    expected = [call.function for call in conversation(form)[2].tool_calls]
    content = format_with_tools(form, conversation(form), [ToolDefinition("another")])[2].content
    assert [call.function for call in parse_tool_calls(form, content, TOOLS)] == expected


@pytest.mark.parametrize("name", FORMATS)
def test_results_in_a_row_come_in_one_message(name: str) -> None:
    form = FORMATS[name]
    brought = format_with_tools(form, conversation(form), TOOLS)[3].content
    cities = ["Paris", "Rome"][: form.calls.max_calls or 2]
    assert [brought.count(f"clear in {city}") for city in cities] == [1] * len(cities)


@pytest.mark.parametrize("name", FORMATS)
def test_the_declaration_contains_every_tool_as_json(name: str) -> None:
    text = declaration(FORMATS[name], TOOLS)
    for tool in TOOLS:
        assert json.dumps(tool.as_function()["function"], ensure_ascii=False) in text


@pytest.mark.parametrize("name", FORMATS)
def test_the_model_is_shown_a_call_that_the_same_format_reads(name: str) -> None:
    form = FORMATS[name]
    _, _, example = declaration(form, TOOLS).partition(SHOWN_AFTER)
    reply = parse(form, example)
    assert [(call.name, call.arguments) for call in reply.calls] == [("example_tool", {"name": "value"})]
    assert not reply.text
    assert not reply.diagnostics


def test_tools_are_declared_after_the_system_message_or_in_a_new_one() -> None:
    form = get_format("generic_xml")
    text = declaration(form, TOOLS)
    with_own = format_with_tools(form, [ChatMessage.system("Be brief."), ChatMessage.user("Hi")], TOOLS)
    assert [message.content for message in with_own] == [f"Be brief.\n\n{text}", "Hi"]
    without = format_with_tools(form, [ChatMessage.user("Hi")], TOOLS)
    assert [(message.role, message.content) for message in without] == [(Role.SYSTEM, text), (Role.USER, "Hi")]


def test_without_tools_nothing_is_declared() -> None:
    messages = (ChatMessage.user("Hi"), ChatMessage.assistant("Hello."))
    assert format_with_tools(get_format("generic_xml"), messages, ()) == messages


def test_calls_are_counted_over_the_whole_conversation() -> None:
    kimi = get_format("kimi_k2")
    turns = [ChatMessage.assistant(tool_calls=[ToolCall.of("ping")])] * 2
    first, second = format_with_tools(kimi, turns, ())
    assert "functions.ping:0" in first.content
    assert "functions.ping:1" in second.content


def test_results_that_are_not_in_a_row_stay_apart() -> None:
    messages = [ChatMessage.tool("1", "a"), ChatMessage.user("and?"), ChatMessage.tool("2", "b")]
    assert len(format_with_tools(get_format("hermes"), messages, ())) == 3


def test_calls_are_taken_from_a_models_output() -> None:
    text = "<tool_call>\n<name>ping</name>\n<arguments>{}</arguments>\n</tool_call> <tool_call>\n<name>ping</name>"
    calls = parse_tool_calls(get_format("generic_xml"), text, TOOLS)
    assert [(call.name, call.arguments) for call in calls] == [("ping", {})]
    assert parse_tool_calls(get_format("generic_xml"), "nothing to do") == ()


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.markers])
def test_support_is_native_where_the_template_has_every_mark(name: str) -> None:
    form = FORMATS[name]
    assert has_native_support(form, f"{{% if tools %}}{' '.join(form.markers)}{{% endif %}}")
    assert not has_native_support(form, "{% for message in messages %}{{ message.content }}{% endfor %}")


def test_one_marker_of_two_is_not_enough() -> None:
    assert not has_native_support(get_format("mistral_v3"), "[TOOL_CALLS]")


@pytest.mark.parametrize("name", ["generic_xml", "bare_json", "fenced_json"])
def test_a_format_for_every_model_is_native_to_none(name: str) -> None:
    assert not has_native_support(get_format(name), "".join(mark for form in FORMATS.values() for mark in form.markers))


def test_a_description_in_another_script_is_not_escaped() -> None:
    assert "翻訳 é" in declaration(get_format("hermes"), (ToolDefinition("translate", "翻訳 é"),))


def test_text_beside_results_is_kept() -> None:
    message = ChatMessage(Role.USER, (ToolResult("c", "f", "r"), Text("and this")))
    (plain,) = format_with_tools(get_format("hermes"), [message], ())
    assert plain.content.endswith("and this")


def test_reasoning_without_calls_becomes_text_too() -> None:
    message = ChatMessage(Role.ASSISTANT, (Reasoning("hm"), Text("x")))
    (plain,) = format_with_tools(get_format("hermes"), [message], ())
    assert plain.parts == (Text("<think>\nhm\n</think>\n\nx"),)
