"""OpenAI's client over both of its APIs: every chunk or event checked against its type, then summed by the client."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ferrule.bench.clients.typed import check
from ferrule.bench.clients.wire import ADDRESS, Wire


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


def response_stream(events: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    check("openai.types.responses", "ResponseStreamEvent", events)
    with _client(Wire(events=events, named=True)).responses.stream(model="m", input="x") as stream:
        seen = list(stream)
        # The client has a final response only for one that was completed.
        is_completed = events[-1]["type"] == "response.completed"
        return _response(stream.get_final_response() if is_completed else seen[-1].response)


def response_body(body: dict[str, Any]) -> Mapping[str, Any]:
    check("openai.types.responses", "Response", [body])
    return _response(_client(Wire(body=body)).responses.create(model="m", input="x"))


def _response(response: Any) -> Mapping[str, Any]:
    calls = [item for item in response.output if item.type == "function_call"]
    return {
        "text": response.output_text,
        "calls": [[call.call_id, call.name, call.arguments] for call in calls],
        "finish": response.status,
        "usage": [response.usage.input_tokens, response.usage.output_tokens],
    }


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
