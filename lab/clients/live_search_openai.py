"""OpenAI's client with very many functions, deferred by itself or by the gateway: ways to use it."""

import json
from collections.abc import Mapping
from typing import Any

from lab.clients.live_openai import client_of
from lab.clients.many_functions import QUESTION, RESULT, flat_functions, namespaced_functions

RunOptions = Mapping[str, Any]
RunSummary = Mapping[str, Any]


def responses(options: RunOptions) -> RunSummary:
    """Responses with functions in namespaces, all of them deferred, and the server's tool search."""
    client = client_of(options)
    tools = [*namespaced_functions(options["count"]), {"type": "tool_search"}]
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    kinds: list[list[str]] = []
    loaded: list[str] = []
    calls: list[str] = []
    text = ""
    while len(kinds) < options.get("turns", 4):
        response = _response(client, options, model=options.get("model", "m"), input=items, tools=tools, store=False)
        kinds.append([item.type for item in response.output])
        for item in response.output:
            if item.type == "tool_search_output":
                loaded += [tool.name for group in item.tools for tool in getattr(group, "tools", [group])]
        made = [item for item in response.output if item.type == "function_call"]
        calls += [f"{item.namespace}.{item.name}" for item in made]
        text = response.output_text
        if not made:
            break
        items += response.output
        items += [{"type": "function_call_output", "call_id": item.call_id, "output": RESULT} for item in made]
    return {"kinds": kinds, "loaded": loaded, "calls": calls, "text": text}


def _response(client: Any, options: RunOptions, **request: Any) -> Any:
    if not options.get("stream"):
        return client.responses.create(**request)
    with client.responses.stream(**request) as stream:
        for _ in stream:
            pass
        return stream.get_final_response()


def chat(options: RunOptions) -> RunSummary:
    """Chat completions, which have no way to defer tools: the gateway does it."""
    client = client_of(options)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    calls: list[str] = []
    for _ in range(options.get("turns", 4)):
        completion = client.chat.completions.create(
            model=options.get("model", "m"), messages=messages, tools=flat_functions(options["count"])
        )
        message = completion.choices[0].message
        if not message.tool_calls:
            return {"calls": calls, "text": message.content}
        messages.append(message)
        for call in message.tool_calls:
            calls.append(call.function.name)
            json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
    return {"calls": calls, "text": ""}
