"""The ready hooks for small models: what they mend, and what they let alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import (
    ChatMessage,
    Event,
    Finish,
    FinishReason,
    Reply,
    TextDelta,
    ToolCall,
    ToolCallRequest,
    ToolDefinition,
)
from ferrule.core.outcome import Answered
from ferrule.core.reply import events_of
from ferrule.engines.fake import FakeEngine
from ferrule.hooks import ECHO, EMPTY_ARGUMENTS, REPETITION, Hook, HookContext, small_model_hooks
from ferrule.run.conversation import ToolConversation
from ferrule.sources.fake import FakeSource
from ferrule.specification import default_slm_hooks

WEATHER = ToolDefinition.build("get_weather").parameter("city", {"type": "string"}, required=True).done()
SAVE = ToolDefinition.build("save").parameter("data", {"type": "string"}, required=True).done()
PAYLOAD = {"city": "Rome", "temperature": 21, "sky": ["clear", "dry"]}
CALL = ToolCall.of("get_weather", {"city": "Rome"}, id="c1")
ANSWER = "It is 21 degrees."


class PiecewiseEngine(FakeEngine):
    """Yields the text of its replies in pieces of this many characters."""

    size = 3

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        async for event in super().stream_request(request):
            if isinstance(event, TextDelta):
                for start in range(0, len(event.text), self.size):
                    yield TextDelta(event.text[start : start + self.size])
            else:
                yield event


class Turn:
    def __init__(
        self, hooks: Iterable[Hook], *replies: Reply, payload: Any = PAYLOAD, request: ToolCallRequest | None = None
    ) -> None:
        self.source = FakeSource((WEATHER, SAVE), lambda name, arguments, context: Answered(payload))
        self.engine = PiecewiseEngine(replies)
        self.conversation = ToolConversation(self.engine, self.source, request=request, hooks=hooks)
        self.events = asyncio.run(self._run())

    async def _run(self) -> list[Any]:
        return [event async for event in self.conversation.stream("How is the weather in Rome?")]

    @property
    def shown_text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def results(self) -> list[str]:
        return [result.text for message in self.conversation.messages for result in message.results]


def written(value: Any) -> list[str]:
    """The ways in which models write a value."""
    plain = json.dumps(value)
    return [plain, json.dumps(value, indent=2), f"```json\n{plain}\n```", f"<tool_response>\n{plain}\n</tool_response>"]


CALL_TEXT = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
ECHOES = [
    *written(PAYLOAD),
    CALL_TEXT,
    f"{CALL_TEXT}\n{CALL_TEXT}",
    json.dumps(WEATHER.as_function()),
    f"This is the same result as before. Do something else, or answer.\n{CALL_TEXT}",
    # JSON that nobody can read, but no answer either.
    '{"name": "city", "Rome", "temperature": 21}',
]


@pytest.mark.parametrize("text", ECHOES)
def test_an_echo_is_never_shown_and_the_model_is_asked_once_more(text: str) -> None:
    turn = Turn([ECHO], Reply.of(CALL), Reply.of(text), Reply.of(ANSWER))
    assert turn.shown_text == ANSWER
    assert turn.conversation.last.text == ANSWER
    assert "".join(message.content for message in turn.conversation.messages[2:]) == ANSWER
    assert len(turn.engine.requests) == 3


@pytest.mark.parametrize("text", ECHOES)
def test_a_model_that_echoes_again_is_not_asked_a_third_time(text: str) -> None:
    turn = Turn([ECHO], Reply.of(CALL), Reply.of(text), Reply.of(text))
    assert turn.shown_text == text


def test_members_of_a_list_one_after_the_other_are_an_echo_of_the_list() -> None:
    orders = [{"id": 71, "item": "lamp"}, {"id": 72, "item": "desk"}]
    text = ", ".join(map(json.dumps, orders))
    assert Turn([ECHO], Reply.of(CALL), Reply.of(text), Reply.of(ANSWER), payload=orders).shown_text == ANSWER


def test_an_echo_that_the_token_limit_cuts_off_is_an_echo() -> None:
    cut = replace(Reply.of(json.dumps(PAYLOAD)[:25]), finish=FinishReason.LENGTH)
    assert list(events_of(cut))[-1] == Finish(FinishReason.LENGTH)
    assert Turn([ECHO], Reply.of(CALL), cut, Reply.of(ANSWER)).shown_text == ANSWER


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        "",
        "{curly} braces are fine",
        f"{json.dumps(PAYLOAD)} That is what I found.",
        json.dumps({**PAYLOAD, "advice": "take sunglasses"}),
        '{"name": "Rome", "temperature": 21}',
        "[1, 2, 3]",
        "```python\nprint(1)\n```",
        "This is the same day as yesterday.",
    ],
)
def test_an_answer_is_shown_as_it_is(text: str) -> None:
    turn = Turn([ECHO], Reply.of(CALL), Reply.of(text))
    assert (turn.shown_text, len(turn.engine.requests)) == (text, 2)


@pytest.mark.parametrize("payload", ["sunny", 21, "It is sunny in Rome.", True])
def test_a_short_result_may_be_the_answer(payload: Any) -> None:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    assert len(Turn([ECHO], Reply.of(CALL), Reply.of(text), payload=payload).engine.requests) == 2


def test_where_the_answer_must_be_json_an_echo_may_be_the_answer() -> None:
    request = ToolCallRequest(messages=(), response_schema={"type": "object"})
    turn = Turn([ECHO], Reply.of(CALL), Reply.of(json.dumps(PAYLOAD)), request=request)
    assert turn.conversation.last.text == json.dumps(PAYLOAD)


def test_the_result_of_an_earlier_turn_is_not_echoed() -> None:
    text = json.dumps(PAYLOAD)
    turn = Turn([ECHO], Reply.of(CALL), Reply.of(ANSWER), Reply.of(text))
    asyncio.run(turn.conversation.send_message("Show me the raw result."))
    assert turn.conversation.last.text == text


@given(st.text(max_size=60), st.integers(1, 7))
def test_whatever_is_written_and_however_it_is_cut_nothing_raises_and_nothing_is_lost(text: str, size: int) -> None:
    PiecewiseEngine.size = size
    turn = Turn([ECHO], Reply.of(CALL), Reply.of(text), Reply.of(ANSWER))
    assert turn.shown_text in (text, ANSWER)


@given(st.data())
def test_every_beginning_of_an_echo_is_held(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(ECHOES))
    beginning = text[: data.draw(st.integers(1, len(text)))]
    holds = ECHO.holds_text
    assert holds is not None
    messages = (
        ChatMessage.user("How is it?"),
        Reply.of(CALL).as_message(),
        ChatMessage.tool("c1", json.dumps(PAYLOAD)),
    )
    assert holds(beginning, HookContext(request=ToolCallRequest(messages=messages, tools=(WEATHER,))))


@pytest.mark.parametrize("value", [PAYLOAD, json.dumps(PAYLOAD)])
def test_a_call_with_an_earlier_result_as_its_argument_is_refused_once(value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    again = [ToolCall.of("get_weather", {"city": text}, id=f"c{number}") for number in (2, 3)]
    turn = Turn([ECHO], Reply.of(CALL), *map(Reply.of, again), Reply.of(ANSWER))
    # The model insists, so the second one runs.
    assert len(turn.source.calls) == 2
    assert turn.results[1].startswith("city: this is the result of an earlier call")


def test_a_text_that_one_tool_returned_may_be_anothers_argument() -> None:
    save = ToolCall.of("save", {"data": "sunny in Rome"}, id="c2")
    turn = Turn([ECHO], Reply.of(CALL), Reply.of(save), Reply.of(ANSWER), payload="sunny in Rome")
    assert len(turn.source.calls) == 2


# Empty arguments.


def run_empty(parameters: dict[str, Any], arguments: dict[str, Any]) -> tuple[int, str]:
    definition = ToolDefinition("find", parameters=parameters)
    source = FakeSource((definition,), lambda name, arguments, context: Answered("found"))
    engine = FakeEngine([Reply.of(ToolCall.of("find", arguments, id="c1")), Reply.of("ok")])
    conversation = ToolConversation(engine, source, hooks=[EMPTY_ARGUMENTS])
    asyncio.run(conversation.send_message("go"))
    return len(source.calls), conversation.messages[2].results[0].text


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


STRING, OBJECT = {"type": "string"}, {"type": "object"}


@pytest.mark.parametrize(
    "parameters, arguments, missing",
    [
        (schema(["city"], city=STRING), {"city": ""}, "city"),
        (schema(["city"], city=STRING), {"city": " \n"}, "city"),
        (schema(["filter"], filter=OBJECT), {"filter": {}}, "filter"),
        (schema(["a", "b"], a=STRING, b=STRING), {"a": "", "b": ""}, "a, b"),
        (schema(["place"], place=schema(["city"], city=STRING)), {"place": {"city": ""}}, "place.city"),
        (
            {**schema(["place"], place={"$ref": "#/$defs/Place"}), "$defs": {"Place": schema(["city"], city=STRING)}},
            {"place": {"city": ""}},
            "place.city",
        ),
    ],
)
def test_a_call_with_an_empty_required_argument_does_not_run_and_its_result_names_the_argument(
    parameters: dict[str, Any], arguments: dict[str, Any], missing: str
) -> None:
    count, result = run_empty(parameters, arguments)
    assert count == 0
    assert f"{missing} must not be empty" in result


@pytest.mark.parametrize(
    "parameters, arguments",
    [
        (schema(["city"], city=STRING), {"city": "Rome"}),
        (schema([], city=STRING), {"city": ""}),
        (schema([], city=STRING), {}),
        (schema(["text"], text={"type": "string", "minLength": 0}), {"text": ""}),
        (schema(["unit"], unit={"enum": ["", "c"]}), {"unit": ""}),
        (schema(["options"], options={"type": "object", "minProperties": 0}), {"options": {}}),
        (schema(["tags"], tags={"type": "array"}), {"tags": []}),
        (schema(["count"], count={"type": "integer"}), {"count": 0}),
        (schema(["flag"], flag={"type": "boolean"}), {"flag": False}),
    ],
)
def test_a_call_whose_emptiness_is_meant_runs(parameters: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert run_empty(parameters, arguments) == (1, "found")


# Repetition.


def test_the_third_equal_call_does_not_run_and_the_model_must_answer() -> None:
    calls = [ToolCall.of("get_weather", {"city": "Rome"}, id=f"c{number}") for number in range(1, 5)]
    turn = Turn([REPETITION], *map(Reply.of, calls[:3]), Reply.of(ANSWER))
    assert len(turn.source.calls) == 2
    assert "same result as before" in turn.results[1]
    assert turn.results[2].startswith("This call has given the same result twice")
    assert turn.shown_text == ANSWER
    assert turn.engine.requests[-1].tool_choice.mode.value == "none"


def test_the_order_of_arguments_does_not_matter_and_other_arguments_are_another_call() -> None:
    texts = ['{"city": "Rome", "unit": "c"}', '{"unit":"c","city":"Rome"}', '{"city": "Rome", "unit": "f"}']
    calls = [ToolCall.of("get_weather", text, id=f"c{number}") for number, text in enumerate([*texts, texts[0]])]
    turn = Turn([REPETITION], *map(Reply.of, calls), Reply.of(ANSWER))
    assert [arguments["unit"] for _, arguments, _ in turn.source.calls] == ["c", "c", "f"]


def test_a_call_whose_result_changes_is_no_repetition() -> None:
    numbers = iter(range(9))
    source = FakeSource((WEATHER,), lambda name, arguments, context: Answered({"time": next(numbers)}))
    calls = [ToolCall.of("get_weather", {"city": "Rome"}, id=f"c{number}") for number in range(5)]
    conversation = ToolConversation(FakeEngine([*map(Reply.of, calls), Reply.of("ok")]), source, hooks=[REPETITION])
    asyncio.run(conversation.send_message("watch it"))
    assert len(source.calls) == 5


def test_the_specification_has_its_own_name_for_the_three() -> None:
    assert [hook.name for hook in default_slm_hooks()] == ["echo", "empty_arguments", "repetition"]
    assert tuple(default_slm_hooks()) == small_model_hooks()
