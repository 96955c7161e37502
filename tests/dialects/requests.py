"""Requests that every dialect's server can read and every dialect's client can write."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dialects.replies import TOOLS, arguments, texts
from ferrule import ChatMessage, ChoiceMode, Role, Text, ToolCall, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.core.message import Reasoning

_names = st.lists(st.sampled_from([tool.name for tool in TOOLS]), min_size=1, max_size=3, unique=True)
choices = st.one_of(
    st.sampled_from([ToolChoice.auto(), ToolChoice.none(), ToolChoice.required(), ToolChoice.one("ping")]),
    st.builds(ToolChoice.allowed, _names, st.sampled_from([ChoiceMode.AUTO, ChoiceMode.REQUIRED])),
)


@st.composite
def _turns(draw: st.DrawFn, number: int, *, reasoning: bool) -> list[ChatMessage]:
    """A user's words, an assistant's answer, and the results of its calls."""
    texts_drawn = draw(st.lists(texts, min_size=1, max_size=2))
    user = ChatMessage(Role.USER, tuple(Text(text) for text in texts_drawn))
    calls = [
        ToolCall.of(draw(st.sampled_from(TOOLS)).name, draw(arguments), id=f"call_{number}_{at}")
        for at in range(draw(st.integers(0, 2)))
    ]
    thought = (Reasoning(draw(texts)),) if reasoning and draw(st.booleans()) else ()
    text_parts = tuple(Text(text) for text in draw(st.lists(texts, min_size=0 if calls else 1, max_size=2)))
    results = [ChatMessage.tool(call.id, draw(texts | st.just("")), call.name) for call in calls]
    return [user, ChatMessage(Role.ASSISTANT, (*thought, *text_parts, *calls)), *results]


@st.composite
def requests(draw: st.DrawFn, *, reasoning: bool = False, parameters: dict[str, Any] | None = None) -> ToolCallRequest:
    """`parameters` are strategies for what else the API has a field for."""
    messages = [ChatMessage.system(draw(texts))] if draw(st.booleans()) else []
    for number in range(draw(st.integers(0, 2))):
        messages += draw(_turns(number, reasoning=reasoning))
    messages.append(ChatMessage.user(draw(texts)))
    tools: tuple[ToolDefinition, ...] = TOOLS if draw(st.booleans()) else ()
    schema = st.none() | st.just({"type": "object", "properties": {"a": {"type": "string"}}})
    return ToolCallRequest(
        messages=tuple(messages),
        tools=tools,
        tool_choice=draw(choices) if tools else ToolChoice.auto(),
        parallel_tool_calls=draw(st.booleans()) if tools else True,
        response_schema=draw(schema),
        model=draw(texts),
        max_tokens=draw(st.integers(1, 9999)),
        **{name: draw(strategy) for name, strategy in (parameters or {}).items()},
    )
