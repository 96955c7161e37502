"""The caller's own tools over OpenAI's own SDK, streamed: the stream ends at the call, and the caller runs it."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from lab.gateway_process import gateway_process
from live.gated_mcp import GatedServer, serve_arguments, wait_for_tools
from live.openai_stream import openai_program
from live.scripted_model import Said, results_in, scripted_model

pytestmark = pytest.mark.live

HARD: dict[str, Any] = {
    "place": 'a "q" \\ \n é😀𝕒 שלום \u202e\u2028 </tool_call> ```json {"name": "x"}',
    "more": {"": [[], {}, None, True, -0.5, 1e300, 2**53 + 1], "deep": [[[["x"]]]]},
}
USER = {"role": "user", "content": "Look around."}


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
    return {"type": "function", "function": {"name": name, "description": "Looks.", "parameters": schema}}


@pytest.mark.parametrize("has_mcp", [False, True], ids=["no MCP", "MCP"])
def test_the_stream_ends_at_the_callers_calls_and_goes_on_with_its_results(has_mcp: bool, tmp_path: Path) -> None:
    """With an MCP server behind the gateway that has a tool of the very same name, it is not called either."""
    read_first = Event()

    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        results = results_in(messages)
        match len(results):
            case 0:
                return Said("Let me look.", [("near_look", HARD), ("near_look", {"place": ""})], until=read_first)
            case 2:
                return Said("And once more.", [("near_look", {"place": results[0]})])
            case _:
                return Said(f"I saw {results[-1]}.")

    near = GatedServer("near", tmp_path)
    with scripted_model(reply) as model:
        arguments = serve_arguments(tmp_path, model.url, [near] if has_mcp else [])
        with gateway_process(arguments, engine=None) as gateway, openai_program(gateway.url) as program:
            wait_for_tools(gateway.url, {"near_look"} if has_mcp else set())
            fields = {"model": "m", "messages": [USER], "tools": [tool("near_look")]}
            stream = program.create(**fields)
            # The model is held before its calls: the words before them come while it has not ended.
            stream.until("Let me look.")
            assert not stream.calls
            read_first.set()
            first = stream.rest()
            assert (first.finish, first.text) == ("tool_calls", "Let me look.")
            calls = [first.calls[0], first.calls[1]]
            assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
                ("near_look", HARD),
                ("near_look", {"place": ""}),
            ]
            receipts = [receipt for one in first.extensions for receipt in one["receipts"]]
            assert receipts == [call["id"] for call in calls]
            assert len(set(receipts)) == 2
            # Nobody but the caller ran them, and the model was not asked again.
            assert (len(model.requests), near.calls()) == (1, [])
            assert model.tool_names() == ["near_look"]

            seen = [f"saw {json.loads(call['arguments'])['place']}" for call in calls]
            answers = [
                {"role": "tool", "tool_call_id": call["id"], "content": text}
                for call, text in zip(calls, seen, strict=True)
            ]
            messages = [USER, first.message(), *answers]
            second = program.create(**{**fields, "messages": messages}).rest()
            assert (second.finish, second.text) == ("tool_calls", "And once more.")
            # The model read both results, as they were and in their order.
            assert results_in(model.requests[1]["messages"]) == seen
            assert json.loads(second.calls[0]["arguments"]) == {"place": seen[0]}

            last = {"role": "tool", "tool_call_id": second.calls[0]["id"], "content": "the end"}
            third = program.create(**{**fields, "messages": [*messages, second.message(), last]}).rest()
            assert (third.finish, third.text, third.calls) == ("stop", "I saw the end.", {})
            assert (len(model.requests), near.calls()) == (3, [])
