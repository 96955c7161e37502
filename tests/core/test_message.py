"""Messages: short constructors, parts in their order, and views of each kind of part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage, Reasoning, Role, Text, ToolCall, ToolResult
from ferrule.core.message import Part

PING, PONG = ToolCall.of("ping", id="c1"), ToolCall.of("pong", id="c2")

parts = st.one_of(
    st.text(max_size=3).map(Text),
    st.text(max_size=3).map(Reasoning),
    st.sampled_from([PING, PONG]),
    st.text(max_size=3).map(lambda content: ToolResult("c1", "ping", content)),
)


@given(st.lists(parts, max_size=6))
def test_each_view_has_the_parts_of_its_kind_in_their_order(drawn: list[Part]) -> None:
    message = ChatMessage(Role.ASSISTANT, tuple(drawn))
    assert message.content == "".join(part.text for part in drawn if isinstance(part, Text))
    assert message.reasoning == "".join(part.text for part in drawn if isinstance(part, Reasoning))
    assert message.tool_calls == tuple(part for part in drawn if isinstance(part, ToolCall))
    assert message.results == tuple(part for part in drawn if isinstance(part, ToolResult))


def test_the_four_roles_are_spelled_as_every_api_spells_them() -> None:
    assert [role.value for role in Role] == ["system", "user", "assistant", "tool"]


def test_a_plain_message_is_a_role_and_a_text() -> None:
    assert ChatMessage.user("hello") == ChatMessage(Role.USER, (Text("hello"),))
    assert ChatMessage.system("be brief") == ChatMessage(Role.SYSTEM, (Text("be brief"),))


def test_an_assistant_thinks_then_speaks_then_calls() -> None:
    message = ChatMessage.assistant("one moment", [PING, PONG], reasoning="which?")
    assert message.role is Role.ASSISTANT
    assert message.parts == (Reasoning("which?"), Text("one moment"), PING, PONG)


def test_an_assistant_that_only_calls_has_no_empty_text() -> None:
    assert ChatMessage.assistant(tool_calls=[PING]).parts == (PING,)
    assert ChatMessage.assistant().parts == ()


def test_a_tool_message_answers_one_call() -> None:
    message = ChatMessage.tool("c1", {"sky": "clear"}, "get_weather", is_error=True)
    assert message.role is Role.TOOL
    assert message.tool_call_id == "c1"
    assert message.results == (ToolResult("c1", "get_weather", {"sky": "clear"}, True),)


def test_other_messages_answer_no_call() -> None:
    assert ChatMessage.user("hello").tool_call_id is None
    assert ChatMessage.assistant(tool_calls=[PING]).tool_call_id is None
