"""OpenAI's client over both of its APIs: every chunk or event checked against its type, then summed by the client."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from lab.clients.type_check import check
from lab.clients.wire import ADDRESS, Wire


def _client(wire: Wire) -> Any:
    made: Any = importlib.import_module("openai").OpenAI
    return made(api_key="none", base_url=ADDRESS, http_client=wire.client(), max_retries=0)


def chat_stream(chunks: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    check("openai.types.chat", "ChatCompletionChunk", [chunk for chunk in chunks if "error" not in chunk])
    wire = Wire(events=chunks, done=True)
    with _client(wire).chat.completions.stream(model="m", messages=[]) as stream:
        for _ in stream:
            pass
        # Not get_final_completion, which raises where the answer was cut off.
        return _chat(stream.current_completion_snapshot)


def chat_body(body: dict[str, Any]) -> Mapping[str, Any]:
    check("openai.types.chat", "ChatCompletion", [body])
    return _chat(_client(Wire(body=body)).chat.completions.create(model="m", messages=[]))


def _chat(completion: Any) -> Mapping[str, Any]:
    choice = completion.choices[0]
    calls: list[Any] = choice.message.tool_calls or []
    return {
        "text": choice.message.content or "",
        "calls": [[call.id, call.function.name, call.function.arguments] for call in calls],
        "finish": choice.finish_reason,
        "usage": [completion.usage.prompt_tokens, completion.usage.completion_tokens],
    }


def response_events(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    """Only whether every event is of one of the client's types, as it stands."""
    check("openai.types.responses", "ResponseStreamEvent", events, strict=True)
    return {}


def response_raw_stream(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    """What comes of the plainer way to stream, which looks at nothing."""
    stream = _client(Wire(events=events, named=True)).responses.create(model="m", input="x", stream=True)
    return {"kinds": [event.type for event in stream]}


def response_stream(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    check("openai.types.responses", "ResponseStreamEvent", events, strict=True)
    return response_summed(events)


def response_unnamed(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    """The same without the names of the events beside them."""
    return response_summed(events, named=False)


def response_summed(events: Sequence[dict[str, Any]], *, named: bool = True) -> Mapping[str, Any]:
    """The same where events may be wrong: what the client itself makes of them."""
    with _client(Wire(events=events, named=named)).responses.stream(model="m", input="x") as stream:
        seen = list(stream)
        # The client has a final response only for one that was completed.
        is_cut = events[-1]["type"] in ("response.incomplete", "response.failed")
        return _response(seen[-1].response if is_cut else stream.get_final_response())


def response_body(body: dict[str, Any]) -> Mapping[str, Any]:
    check("openai.types.responses", "Response", [body], strict=True)
    return _response(_client(Wire(body=body)).responses.create(model="m", input="x"))


def _response(response: Any) -> Mapping[str, Any]:
    calls = [item for item in response.output if item.type == "function_call"]
    return {
        "text": response.output_text,
        "calls": [[call.call_id, call.name, call.arguments] for call in calls],
        "finish": response.status,
        "usage": response.usage and [response.usage.input_tokens, response.usage.output_tokens],
        "items": [[item.type, item.id, getattr(item, "status", None)] for item in response.output],
    }


def response_items(body: dict[str, Any]) -> Mapping[str, Any]:
    """A list of what went into a response."""
    check("openai.types.responses", "ResponseItemList", [body], strict=True)
    page = _client(Wire(body=body)).responses.input_items.list("resp_1")
    return {"items": [[item.type, item.id] for item in page.data]}


def response_runner(given: dict[str, Any]) -> Mapping[str, Any]:
    """The client's own loop, with a server's tools: "answers" are streams, one for each request it will send.

    "approve" is what it says to every request for leave.
    """
    first, *later = [Wire(events=events, named=True) for events in given["answers"]]
    made: Any = importlib.import_module("openai").OpenAI
    client = made(api_key="none", base_url=ADDRESS, http_client=first.client(*later), max_retries=0)
    runner: Any = importlib.import_module("openai.lib.responses_tool_runner").ResponsesToolRunner()
    params = {"model": "m", "input": "x", "tools": given["tools"]}
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.id)
        return given["approve"]

    response = runner.run(client, params, max_steps=5, stream=True, approve_mcp=approve)
    return {**_response(response), "asked": asked, "sent": [wire.sent for wire in (first, *later)]}


def chat_sent(arguments: dict[str, Any]) -> Mapping[str, Any]:
    """What the client sends when it is called so."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    wire = Wire(body={"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})
    _client(wire).chat.completions.create(**arguments)
    return {"sent": wire.sent}


def response_sent(arguments: dict[str, Any]) -> Mapping[str, Any]:
    wire = Wire(body={"id": "r", "object": "response", "created_at": 0, "model": "m", "output": []})
    _client(wire).responses.create(**arguments)
    return {"sent": wire.sent}
