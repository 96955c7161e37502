"""Anthropic's client against a gateway. Each function is one way to use it."""

import importlib
import json
from collections.abc import Mapping
from typing import Any

from lab.clients import task

RunOptions = Mapping[str, Any]
RunSummary = Mapping[str, Any]


def client_of(options: RunOptions) -> Any:
    client_class: Any = importlib.import_module("anthropic").Anthropic
    return client_class(api_key=options.get("key", "none"), base_url=options["url"])


def _request(options: RunOptions, **more: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": options.get("model", "smol"),
        "messages": [{"role": "user", "content": task.QUESTION}],
        "tools": task.message_tools(),
        "tool_choice": {"type": "any"},
        "max_tokens": task.MAX_TOKENS,
        # The client no longer has this parameter; the gateway still accepts it.
        "extra_body": {"temperature": task.TEMPERATURE},
    }
    return request | more | dict(options.get("more", {}))


def create(options: RunOptions) -> RunSummary:
    return _summary(client_of(options).messages.create(**_request(options)))


def events(options: RunOptions) -> RunSummary:
    """Raw events, assembled by the program."""
    calls: dict[int, list[str]] = {}
    text, finish = "", None
    for event in client_of(options).messages.create(**_request(options), stream=True):
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            calls[event.index] = [event.content_block.id, event.content_block.name, ""]
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            calls[event.index][2] += event.delta.partial_json
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            text += event.delta.text
        elif event.type == "message_delta":
            finish = event.delta.stop_reason
    return {"calls": [calls[index] for index in sorted(calls)], "text": text, "finish": finish}


def stream(options: RunOptions) -> RunSummary:
    with client_of(options).messages.stream(**_request(options)) as stream:
        for _ in stream:
            pass
        return _summary(stream.get_final_message())


def named_tool(options: RunOptions) -> RunSummary:
    choice = {"type": "tool", "name": task.WEATHER}
    return _summary(client_of(options).messages.create(**_request(options, tool_choice=choice)))


def one_call(options: RunOptions) -> RunSummary:
    choice = {"type": "any", "disable_parallel_tool_use": True}
    return _summary(client_of(options).messages.create(**_request(options, tool_choice=choice)))


def count(options: RunOptions) -> RunSummary:
    """The token count of the request, and the prompt tokens that the answer reports."""
    client, request = client_of(options), _request(options)
    counted = {name: request[name] for name in ("model", "messages", "tools", "tool_choice")}
    tokens = client.messages.count_tokens(**counted).input_tokens
    usage = client.messages.create(**request).usage
    # Tokens that the engine had in its cache are counted beside the others, as in Anthropic's API.
    return {"counted": tokens, "used": usage.input_tokens + (usage.cache_read_input_tokens or 0)}


def run_tools(options: RunOptions) -> RunSummary:
    return _run(options, is_streamed=False)


def run_tools_streamed(options: RunOptions) -> RunSummary:
    return _run(options, is_streamed=True)


def _run(options: RunOptions, *, is_streamed: bool) -> RunSummary:
    """The client's own loop: it calls the functions and sends their results until the model stops calling."""
    executed: list[list[str]] = []
    request = _request(options, tools=_tools(executed), extra_body={"temperature": task.TEMPERATURE, **task.FIRST_HOP})
    del request["tool_choice"]
    runner = client_of(options).beta.messages.tool_runner(
        **request, max_iterations=task.MOST_TURNS, **({"stream": True} if is_streamed else {})
    )
    turns = 0
    last: Any = None
    for turn in runner:
        turns += 1
        last = turn.get_final_message() if is_streamed else turn
    return {**_summary(last), "calls": executed, "turns": turns}


def _tools(executed: list[list[str]]) -> list[Any]:
    """The tools as functions that record their arguments."""
    decorate: Any = importlib.import_module("anthropic").beta_tool

    def tool(name: str) -> Any:
        def run(**arguments: Any) -> str:
            executed.append([f"{name}-{len(executed)}", name, json.dumps(arguments)])
            return task.ANSWERS[name]

        run.__name__ = name
        return decorate(run, name=name, description=task.ABOUT[name], input_schema=task.SCHEMAS[name])

    return [tool(name) for name in task.SCHEMAS]


def _summary(message: Any) -> RunSummary:
    calls = [block for block in message.content if block.type == "tool_use"]
    return {
        "calls": [[call.id, call.name, json.dumps(call.input)] for call in calls],
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "finish": message.stop_reason,
    }


def models(options: RunOptions) -> RunSummary:
    return {"models": [one.id for one in client_of(options).models.list(limit=1000)]}
