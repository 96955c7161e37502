"""The helpers of the framework models, without a framework."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import ChatMessage, Diagnostic, FinishReason, FunctionCall, Reply, Text, ToolCall, ToolCallRequest
from ferrule.engines.fake import FakeEngine
from ferrule.integrations.model import engine_of, rejection_reason, reply_of

ids = st.lists(st.text(alphabet="ab1", min_size=1, max_size=2), max_size=6)


@given(earlier=ids, now=ids)
def test_no_call_has_the_id_of_an_earlier_one(earlier: list[str], now: list[str]) -> None:
    history = ChatMessage.assistant(tool_calls=[ToolCall.of("look", "{}", id) for id in earlier])
    engine = FakeEngine([Reply.of(*(ToolCall.of("look", "{}", id) for id in now))])
    reply = asyncio.run(reply_of(engine, ToolCallRequest(messages=(history,))))
    created = [call.id for call in reply.calls]
    assert len({*earlier, *created}) == len({*earlier}) + len(now)
    if len({*earlier, *now}) == len({*earlier}) + len(now):
        assert created == now


@pytest.mark.parametrize(
    "reply, words",
    [
        (Reply((Text("yes"),), finish=FinishReason.STOP), ""),
        (Reply((Text("and so"),), finish=FinishReason.LENGTH), ""),
        (Reply((ToolCall.of("look", "{}", "a"),), finish=FinishReason.TOOL_CALLS), ""),
        (
            Reply((ToolCall("a", FunctionCall("look", "{"), complete=False),), finish=FinishReason.LENGTH),
            "the answer was cut off in a call of look. Raise the token limit, or ask for less.",
        ),
        (
            Reply(
                (ToolCall.of("see", "{}", "a"), ToolCall("b", FunctionCall("look", "{}"), complete=False)),
                (Diagnostic("invalid_arguments", "/: where is missing"),),
                FinishReason.TOOL_CALLS,
            ),
            "the call of look is rejected: /: where is missing",
        ),
        (Reply((Text("and"),)), "the answer ended early: the engine gave no reason"),
    ],
)
def test_a_reply_with_a_call_that_is_not_whole_is_not_handed_on(reply: Reply, words: str) -> None:
    assert rejection_reason(reply) == words


def test_an_engine_is_given_itself_or_as_the_string_that_names_it() -> None:
    engine = FakeEngine([])
    assert engine_of(engine) is engine
    assert asyncio.run(reply_of(engine_of("fake:hello"), ToolCallRequest(messages=()))).text == "hello"
