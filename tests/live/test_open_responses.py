"""The published checks of the Open Responses compliance suite, by their ids, on a real model through `ferrule serve`.

The suite itself is no package. Each answer is read with the types that a package generates from the specification,
in which every required field counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from lab.gateway_clients import Clients, clients
from lab.gateway_process import gateway_process
from lab.servers import QWEN
from waiting import PATIENCE

pytestmark = pytest.mark.live

PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
QUESTION = "What is the weather in Rome? Call the tool."


def message(role: str, content: object) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


CHECKS: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [message("user", "Say hello in three words.")]},
    "streaming-response": {"input": [message("user", "Count from 1 to 5.")], "stream": True},
    "system-prompt": {"input": [message("system", "You are a pirate."), message("user", "Say hello.")]},
    "tool-calling": {"input": [message("user", QUESTION)], "tools": [WEATHER]},
    "tool-calling-streaming": {"input": [message("user", QUESTION)], "tools": [WEATHER], "stream": True},
    "image-input": {
        "input": [
            message(
                "user",
                [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}],
            )
        ]
    },
    "multi-turn": {
        "input": [
            message("user", "My name is Ada."),
            message("assistant", "Hello, Ada."),
            message("user", "What is my name?"),
        ]
    },
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `events` is empty unless it was streamed; `response` is the whole response at its end."""

    text: str
    events: list[dict[str, Any]]
    response: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    url: str
    clients: Clients

    def send(self, body: dict[str, Any], path: str = "/v1/responses") -> HTTPResponse:
        data = json.dumps({"temperature": 0, "max_output_tokens": 60, **body}).encode()
        request = Request(self.url + path, data, {"content-type": "application/json"})
        return urlopen(request, timeout=PATIENCE)

    def ask(self, body: dict[str, Any]) -> Answer:
        with self.send(body) as answer:
            text = answer.read().decode()
        if not body.get("stream"):
            return Answer(text, [], json.loads(text))
        data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        events = [json.loads(one) for one in data if one != "[DONE]"]
        return Answer(text, events, events[-1]["response"])

    def faults(self, answer: Answer) -> list[str]:
        told = self.clients.ask(
            "open-responses", "open_responses.check", {"events": answer.events, "response": answer.response}
        )
        assert told["error"] is None
        return told["faults"]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with gateway_process(engine=f"llama:{QWEN}?threads=1") as gateway, clients() as started:
        yield Stage(gateway.url, started)


@pytest.mark.parametrize("check", CHECKS)
def test_an_answer_has_all_that_the_specification_requires(stage: Stage, check: str) -> None:
    answer = stage.ask(CHECKS[check])
    assert stage.faults(answer) == []
    assert answer.response["output"]
    assert answer.response["status"] in ("completed", "incomplete")
    assert (answer.response["completed_at"] is None) is (answer.response["status"] == "incomplete")
    if "tools" in CHECKS[check]:
        assert [item["type"] for item in answer.response["output"]] == ["function_call"]


def test_a_streamed_call_has_every_event_of_its_life_in_order(stage: Stage) -> None:
    answer = stage.ask(CHECKS["tool-calling-streaming"])
    kinds = [event["type"] for event in answer.events]
    life = [kind for at, kind in enumerate(kinds) if kind != (kinds[at - 1] if at else "")]
    assert life == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    added = next(event for event in answer.events if event["type"] == "response.output_item.added")
    assert added["item"]["type"] == "function_call"


def test_a_stream_names_its_events_has_no_ids_and_ends_with_done(stage: Stage) -> None:
    answer = stage.ask(CHECKS["streaming-response"])
    blocks = [block.splitlines() for block in answer.text.strip().split("\n\n")]
    assert blocks.pop() == ["data: [DONE]"]
    for block, event in zip(blocks, answer.events, strict=True):
        assert block[0] == f"event: {event['type']}"
        assert not any(line.startswith("id:") for line in block)
    assert [event["sequence_number"] for event in answer.events] == list(range(len(answer.events)))


def test_a_choice_among_allowed_tools_is_a_hard_limit(stage: Stage) -> None:
    other = {**WEATHER, "name": "get_time", "description": "Get the time of a city"}
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_time"}]}
    answer = stage.ask({**CHECKS["tool-calling"], "tools": [WEATHER, other], "tool_choice": choice})
    assert stage.faults(answer) == []
    assert {item["name"] for item in answer.response["output"] if item["type"] == "function_call"} == {"get_time"}


def test_an_answer_that_is_cut_off_is_incomplete_and_so_is_its_last_item(stage: Stage) -> None:
    answer = stage.ask({"input": "Count from 1 to 500.", "max_output_tokens": 8, "stream": True})
    assert stage.faults(answer) == []
    assert answer.events[-1]["type"] == "response.incomplete"
    assert answer.response["status"] == "incomplete"
    assert answer.response["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_later_request_continues_the_earlier_response(stage: Stage) -> None:
    first = stage.ask({"input": "My name is Ada. Say hello."})
    second = stage.ask({"input": "What is my name?", "previous_response_id": first.response["id"]})
    assert stage.faults(second) == []
    assert second.response["previous_response_id"] == first.response["id"]
    assert second.response["usage"]["input_tokens"] > first.response["usage"]["input_tokens"]


def test_what_labels_a_request_is_echoed(stage: Stage) -> None:
    labels = {"safety_identifier": "someone", "prompt_cache_key": "here", "metadata": {"ticket": "7"}}
    answer = stage.ask({**CHECKS["basic-response"], **labels, "temperature": 0.5, "top_p": 0.9})
    assert stage.faults(answer) == []
    echoed = {name: answer.response[name] for name in (*labels, "temperature", "top_p")}
    assert echoed == {**labels, "temperature": 0.5, "top_p": 0.9}


@pytest.mark.parametrize(
    "body, status",
    [
        ({"input": 7}, 400),
        ({"input": []}, 400),
        ({"input": "hello", "truncation": "somehow"}, 400),
        # As in OpenAI's API: the id is a field of this request, not the address of a resource.
        ({"input": "hello", "previous_response_id": "resp_none"}, 400),
    ],
)
def test_a_refusal_is_an_error_of_the_specification(stage: Stage, body: dict[str, Any], status: int) -> None:
    with pytest.raises(HTTPError) as refused:
        stage.send(body)
    assert refused.value.code == status
    error = json.loads(refused.value.read())["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
