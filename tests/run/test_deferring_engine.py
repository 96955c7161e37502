"""An engine whose model searches for tools, in one reply and over a conversation: `ferrule.run.deferring_engine`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import CallStart, Event, Finish, FinishReason, ToolSearch, Usage
from ferrule.core.message import ChatMessage, Reasoning, Text
from ferrule.core.outcome import Answered
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import found_names
from ferrule.engines.engine import Traits
from ferrule.engines.fake import FakeEngine, FakeGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import DefinitionError, NoValidCallError
from ferrule.run.conversation import ToolConversation
from ferrule.run.deferral import DeferralSettings, definition_line
from ferrule.run.deferring_engine import DeferralCache, DeferringEngine, SearchMemory
from ferrule.run.tool_usage import tool_usage_of
from ferrule.schema.admission_cache import admit_tool
from ferrule.sources.fake import FakeSource
from ferrule.sources.search.tool_finder import ToolFinder
from run.tool_sets import WordFinder, many_tools, search_call

TOOLS = many_tools(200)
SETTINGS = DeferralSettings(above_tokens=600, preselected=2)
ASKED = "Which song 3 is it"


def request(**options: Any) -> ToolCallRequest:
    return ToolCallRequest(**{"messages": ASKED, "tools": TOOLS, **options})


def reply(*parts: ToolCall | str, prompt: int = 100) -> Reply:
    return replace(Reply.of(*parts), usage=Usage(prompt, 10))


def call(name: str, id: str = "call_1") -> ToolCall:
    return ToolCall.of(name, {"id": "3"}, id)


def deferring(
    replies: Sequence[Reply], settings: DeferralSettings = SETTINGS, memory: SearchMemory | None = None
) -> tuple[DeferringEngine, FakeEngine]:
    engine = FakeEngine(replies)
    return DeferringEngine(engine, settings, WordFinder(), memory=memory), engine


def events_of(engine: DeferringEngine, request: ToolCallRequest) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in engine.stream_request(request)]

    return asyncio.run(collect())


def names(request: ToolCallRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def test_few_tools_pass_through_unchanged() -> None:
    engine, inner = deferring([reply("Hello.")])
    asked = request(tools=TOOLS[:3])
    assert fold(events_of(engine, asked)).text == "Hello."
    assert inner.requests == [asked]


def test_a_definition_that_is_not_json_is_left_to_the_engine_which_refuses_it() -> None:
    engine, inner = deferring([reply("Hello.")])
    schema = {"type": "object", "properties": {"n": {"maximum": float("inf")}}}
    asked = request(tools=(*TOOLS, ToolDefinition("odd", parameters=schema)))
    events_of(engine, asked)
    assert inner.requests == [asked]


def test_a_search_is_answered_and_the_reply_goes_on() -> None:
    engine, inner = deferring([reply("Let me look. ", search_call("stock 7")), reply("Here: ", call("get_stock_7"))])
    events = events_of(engine, request())
    whole = fold(events)
    assert [one.name for one in whole.calls] == ["get_stock_7"]
    assert whole.text == "Let me look. Here: "
    assert (whole.finish, whole.usage) == (FinishReason.TOOL_CALLS, Usage(200, 20))
    assert [event.index for event in events if isinstance(event, CallStart)] == [0]
    assert sum(isinstance(event, Finish) for event in events) == 1
    first, second = inner.requests
    # The tools of the first message are listed, the found ones are not: a result describes them.
    assert names(first) == ["find_tools", "get_song_3", "get_file_3"]
    assert names(second)[:3] == names(first)
    assert "get_stock_7" in names(second)
    assert second.described_tools == set(names(second)[3:])
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-1].results[0].text.startswith("Call one of these tools now: get_stock_7")


def test_what_answers_a_search_of_the_model_does_not_change_what_a_prompt_lists() -> None:
    """Usage changes while a conversation lasts; the list at the front of its prompts must not."""

    async def by_usage(text: str, limit: int, tools: Mapping[str, ToolDefinition]) -> Sequence[str]:
        return ["get_stock_9"]

    inner = FakeEngine([reply(search_call("stock 7")), reply(call("get_stock_9"))])
    engine = DeferringEngine(inner, SETTINGS, WordFinder(), search=by_usage)
    assert [one.name for one in fold(events_of(engine, request())).calls] == ["get_stock_9"]
    first, second = inner.requests
    assert names(first) == ["find_tools", "get_song_3", "get_file_3"]
    assert names(second) == [*names(first), "get_stock_9"]


def test_the_messages_of_a_reply_hold_its_searches_where_they_were_made() -> None:
    engine, inner = deferring([reply("Let me look. ", search_call("stock 7")), reply("Here: ", call("get_stock_7"))])
    before, result, last = fold(events_of(engine, request())).as_messages()
    assert (before.content, before.tool_calls[0].name) == ("Let me look. ", "find_tools")
    assert result.results[0].tool_call_id == before.tool_calls[0].id
    assert (last.content, last.tool_calls[0].name) == ("Here: ", "get_stock_7")
    assert inner.requests[1].messages[1:] == (before, result)


def test_a_search_beside_another_call_is_answered_for_the_next_round() -> None:
    engine, inner = deferring([reply(call("get_song_3"), search_call("stock 7"))])
    whole = fold(events_of(engine, request()))
    assert [one.name for one in whole.calls] == ["get_song_3"]
    assert len(inner.requests) == 1
    search, result, last = whole.as_messages()
    assert search.tool_calls[0].name == "find_tools"
    assert "get_stock_7" in result.results[0].text
    # No result is due for the search any more.
    assert [one.name for one in last.tool_calls] == ["get_song_3"]


def test_the_searches_of_one_answer_are_bounded() -> None:
    searches = [reply(search_call(f"stock {number}", f"call_{number}")) for number in range(3)]
    engine, inner = deferring([*searches, reply("I do not know.")])
    whole = fold(events_of(engine, request()))
    assert whole.text == "I do not know."
    *earlier, last = inner.requests
    assert all(one.tool_choice == ToolChoice.auto() for one in earlier)
    assert last.tool_choice.names is not None
    assert "find_tools" not in last.tool_choice.names
    # The prompt still lists it: its beginning does not change.
    assert last.tools[: len(earlier[0].tools)] == earlier[0].tools


def test_an_engine_that_cannot_be_kept_to_some_tools_is_not_offered_the_search_again() -> None:
    searches = [reply(search_call("stock", f"call_{number}")) for number in range(3)]
    engine, inner = deferring([*searches, reply("I do not know.")])
    inner.traits = Traits(name="plain")
    assert fold(events_of(engine, request())).text == "I do not know."
    assert inner.requests[-1].tool_choice == ToolChoice.auto()
    assert "find_tools" not in names(inner.requests[-1])


def test_an_engine_that_searches_for_ever_ends() -> None:
    engine, inner = deferring([reply(search_call("stock", f"call_{number}")) for number in range(9)])
    assert fold(events_of(engine, request())).finish is FinishReason.STOP
    assert len(inner.requests) == 4


def test_the_limit_of_tokens_is_one_of_the_whole_answer() -> None:
    searches = [reply(search_call(f"stock {number}", f"call_{number}")) for number in range(3)]
    engine, inner = deferring([*searches, reply("I do not know.")])
    whole = fold(events_of(engine, request(max_tokens=50)))
    assert [one.max_tokens for one in inner.requests] == [50, 40, 30, 20]
    assert whole.usage is not None
    assert whole.usage.completion_tokens <= 50


def test_an_answer_without_tokens_left_ends_as_cut_off() -> None:
    engine, inner = deferring([reply(search_call("stock", f"call_{number}")) for number in range(9)])
    whole = fold(events_of(engine, request(max_tokens=20, tool_choice="required")))
    assert (whole.finish, len(inner.requests)) == (FinishReason.LENGTH, 2)
    # A whole call in the last token is whole.
    engine, inner = deferring([reply(call("get_song_3"), search_call("stock"))])
    assert fold(events_of(engine, request(max_tokens=10))).finish is FinishReason.TOOL_CALLS


def test_a_reply_that_was_cut_off_after_a_search_does_not_go_on() -> None:
    # The engines' own events of such a reply: a whole search, then the limit.
    class CutOff(FakeEngine):
        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            async for event in super().stream_request(request):
                yield replace(event, reason=FinishReason.LENGTH) if isinstance(event, Finish) else event

    inner = CutOff([reply(search_call("stock 7")), reply("Never.")])
    whole = fold(events_of(DeferringEngine(inner, SETTINGS, WordFinder()), request()))
    assert (whole.finish, whole.text, len(inner.requests)) == (FinishReason.LENGTH, "", 1)


def test_fifty_searches_in_one_reply_are_not_all_run() -> None:
    finder = WordFinder()
    calls = [search_call(f"stock {number}", f"call_{number}") for number in range(50)]
    inner = FakeEngine([reply(*calls), reply("I do not know.")])
    whole = fold(events_of(DeferringEngine(inner, SETTINGS, finder), request()))
    # The first one was for the front.
    assert finder.texts[1:] == ["stock 0", "stock 1", "stock 2"]
    assert whole.text == "I do not know."
    # Each has an answer: a call without a result is an error to most engines.
    answered = [result.text for message in inner.requests[1].messages for result in message.results]
    assert len(answered) == 50
    assert all(text.startswith("Not searched") for text in answered[3:])


def test_a_search_tells_the_model_to_call_only_what_it_may_call() -> None:
    tools = many_tools(100, "x" * 900)
    settings = DeferralSettings(above_tokens=700, preselected=1, found=2)
    rounds = [
        reply(search_call("stock 7", "call_1")),
        reply(search_call("7", "call_2"), search_call("stock", "call_3")),
        reply(search_call("stock 7 mail", "call_4")),
        reply("No."),
    ]
    inner = FakeEngine(rounds)
    settings = replace(settings, searches=9)
    events_of(DeferringEngine(inner, settings, WordFinder()), request(tools=tools))
    for one in inner.requests[1:]:
        last = one.messages[-1].results[0].text
        assert set(found_names(last)) <= set(names(one))
        assert found_names(last)


def test_tools_that_are_always_loaded_and_take_everything_leave_what_was_found() -> None:
    settings = replace(SETTINGS, always=("get_map_*", "get_mail_*"))
    inner = FakeEngine([reply(search_call("stock 7")), reply(call("get_stock_7"))])
    whole = fold(events_of(DeferringEngine(inner, settings, WordFinder()), request()))
    assert [one.name for one in whole.calls] == ["get_stock_7"]
    assert "get_stock_7" in names(inner.requests[1])


def test_a_required_call_is_not_the_search() -> None:
    engine, inner = deferring([reply(search_call("stock 7")), reply(call("get_stock_7"))])
    whole = fold(events_of(engine, request(tool_choice="required")))
    assert [one.name for one in whole.calls] == ["get_stock_7"]
    assert all(one.choice.mode == "required" for one in inner.requests)
    stubborn, _ = deferring([reply(search_call("stock", f"call_{number}")) for number in range(9)])
    with pytest.raises(NoValidCallError):
        events_of(stubborn, request(tool_choice="required"))


def test_a_required_first_call_is_required_after_a_search_too() -> None:
    engine, inner = deferring([reply(search_call("stock 7")), reply(call("get_stock_7"))])
    events_of(engine, request(tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP))
    assert [one.choice.mode.value for one in inner.requests] == ["required", "required"]


def test_a_named_tool_is_loaded_without_a_search_of_the_model() -> None:
    engine, inner = deferring([reply(call("get_stock_7"))])
    events = events_of(engine, request(tool_choice=ToolChoice.one("get_stock_7")))
    assert isinstance(events[0], ToolSearch)
    assert inner.requests[0].tool_choice == ToolChoice.one("get_stock_7")
    assert definition_line(TOOLS[79]) in inner.requests[0].messages[-1].results[0].text


def test_allowed_tools_that_fit_are_all_loaded() -> None:
    engine, inner = deferring([reply("No.")])
    allowed = ["get_stock_7", "get_song_3", "get_mail_2"]
    events_of(engine, request(tool_choice=ToolChoice.allowed(allowed)))
    assert set(inner.requests[0].tool_choice.names or ()) == set(allowed)


def test_a_search_finds_only_what_is_allowed() -> None:
    allowed = [tool.name for tool in TOOLS if tool.name.startswith(("get_stock_", "get_mail_", "get_map_"))]
    engine, inner = deferring([reply(search_call("song 3")), reply(search_call("stock 7", "call_2")), reply("No.")])
    events = events_of(engine, request(tool_choice=ToolChoice.allowed(allowed)))
    found = [name for event in events if isinstance(event, ToolSearch) for name in event.found]
    assert "get_stock_7" in found
    assert set(found) <= set(allowed)
    assert set(inner.requests[-1].tool_choice.names or ()) <= {*allowed, "find_tools"}


def test_a_choice_of_an_unknown_tool_is_refused() -> None:
    engine, _ = deferring([])
    with pytest.raises(DefinitionError, match="unknown"):
        events_of(engine, request(tool_choice=ToolChoice.allowed(["nothing"])))


def test_without_a_choice_the_prompt_is_the_same_and_nothing_is_called() -> None:
    engine, inner = deferring([reply("No."), reply("No.")])
    events_of(engine, request())
    events_of(engine, request(tool_choice="none"))
    assert inner.requests[0].tools == inner.requests[1].tools
    assert inner.requests[1].tool_choice == ToolChoice.none()


def test_a_search_that_was_cut_off_is_no_search() -> None:
    cut = ToolCall("call_s", FunctionCall("find_tools", '{"query": "sto'), complete=False)
    engine, _ = deferring([replace(Reply.of(cut), finish=FinishReason.LENGTH)])
    whole = fold(events_of(engine, request()))
    assert (whole.finish, whole.parts, whole.searches) == (FinishReason.LENGTH, (), ())


def test_the_body_of_a_client_is_not_sent_on_as_it_was() -> None:
    engine, inner = deferring([reply("No.")])
    events_of(engine, replace(request(), client_body=object()))  # pyright: ignore[reportArgumentType]
    assert inner.requests[0].client_body is None


# Deferrals that all clients share.


def with_schema(schema: dict[str, Any], is_admitted: bool) -> tuple[ToolDefinition, ...]:
    changed = replace(TOOLS[0], parameters={"type": "object", "properties": {"flag": schema}})
    return tuple(admit_tool(one) if is_admitted else one for one in (changed, *TOOLS[1:]))


@pytest.mark.parametrize("is_admitted", [True, False])
@pytest.mark.parametrize(
    "one, other",
    [
        ({"enum": [0, 1]}, {"enum": [False, True]}),
        ({"enum": [1]}, {"enum": [1.0]}),
        ({"type": "integer", "title": "Flag"}, {"title": "Flag", "type": "integer"}),
    ],
)
def test_nobody_gets_the_schemas_of_another_client(
    one: dict[str, Any], other: dict[str, Any], is_admitted: bool
) -> None:
    cache = DeferralCache()
    for schema in (one, other, one):
        tools = with_schema(schema, is_admitted)
        own = cache.get(tools, SETTINGS, None)
        assert own is not None
        assert json.dumps(own.tools[TOOLS[0].name].parameters) == json.dumps(tools[0].parameters)


@pytest.mark.parametrize("is_admitted", [True, False])
def test_sets_of_the_same_names_are_all_cached(is_admitted: bool) -> None:
    cache = DeferralCache()
    kept = [cache.get(with_schema({"maximum": number}, is_admitted), SETTINGS, None) for number in range(5)]
    for number, own in enumerate(kept):
        assert cache.get(with_schema({"maximum": number}, is_admitted), SETTINGS, None) is own


# What a client sends back.


def turn(*messages: ChatMessage) -> tuple[ChatMessage, ...]:
    return (ChatMessage.user(ASKED), *messages)


def searching_replies() -> list[Reply]:
    return [reply("Let me look. ", search_call("stock 7")), reply("Here: ", call("get_stock_7")), reply("Done.")]


@pytest.mark.parametrize("memory", [SearchMemory("ann"), None])
def test_a_client_that_knows_nothing_of_searches_continues(memory: SearchMemory | None) -> None:
    engine, inner = deferring(searching_replies(), memory=memory)
    message = fold(events_of(engine, request())).as_message()
    events_of(engine, request(messages=turn(message, ChatMessage.tool("call_1", "it is 7"))))
    second, third = inner.requests[1:]
    assert "get_stock_7" in names(third)
    assert third.tools[:3] == second.tools[:3]
    if memory is not None:
        assert third.messages[: len(second.messages)] == second.messages
        assert [one.content for one in third.messages if one.role == "assistant"] == ["Let me look. ", "Here: "]


def test_a_reasoning_model_reads_its_thoughts_where_it_had_them() -> None:
    memory = SearchMemory("ann")
    first = Reply((Reasoning("I search."), search_call("stock 7")))
    second = Reply((Reasoning("I call."), Text("Here: "), call("get_stock_7")))
    engine, inner = deferring([first, second, reply("Done.")], memory=memory)
    message = fold(events_of(engine, request())).as_message()
    joined = ChatMessage.assistant(message.content, message.tool_calls, message.reasoning)
    events_of(engine, request(messages=turn(joined, ChatMessage.tool("call_1", "it is 7"))))
    assert inner.requests[2].messages[:3] == inner.requests[1].messages
    assert inner.requests[2].messages[3].reasoning == "I call."


def test_nobody_gets_the_searches_of_somebody_else() -> None:
    memory = SearchMemory("ann")
    engine, _ = deferring(searching_replies(), memory=memory)
    message = fold(events_of(engine, request())).as_message()
    history = turn(message, ChatMessage.tool("call_1", "it is 7"))
    assert len(memory.restore(history, TOOLS)) == len(history) + 2
    assert memory.for_owner("bob").restore(history, TOOLS) == history


def test_people_behind_one_key_do_not_get_the_searches_of_each_other() -> None:
    memory = SearchMemory("app")
    hello = ("Hi", "How can I help?")
    start = (ChatMessage.user(hello[0]), ChatMessage.assistant(hello[1]))
    alice = (*start, ChatMessage.user("My stocks"))
    engine, _ = deferring([reply(search_call("stock 7")), reply("Done.")], memory=memory)
    events_of(engine, request(messages=alice))
    done = ChatMessage.assistant("Done.")
    assert len(memory.restore((*alice, done), TOOLS)) == 6
    bob = (*start, ChatMessage.user("My mail"), done)
    assert memory.restore(bob, TOOLS) == bob
    # Nor with other tools.
    assert memory.restore((*alice, done), TOOLS[1:]) == (*alice, done)


def test_a_search_is_restored_before_its_own_reply_only() -> None:
    memory = SearchMemory("ann")
    engine, inner = deferring(
        [reply(search_call("stock 7")), reply("Done."), reply("Done."), reply("Bye.")], memory=memory
    )
    done, more = ChatMessage.assistant("Done."), ChatMessage.user("More")
    history: tuple[ChatMessage, ...] = turn()
    for _ in range(3):
        events_of(engine, request(messages=history))
        history = (*history, done, more)
    roles = [one.role.value for one in inner.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
    # The prompts of all turns begin alike.
    assert inner.requests[-1].messages[: len(inner.requests[-2].messages)] == inner.requests[-2].messages


def test_a_request_that_is_repeated_keeps_the_searches_of_its_last_reply() -> None:
    memory = SearchMemory("ann")
    for number in (7, 8):
        engine, _ = deferring([reply(search_call(f"stock {number}")), reply("Done.")], memory=memory)
        events_of(engine, request())
    restored = memory.restore(turn(ChatMessage.assistant("Done.")), TOOLS)
    assert restored[1].tool_calls[0].arguments == {"query": "stock 8"}


def test_a_client_that_leaves_out_old_reasoning_gets_its_searches() -> None:
    memory = SearchMemory("ann")
    thought = Reply((Reasoning("I think."), Text("Well. ")))
    engine, inner = deferring([thought, reply(search_call("stock 7")), reply("Done."), reply("Bye.")], memory=memory)
    events_of(engine, request())
    more = ChatMessage.user("More")
    events_of(engine, request(messages=turn(ChatMessage.assistant("Well. ", reasoning="I think."), more)))
    events_of(
        engine, request(messages=turn(ChatMessage.assistant("Well."), more, ChatMessage.assistant("Done."), more))
    )
    assert [one.role.value for one in inner.requests[-1].messages].count("tool") == 1


def test_a_client_that_changed_the_text_keeps_its_own() -> None:
    memory = SearchMemory("ann")
    engine, _ = deferring(searching_replies(), memory=memory)
    message = fold(events_of(engine, request())).as_message()
    edited = ChatMessage.assistant("Something else.", message.tool_calls)
    restored = memory.restore(turn(edited), TOOLS)
    assert "".join(one.content for one in restored[1:]) == "Something else."
    assert restored[1].tool_calls[0].name == "find_tools"


# Ferrule's own loop.


def test_the_loop_keeps_searches_among_the_messages() -> None:
    source = FakeSource(TOOLS, lambda name, arguments, context: Answered("it is 7"))
    inner = FakeEngine(searching_replies())
    engine = DeferringEngine(inner, SETTINGS, WordFinder())
    conversation = ToolConversation(engine, source)
    done = conversation.send_message_sync(ASKED)
    assert done.text == "Done."
    assert [one.name for message in conversation.messages for one in message.tool_calls] == [
        *("find_tools", "get_stock_7")
    ]
    # Saved and loaded elsewhere, the same prompt follows.
    saved = conversation.save()
    prompts: list[ToolCallRequest] = []
    for restored in (conversation, None):
        again = FakeEngine([reply("Bye.")])
        other = restored or ToolConversation.load(saved, DeferringEngine(again, SETTINGS, WordFinder()), source)
        if restored is not None:
            restored.engine = DeferringEngine(again, SETTINGS, WordFinder())
        other.send_message_sync("Thanks")
        prompts += again.requests
    assert prompts[0].messages == prompts[1].messages
    assert prompts[0].tools == prompts[1].tools
    assert prompts[0].messages[: len(inner.requests[2].messages)] == inner.requests[2].messages


def test_a_search_is_no_round_of_the_loop() -> None:
    source = FakeSource(TOOLS, lambda name, arguments, context: Answered("it is 7"))
    inner = FakeEngine(searching_replies())
    conversation = ToolConversation(DeferringEngine(inner, SETTINGS, WordFinder()), source)
    events: list[Any] = list(conversation.stream_sync(ASKED))
    assert conversation.last.text == "Done."
    assert [event.found[0] for event in events if isinstance(event, ToolSearch)] == ["get_stock_7"]


def test_a_conversation_takes_the_settings() -> None:
    inner = FakeEngine(searching_replies())
    source = FakeSource(TOOLS, lambda name, arguments, context: Answered("it is 7"))
    conversation = ToolConversation(inner, source, deferral=SETTINGS)
    assert conversation.send_message_sync("Which song 3 is it").text == "Done."
    assert "get_stock_7" in names(inner.requests[1])


def test_only_what_was_loaded_counts_as_offered() -> None:
    engine, _ = deferring(searching_replies())
    whole = fold(events_of(engine, request()))
    usage = tool_usage_of(request(), whole)
    assert usage is not None
    offered = {tool.name for tool in usage.offered}
    assert {"get_song_3", "get_stock_7"} <= offered
    assert len(offered) < 10
    assert [attempt.tool for attempt in usage.attempts] == ["get_stock_7"]


# What the model can write.


def test_the_rule_covers_what_is_loaded_and_nothing_else() -> None:
    texts = [
        '<tool_call>\n{"name": "find_tools", "arguments": {"query": "stock 7"}}\n</tool_call>',
        '<tool_call>\n{"name": "get_stock_7", "arguments": {"id": "3"}}\n</tool_call>',
    ]
    generator = FakeGenerator(texts)
    engine = DeferringEngine(TextEngine(generator, TextOptions(format="hermes")), SETTINGS, WordFinder())
    whole = fold(events_of(engine, request()))
    assert [one.name for one in whole.calls] == ["get_stock_7"]
    assert whole.calls[0].receipt is not None
    first, second = (one.grammar.text for one in generator.requests if one.grammar is not None)
    assert "get_song_3" in first
    assert "get_stock_7" not in first
    assert "get_stock_7" in second
    assert "get_weather" not in second
    before, after = (one.prompt for one in generator.requests)
    # The prompt goes on where it ended: with what the model wrote.
    assert after.startswith(before)


def test_two_thousand_tools_cost_the_prompt_what_five_cost() -> None:
    tools = many_tools(2_000)
    texts = ['<tool_call>\n{"name": "get_stock_7", "arguments": {"id": "3"}}\n</tool_call>']
    generator = FakeGenerator(texts)
    engine = DeferringEngine(TextEngine(generator, TextOptions(format="hermes")), SETTINGS, ToolFinder())
    whole = fold(events_of(engine, request(messages="I want stock 7", tools=tools)))
    # The search by words has put it among those that are listed at the front.
    assert [one.name for one in whole.calls] == ["get_stock_7"]
    assert len(generator.requests[0].prompt) < 4 * SETTINGS.above_tokens


def test_a_name_that_nobody_loaded_is_never_called() -> None:
    tools = (*TOOLS, ToolDefinition("delete_all", "Deletes all."))
    generator = FakeGenerator(['<tool_call>\n{"name": "delete_all", "arguments": {}}\n</tool_call>'])
    engine = DeferringEngine(TextEngine(generator, TextOptions(format="hermes")), SETTINGS, WordFinder())
    whole = fold(events_of(engine, request(tools=tools)))
    assert whole.calls == ()
