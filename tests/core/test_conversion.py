"""What may be written for messages, tools and options, what it becomes, and what the error for anything else says."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from ferrule import (
    ChatMessage,
    ChoiceMode,
    ChoicePolicy,
    DefinitionError,
    JsonSchema,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolCallRequest,
    ToolChoice,
    ToolDefinition,
    tool,
)


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: clear"


class Station:
    def read_sensor(self, name: str) -> float:
        """Read a sensor."""
        return 21.5


@tool
def get_time(zone: str) -> str:
    """The time in a zone."""
    return "noon"


PING = ToolDefinition("ping")


def request(**fields: Any) -> ToolCallRequest:
    return ToolCallRequest(**{"messages": "hello", **fields})


def refusal(**fields: Any) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        request(**fields)
    assert caught.value.hint
    return caught.value


def test_a_text_is_a_user_message() -> None:
    assert ToolCallRequest(messages="hello").messages == (ChatMessage.user("hello"),)


def test_dicts_and_messages_may_be_mixed_and_become_a_tuple() -> None:
    messages = request(messages=[{"role": "system", "content": "Be brief."}, ChatMessage.user("hello")]).messages
    assert messages == (ChatMessage.system("Be brief."), ChatMessage.user("hello"))


def test_a_conversation_in_the_format_of_openais_api_is_converted() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    messages = request(
        messages=[
            {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
            {"role": "user", "content": "ping", "name": "ada"},
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "pong"},
            {"role": "assistant", "content": "It works.", "reasoning": "so far"},
        ]
    ).messages
    assert messages == (
        ChatMessage.system("Be brief."),
        ChatMessage.user("ping"),
        ChatMessage.assistant(tool_calls=[ToolCall.of("ping", id="c1")]),
        ChatMessage.tool("c1", "pong"),
        ChatMessage.assistant("It works.", reasoning="so far"),
    )


def test_arguments_of_a_call_may_be_a_dict() -> None:
    call = {"id": "c1", "function": {"name": "ping", "arguments": {"times": 2}}}
    message = request(messages=[{"role": "assistant", "tool_calls": [call]}]).messages[0]
    assert message.tool_calls[0].arguments == {"times": 2}


@pytest.mark.parametrize(
    "messages, complaint",
    [
        (None, "messages must be a text or a list"),
        (ChatMessage.user("hello"), "messages must be a text or a list"),
        ({"role": "user", "content": "hello"}, "messages must be a text or a list"),
        ([b"hello"], "is not a message"),
        ([{"role": "bot", "content": "hello"}], "'bot'"),
        ([{"content": "hello"}], "None"),
        ([{"role": "user", "text": "hello"}], "unknown keys: text"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "content must be text"),
        ([{"role": "tool", "content": "pong"}], "needs the id of its call"),
        ([{"role": "assistant", "tool_calls": ["ping"]}], "is not a tool call"),
    ],
)
def test_other_messages_are_refused(messages: Any, complaint: str) -> None:
    assert complaint in refusal(messages=messages).message


def test_functions_methods_and_definitions_are_tools() -> None:
    tools = request(tools=[get_weather, Station().read_sensor, get_time, PING]).tools
    assert [each.name for each in tools] == ["get_weather", "read_sensor", "get_time", "ping"]
    assert (tools[0].description, tools[0].required) == ("The weather in a city.", ("city",))
    assert tools[1].required == ("name",)
    assert tools[2] is get_time.definition


@pytest.mark.parametrize("tools", [get_weather, get_time, PING, "get_weather", {"name": "f"}, None])
def test_tools_that_are_not_a_list_are_refused_with_a_list_in_the_hint(tools: Any) -> None:
    assert "tools=[get_weather]" in refusal(tools=tools).hint


@pytest.mark.parametrize("entry", ["get_weather", 3, Station, {"type": "function"}])
def test_what_is_not_a_tool_is_refused(entry: Any) -> None:
    assert "is not a tool" in refusal(tools=[entry]).message


def test_the_same_tool_twice_is_refused_by_name() -> None:
    assert "more than one tool named get_weather" in refusal(tools=[get_weather, PING, get_weather]).message
    many = tuple(ToolDefinition(f"t{number}") for number in range(50))
    assert "named t7" in refusal(tools=(*many, many[7])).message


@pytest.mark.parametrize(
    "written, choice",
    [
        ("auto", ToolChoice.auto()),
        ("none", ToolChoice.none()),
        ("required", ToolChoice.required()),
        (ChoiceMode.REQUIRED, ToolChoice.required()),
        ("get_weather", ToolChoice.one("get_weather")),
    ],
)
def test_a_choice_may_be_its_mode_or_a_tools_name(written: str, choice: ToolChoice) -> None:
    assert request(tools=[get_weather], tool_choice=written).tool_choice == choice


def test_a_choice_that_names_no_tool_is_refused_with_the_names() -> None:
    error = refusal(tools=[get_weather, PING], tool_choice="requird")
    assert "requird" in error.message
    assert "'get_weather', 'ping'" in error.hint


def test_a_name_is_kept_where_the_tools_come_later() -> None:
    assert replace(request(tool_choice="ping"), tools=(PING,)).tool_choice == ToolChoice.one("ping")


@pytest.mark.parametrize("choice", [None, True, ["ping"], {"type": "function", "function": {"name": "ping"}}])
def test_other_choices_are_refused(choice: Any) -> None:
    assert "ToolChoice.allowed" in refusal(tools=[PING], tool_choice=choice).hint


def test_a_policy_may_be_a_text_and_means_the_same() -> None:
    assert request(tools=[PING], tool_choice_policy="auto").choice == ToolChoice.auto()
    assert request(tools=[PING], tool_choice_policy="required_always").choice == ToolChoice.required()
    assert request(tool_choice_policy="required_first_hop").tool_choice_policy is ChoicePolicy.REQUIRED_FIRST_HOP


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    assert "'required_first_hop'" in refusal(tool_choice_policy="always").hint


@pytest.mark.parametrize(
    "field, value",
    [
        *[("max_tokens", value) for value in (0, -5, 1.5, "20", True)],
        *[("temperature", value) for value in (-0.1, "0", float("nan"), False)],
        *[("top_p", value) for value in (-0.1, 1.5, "1")],
        *[("top_k", value) for value in (-2, 1.5)],
        *[("seed", value) for value in (1.5, "1")],
        *[("stop", value) for value in (3, [3])],
        *[("response_schema", value) for value in ("object", str)],
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(field: str, value: Any) -> None:
    assert field in refusal(**{field: value}).message


def test_parameters_within_range_are_kept() -> None:
    made = request(max_tokens=1, temperature=0, top_p=1, top_k=-1, seed=0, stop="END")
    assert (made.max_tokens, made.temperature, made.top_p, made.top_k, made.seed) == (1, 0, 1, -1, 0)
    assert made.stop == ("END",)
    assert request(stop=["a", "b"]).stop == ("a", "b")


def test_values_of_the_final_type_are_not_copied() -> None:
    messages, tools, stop = (ChatMessage.user("hello"),), (PING,), ("END",)
    made = replace(request(messages=messages, tools=tools, stop=stop, response_schema={}), seed=1)
    assert made.messages is messages
    assert made.tools is tools
    assert made.stop == stop


def test_a_request_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        request().model = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_message_takes_texts_for_its_role_and_parts() -> None:
    assert ChatMessage("user", "hello") == ChatMessage.user("hello")
    assert ChatMessage("assistant", [Reasoning("hm"), "hello"]).parts == (Reasoning("hm"), Text("hello"))
    assert ChatMessage("tool").role is Role.TOOL


@pytest.mark.parametrize("role, parts", [("bot", ()), ("user", [3]), ("user", None)])
def test_a_message_of_anything_else_is_refused(role: Any, parts: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        ChatMessage(role, parts)
    assert caught.value.hint


def test_a_choice_takes_texts_and_lists() -> None:
    assert ToolChoice("required", ["a", "b"]) == ToolChoice(ChoiceMode.REQUIRED, ("a", "b"))
    assert ToolChoice("required", "ping") == ToolChoice.one("ping")
    assert ToolChoice.allowed("ping", "required") == ToolChoice.one("ping")
    with pytest.raises(DefinitionError, match="maybe"):
        ToolChoice("maybe")


def test_required_names_may_be_a_list() -> None:
    built = ToolDefinition.build("f").parameter("a", {}).parameter("b", {}).required(["a", "b"]).done()
    assert built.required == ("a", "b")
    assert JsonSchema.object({"city": {}}, required="city")["required"] == ["city"]


@pytest.mark.parametrize("parameters", [str, "string", None, ["city"]])
def test_parameters_that_are_no_schema_are_refused(parameters: Any) -> None:
    with pytest.raises(DefinitionError, match="must be a JSON Schema"):
        ToolDefinition("f", "", parameters)
    with pytest.raises(DefinitionError, match="parameter 'city' must be a JSON Schema"):
        ToolDefinition.build("f").parameter("city", parameters)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(DefinitionError, match="is not a tool name"):
        ToolDefinition(3)  # pyright: ignore[reportArgumentType]
