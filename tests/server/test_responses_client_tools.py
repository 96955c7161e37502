"""Codex's tools over `/v1/responses`: streamed, stored, continued, and taken over by another process."""

from __future__ import annotations

import asyncio
from typing import Any

from dialects.openai_responses.codex_requests import EXEC, PATCH, SEARCH, SEARCH_CALL, TINY, WEB, custom
from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.json_text import dumps
from ferrule.core.reply import Reply
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.apis.responses.run import completed_parts
from server.client import gateway_of, scripted_engine
from server.responses_world import PATH, check_stream, follow

TOOLS: list[dict[str, Any]] = [EXEC, TINY, custom("apply_patch"), SEARCH, WEB]
CALLS = (
    ToolCall.of("mcp__tiny__total", '{"x": "1", "y": "2"}', id="c1"),
    ToolCall.of("apply_patch", dumps({"input": PATCH}), id="c2"),
    ToolCall.of("tool_search", '{"query": "adds"}', id="c3"),
)


def shown(output: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    fields = ("type", "namespace", "name", "arguments", "input")
    return [tuple(item[field] for field in fields if field in item) for item in output]


SHOWN = [
    ("function_call", "mcp__tiny", "total", '{"x": "1", "y": "2"}'),
    ("custom_tool_call", "apply_patch", PATCH),
    ("tool_search_call", {"query": "adds"}),
]


def test_calls_come_as_the_items_of_their_kinds_streamed_and_whole_stored_and_not() -> None:
    async def story() -> None:
        for store in (True, False):
            for stream in (True, False):
                async with gateway_of(scripted_engine(Reply.of(*CALLS))) as client:
                    body = {"input": "go", "tools": TOOLS, "stream": stream, "store": store}
                    answer = await client.post(PATH, body)
                    assert answer.headers["ferrule-ignored"] == "tools[]=web_search"
                    if stream:
                        check_stream(answer.events())
                    response = answer.events()[-1]["response"] if stream else answer.json()
                    assert shown(response["output"]) == SHOWN
                    assert response["tools"] == TOOLS
                    if store:
                        assert (await follow(client, response["id"]))[-1]["response"] == response

    asyncio.run(story())


def test_a_response_continues_another_with_the_tools_that_were_found_in_it() -> None:
    async def story() -> None:
        found = ToolCall.of("mcp__tiny__total", '{"x": "1", "y": "2"}', id="c9")
        engine = scripted_engine(Reply.of(CALLS[2]), Reply.of(found), "done")
        async with gateway_of(engine) as client:
            tools = [EXEC, SEARCH]
            first = (await client.post(PATH, {"input": "go", "tools": tools})).json()
            output = {**SEARCH_CALL[1], "call_id": "c3"}
            body = {"input": [output], "tools": tools, "previous_response_id": first["id"]}
            second = (await client.post(PATH, body)).json()
            assert shown(second["output"]) == SHOWN[:1]
            result = {"type": "function_call_output", "call_id": "c9", "output": "3"}
            body = {"input": [result], "tools": tools, "previous_response_id": second["id"]}
            third = (await client.post(PATH, body)).json()
            assert third["status"] == "completed"
            offered = [[tool.name for tool in request.tools] for request in engine.requests]
            assert offered[0] == ["exec_command", "tool_search"]
            assert offered[1] == offered[2] == ["exec_command", "tool_search", "mcp__tiny__total"]
            listed = (await client.get(f"{PATH}/{second['id']}/input_items")).json()["data"]
            assert [(item["type"], item["tools"]) for item in listed] == [("tool_search_output", output["tools"])]
            last = engine.requests[-1].messages
            assert [call.name for message in last for call in message.tool_calls] == ["tool_search", "mcp__tiny__total"]

    asyncio.run(story())


def test_another_process_knows_the_calls_of_the_one_before_by_the_models_names() -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine(Reply.of(*CALLS))) as client:
            response = (await client.post(PATH, {"input": "go", "tools": TOOLS})).json()
            stored = await client.gateway.ledger.response(response["id"])
            assert stored is not None
            record = ResumeRecord.from_json(stored.request)
            assert ResumeRecord.from_json(record.as_json()) == record
            parts = completed_parts(response["output"], record.client_tools)
            calls = [part.function for part in parts if isinstance(part, ToolCall)]
            assert calls == [FunctionCall(call.name, call.function.arguments) for call in CALLS]

    asyncio.run(story())
