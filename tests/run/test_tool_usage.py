"""What a reply chose, judged from the request and the reply alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.choice import ChoiceMode, ToolChoice
from ferrule.core.event import FinishReason
from ferrule.core.message import ChatMessage
from ferrule.core.receipt import How, Receipt
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.run.tool_usage import LONGEST_NAME, PICKED, Fate, Pick, Selection, nearest, selection_of

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


def chosen(reply: Reply, *messages: ChatMessage, choice: ToolChoice | None = None) -> Selection:
    asked = ToolCallRequest(messages=messages, tools=(WEATHER, SEARCH), tool_choice=choice or ToolChoice.auto())
    found = selection_of(asked, reply)
    assert found is not None
    return found


def pick(call: ToolCall, *messages: ChatMessage, finish: FinishReason | None = FinishReason.STOP) -> Pick:
    (found,) = chosen(Reply((call,), finish=finish), *messages).picks
    return found


@given(replies, choices, histories)
def test_every_call_of_a_reply_is_judged_once_and_what_is_picked_was_on_offer(
    reply: Reply, choice: ToolChoice, history: tuple[ChatMessage, ...]
) -> None:
    asked = ToolCallRequest(messages=history, tools=(WEATHER, SEARCH), tool_choice=choice)
    found = selection_of(asked, reply)
    if found is None:
        assert choice.mode is ChoiceMode.NONE or choice.names == ("gone",)
        return
    assert len(found.picks) == len(reply.parts)
    offered = {tool.name for tool in found.offered}
    assert [one.number for one in found.picks if one.number is not None] == [*range(len(reply.calls))]
    for one in found.picks:
        assert one.tool in {*offered, ""}
        assert one.fate not in PICKED or (one.wrote == one.tool and one.number is not None)
        assert one.fate in PICKED or not (one.is_retried or one.is_repeated)
    assert found.is_unanswered == (choice.mode is ChoiceMode.REQUIRED and not reply.parts)


@given(st.text(max_size=300), st.sets(st.from_regex("[a-z_]{1,40}", fullmatch=True), max_size=20))
def test_the_nearest_name_is_one_of_those_on_offer_or_none(wrote: str, names: set[str]) -> None:
    assert nearest(wrote, names) in {*names, ""}


@given(st.from_regex("[a-zA-Z_]{1,40}", fullmatch=True))
def test_a_name_in_another_case_is_nearest_to_itself(name: str) -> None:
    assert nearest(name.swapcase(), [name, "0123456789"]) == name


def test_a_call_is_picked_repaired_refused_or_cut_off() -> None:
    call = ToolCall.of("get_weather", {}, id="c")
    cut = replace(call, complete=False)
    repaired = replace(call, receipt=Receipt(how=How.REPAIRED, engine="e", path="p"))
    assert pick(call).fate is Fate.HANDED_ON
    assert pick(repaired).fate is Fate.REPAIRED
    assert pick(cut).fate is Fate.REFUSED
    assert pick(cut, finish=FinishReason.LENGTH).fate is Fate.CUT_OFF
    first, last = chosen(Reply((cut, cut), finish=FinishReason.LENGTH)).picks
    assert (first.fate, last.fate) == (Fate.REFUSED, Fate.CUT_OFF)


def test_a_name_that_was_not_offered_is_missed_for_the_nearest_one_and_kept_as_written() -> None:
    assert pick(ToolCall.of("SearchCorpus")) == Pick("search_corpus", Fate.NOT_OFFERED, "SearchCorpus", 0)
    assert pick(ToolCall.of("zzz")) == Pick("", Fate.NOT_OFFERED, "zzz", 0)
    assert pick(ToolCall.of("x" * 10_000)).wrote == "x" * LONGEST_NAME


@pytest.mark.parametrize("is_error, name", [(True, "get_weather"), (True, ""), (False, "get_weather"), (False, "")])
def test_a_call_after_an_error_of_the_same_tool_is_a_retry(is_error: bool, name: str) -> None:
    before = ChatMessage.assistant(tool_calls=[ToolCall.of("get_weather", {"city": "Rome"}, id="c")])
    told = ChatMessage.tool("c", "what came", name, is_error=is_error)
    again = ToolCall.of("get_weather", {"city": "Bern"}, id="d")
    assert pick(again, before, told).is_retried is is_error
    assert not pick(ToolCall.of("search_corpus"), before, told).is_retried
    good = ChatMessage.tool("e", "fine", "get_weather")
    assert not pick(again, before, told, good).is_retried


def test_the_same_call_again_is_a_repeat_however_it_is_spelled() -> None:
    before = ChatMessage.assistant(tool_calls=[ToolCall.of("get_weather", '{"a": 1, "b": 2}', id="c")])
    assert pick(ToolCall.of("get_weather", '{"b":2,"a":1}', id="d"), before).is_repeated
    assert not pick(ToolCall.of("get_weather", '{"a": 1}', id="d"), before).is_repeated
    assert not pick(ToolCall.of("search_corpus", '{"a": 1, "b": 2}', id="d"), before).is_repeated
    twice = chosen(Reply.of(ToolCall.of("get_weather", {}, "a"), ToolCall.of("get_weather", {}, "b"))).picks
    assert [one.is_repeated for one in twice] == [False, True]


def test_a_demand_is_of_one_tool_only_where_there_is_no_other() -> None:
    one = chosen(Reply.of("No."), choice=ToolChoice.one("get_weather"))
    assert (one.demanded, one.is_unanswered) == ("get_weather", True)
    any_of = chosen(Reply.of("No."), choice=ToolChoice.required())
    assert (any_of.demanded, any_of.is_unanswered) == ("", True)
    free = chosen(Reply.of("No."))
    assert (free.demanded, free.is_unanswered) == ("", False)


def test_where_no_tool_is_on_offer_there_is_nothing_to_choose() -> None:
    reply = Reply.of(ToolCall.of("get_weather"))
    assert selection_of(ToolCallRequest(messages=()), reply) is None
    without = ToolCallRequest(messages=(), tools=(WEATHER,), tool_choice=ToolChoice.none())
    assert selection_of(without, reply) is None
