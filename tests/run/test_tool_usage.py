"""Tool usage of a reply, computed from the request and the reply alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import How, Receipt, ToolCall
from ferrule.core.event import FinishReason
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ChoiceMode, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.run.tool_usage import MAX_NAME, PICKED, AttemptStatus, CallAttempt, ToolUsage, closest_name, tool_usage_of

WEATHER, SEARCH = ToolDefinition("get_weather"), ToolDefinition("search_corpus")
NAMES = ("get_weather", "search_corpus", "serch_corpus", "zzz", "")
choices = st.sampled_from(
    [
        ToolChoice.auto(),
        ToolChoice.none(),
        ToolChoice.required(),
        ToolChoice.one("get_weather"),
        ToolChoice.allowed(["search_corpus"]),
        ToolChoice.allowed(["gone"], ChoiceMode.REQUIRED),
    ]
)
receipts = st.sampled_from([None, *(Receipt(how=how, engine="e", path="p") for how in How)])
calls = st.builds(
    lambda name, arguments, complete, receipt: replace(
        ToolCall.of(name, arguments, id="c"), complete=complete, receipt=receipt
    ),
    st.sampled_from(NAMES),
    st.sampled_from(["{}", '{"a": 1, "b": 2}', '{"b":2,"a":1}', "{"]),
    st.booleans(),
    receipts,
)
replies = st.builds(
    lambda parts, finish: Reply(tuple(parts), finish=finish),
    st.lists(calls, max_size=4),
    st.sampled_from([None, *FinishReason]),
)
histories = st.lists(
    st.one_of(
        calls.map(lambda call: ChatMessage.assistant(tool_calls=[call])),
        st.booleans().map(lambda is_error: ChatMessage.tool("c", "told", "get_weather", is_error=is_error)),
    ),
    max_size=4,
).map(tuple)


def usage_of(reply: Reply, *messages: ChatMessage, choice: ToolChoice | None = None) -> ToolUsage:
    request = ToolCallRequest(messages=messages, tools=(WEATHER, SEARCH), tool_choice=choice or ToolChoice.auto())
    usage = tool_usage_of(request, reply)
    assert usage is not None
    return usage


def attempt_of(call: ToolCall, *messages: ChatMessage, finish: FinishReason | None = FinishReason.STOP) -> CallAttempt:
    (attempt,) = usage_of(Reply((call,), finish=finish), *messages).attempts
    return attempt


@given(replies, choices, histories)
def test_every_call_of_a_reply_has_one_status_and_what_is_picked_was_offered(
    reply: Reply, choice: ToolChoice, history: tuple[ChatMessage, ...]
) -> None:
    request = ToolCallRequest(messages=history, tools=(WEATHER, SEARCH), tool_choice=choice)
    usage = tool_usage_of(request, reply)
    if usage is None:
        assert choice.mode is ChoiceMode.NONE or choice.names == ("gone",)
        return
    assert len(usage.attempts) == len(reply.parts)
    offered = {tool.name for tool in usage.offered}
    assert [one.number for one in usage.attempts if one.number is not None] == [*range(len(reply.calls))]
    for one in usage.attempts:
        assert one.tool in {*offered, ""}
        assert one.status not in PICKED or (one.name == one.tool and one.number is not None)
        assert one.status in PICKED or not (one.is_retried or one.is_repeated)
    assert usage.is_unanswered == (choice.mode is ChoiceMode.REQUIRED and not reply.parts)


@given(st.text(max_size=300), st.sets(st.from_regex("[a-z_]{1,40}", fullmatch=True), max_size=20))
def test_the_closest_name_is_one_of_the_offered_ones_or_none(wrote: str, names: set[str]) -> None:
    assert closest_name(wrote, names) in {*names, ""}


@given(st.from_regex("[a-zA-Z_]{1,40}", fullmatch=True))
def test_a_name_in_another_case_is_closest_to_itself(name: str) -> None:
    assert closest_name(name.swapcase(), [name, "0123456789"]) == name


def test_a_call_is_picked_repaired_refused_or_cut_off() -> None:
    call = ToolCall.of("get_weather", {}, id="c")
    cut = replace(call, complete=False)
    repaired = replace(call, receipt=Receipt(how=How.REPAIRED, engine="e", path="p"))
    assert attempt_of(call).status is AttemptStatus.ACCEPTED
    assert attempt_of(repaired).status is AttemptStatus.REPAIRED
    assert attempt_of(cut).status is AttemptStatus.REFUSED
    assert attempt_of(cut, finish=FinishReason.LENGTH).status is AttemptStatus.CUT_OFF
    first, last = usage_of(Reply((cut, cut), finish=FinishReason.LENGTH)).attempts
    assert (first.status, last.status) == (AttemptStatus.REFUSED, AttemptStatus.CUT_OFF)


def test_an_unknown_name_counts_as_a_miss_of_the_closest_tool_and_is_stored_as_written() -> None:
    assert attempt_of(ToolCall.of("SearchCorpus")) == CallAttempt(
        "search_corpus", AttemptStatus.NOT_OFFERED, "SearchCorpus", 0
    )
    assert attempt_of(ToolCall.of("zzz")) == CallAttempt("", AttemptStatus.NOT_OFFERED, "zzz", 0)
    assert attempt_of(ToolCall.of("x" * 10_000)).name == "x" * MAX_NAME


@pytest.mark.parametrize("is_error, name", [(True, "get_weather"), (True, ""), (False, "get_weather"), (False, "")])
def test_a_call_after_an_error_of_the_same_tool_is_a_retry(is_error: bool, name: str) -> None:
    before = ChatMessage.assistant(tool_calls=[ToolCall.of("get_weather", {"city": "Rome"}, id="c")])
    result = ChatMessage.tool("c", "what came", name, is_error=is_error)
    again = ToolCall.of("get_weather", {"city": "Bern"}, id="d")
    assert attempt_of(again, before, result).is_retried is is_error
    assert not attempt_of(ToolCall.of("search_corpus"), before, result).is_retried
    good = ChatMessage.tool("e", "fine", "get_weather")
    assert not attempt_of(again, before, result, good).is_retried


def test_the_same_call_again_is_a_repeat_however_it_is_spelled() -> None:
    before = ChatMessage.assistant(tool_calls=[ToolCall.of("get_weather", '{"a": 1, "b": 2}', id="c")])
    assert attempt_of(ToolCall.of("get_weather", '{"b":2,"a":1}', id="d"), before).is_repeated
    assert not attempt_of(ToolCall.of("get_weather", '{"a": 1}', id="d"), before).is_repeated
    assert not attempt_of(ToolCall.of("search_corpus", '{"a": 1, "b": 2}', id="d"), before).is_repeated
    twice = usage_of(Reply.of(ToolCall.of("get_weather", {}, "a"), ToolCall.of("get_weather", {}, "b"))).attempts
    assert [one.is_repeated for one in twice] == [False, True]


def test_there_is_a_required_tool_only_where_no_other_is_offered() -> None:
    one = usage_of(Reply.of("No."), choice=ToolChoice.one("get_weather"))
    assert (one.required_tool, one.is_unanswered) == ("get_weather", True)
    any_of = usage_of(Reply.of("No."), choice=ToolChoice.required())
    assert (any_of.required_tool, any_of.is_unanswered) == ("", True)
    free = usage_of(Reply.of("No."))
    assert (free.required_tool, free.is_unanswered) == ("", False)


def test_where_no_tool_is_offered_there_is_no_usage() -> None:
    reply = Reply.of(ToolCall.of("get_weather"))
    assert tool_usage_of(ToolCallRequest(messages=()), reply) is None
    without = ToolCallRequest(messages=(), tools=(WEATHER,), tool_choice=ToolChoice.none())
    assert tool_usage_of(without, reply) is None
