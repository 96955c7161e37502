"""OpenAI's client over both of its APIs: every chunk or event is checked against its type, then read by the client."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from lab.clients.type_check import check
from lab.clients.wire import ADDRESS, Wire


def _client(wire: Wire) -> Any:
    client_class: Any = importlib.import_module("openai").OpenAI
    return client_class(api_key="none", base_url=ADDRESS, http_client=wire.client(), max_retries=0)


def chat_stream(chunks: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    check("openai.types.chat", "ChatCompletionChunk", [chunk for chunk in chunks if "error" not in chunk])
    wire = Wire(events=chunks, done=True)
    with _client(wire).chat.completions.stream(model="m", messages=[]) as stream:
        for _ in stream:
            pass
        # Not get_final_completion, which raises if the answer was cut off.
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
    """Check only that every event matches one of the client's types."""
    check("openai.types.responses", "ResponseStreamEvent", events, strict=True)
    return {}


def response_raw_stream(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    """The result of the client's plain stream, which checks nothing."""
    stream = _client(Wire(events=events, named=True)).responses.create(model="m", input="x", stream=True)
    return {"kinds": [event.type for event in stream]}


def response_stream(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    check("openai.types.responses", "ResponseStreamEvent", events, strict=True)
    return response_summed(events)


def response_unnamed(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    """The same, without the SSE event names."""
    return response_summed(events, named=False)


def response_summed(events: Sequence[dict[str, Any]], *, named: bool = True) -> Mapping[str, Any]:
    """How the client itself reads events that may be wrong."""
    with _client(Wire(events=events, named=named)).responses.stream(model="m", input="x") as stream:
        stream_events = list(stream)
        # The client has a final response only if the response was completed.
        is_cut = events[-1]["type"] in ("response.incomplete", "response.failed")
        return _response(stream_events[-1].response if is_cut else stream.get_final_response())


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
    """The list of a response's input items."""
    check("openai.types.responses", "ResponseItemList", [body], strict=True)
    page = _client(Wire(body=body)).responses.input_items.list("resp_1")
    return {"items": [[item.type, item.id] for item in page.data]}


def response_runner(options: dict[str, Any]) -> Mapping[str, Any]:
    """The client's own loop, with a server's tools: "answers" are streams, one for each request that it sends.

    "approve" is its answer to every approval request.
    """
    first, *later = [Wire(events=events, named=True) for events in options["answers"]]
    client_class: Any = importlib.import_module("openai").OpenAI
    client = client_class(api_key="none", base_url=ADDRESS, http_client=first.client(*later), max_retries=0)
    runner: Any = importlib.import_module("openai.lib.responses_tool_runner").ResponsesToolRunner()
    params = {"model": "m", "input": "x", "tools": options["tools"]}
    requests: list[str] = []

    def approve(request: Any) -> bool:
        requests.append(request.id)
        return options["approve"]

    response = runner.run(client, params, max_steps=5, stream=True, approve_mcp=approve)
    return {**_response(response), "asked": requests, "sent": [wire.sent for wire in (first, *later)]}


def chat_sent(arguments: dict[str, Any]) -> Mapping[str, Any]:
    """The request body that the client sends for these arguments."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    wire = Wire(body={"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})
    _client(wire).chat.completions.create(**arguments)
    return {"sent": wire.sent}


def response_sent(arguments: dict[str, Any]) -> Mapping[str, Any]:
    wire = Wire(body={"id": "r", "object": "response", "created_at": 0, "model": "m", "output": []})
    _client(wire).responses.create(**arguments)
    return {"sent": wire.sent}
