"""Anthropic's client against a gateway. Every function is one way in which programs use it."""

import importlib
import json
from collections.abc import Mapping
from typing import Any

from lab.clients import task

Given = Mapping[str, Any]
Told = Mapping[str, Any]


def client_of(given: Given) -> Any:
    made: Any = importlib.import_module("anthropic").Anthropic
    return made(api_key=given.get("key", "none"), base_url=given["url"])


def _asked(given: Given, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": given.get("model", "smol"),
        "messages": [{"role": "user", "content": task.QUESTION}],
        "tools": task.message_tools(),
        "tool_choice": {"type": "any"},
        "max_tokens": task.MAX_TOKENS,
        # The client has no such parameter any more; the gateway keeps it.
        "extra_body": {"temperature": task.TEMPERATURE},
    }
    return asked | more | dict(given.get("more", {}))


def create(given: Given) -> Told:
    return _told(client_of(given).messages.create(**_asked(given)))


def events(given: Given) -> Told:
    """Raw events, put together by the program."""
    calls: dict[int, list[str]] = {}
    text, finish = "", None
    for event in client_of(given).messages.create(**_asked(given), stream=True):
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            calls[event.index] = [event.content_block.id, event.content_block.name, ""]
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            calls[event.index][2] += event.delta.partial_json
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            text += event.delta.text
        elif event.type == "message_delta":
            finish = event.delta.stop_reason
    return {"calls": [calls[index] for index in sorted(calls)], "text": text, "finish": finish}


def stream(given: Given) -> Told:
    with client_of(given).messages.stream(**_asked(given)) as stream:
        for _ in stream:
            pass
        return _told(stream.get_final_message())


def named(given: Given) -> Told:
    choice = {"type": "tool", "name": task.WEATHER}
    return _told(client_of(given).messages.create(**_asked(given, tool_choice=choice)))


def one_call(given: Given) -> Told:
    choice = {"type": "any", "disable_parallel_tool_use": True}
    return _told(client_of(given).messages.create(**_asked(given, tool_choice=choice)))


def count(given: Given) -> Told:
    """How many tokens the client is told that its request has, and how many the answer says that it had."""
    client, asked = client_of(given), _asked(given)
    counted = {name: asked[name] for name in ("model", "messages", "tools", "tool_choice")}
    told = client.messages.count_tokens(**counted).input_tokens
    return {"counted": told, "used": client.messages.create(**asked).usage.input_tokens}


def run_tools(given: Given) -> Told:
    return _run(given, is_streamed=False)


def run_tools_streamed(given: Given) -> Told:
    return _run(given, is_streamed=True)


def _run(given: Given, *, is_streamed: bool) -> Told:
    """The client's own loop: it calls the functions and sends their results until the model only answers."""
    ran: list[list[str]] = []
    asked = _asked(given, tools=_tools(ran), extra_body={"temperature": task.TEMPERATURE, **task.FIRST_HOP})
    del asked["tool_choice"]
    runner = client_of(given).beta.messages.tool_runner(
        **asked, max_iterations=task.MOST_TURNS, **({"stream": True} if is_streamed else {})
    )
    turns = 0
    last: Any = None
    for turn in runner:
        turns += 1
        last = turn.get_final_message() if is_streamed else turn
    return {**_told(last), "calls": ran, "turns": turns}


def _tools(ran: list[list[str]]) -> list[Any]:
    """The tools as functions that note what they were given."""
    decorate: Any = importlib.import_module("anthropic").beta_tool

    def tool(name: str) -> Any:
        def run(**arguments: Any) -> str:
            ran.append([f"{name}-{len(ran)}", name, json.dumps(arguments)])
            return task.ANSWERS[name]

        run.__name__ = name
        return decorate(run, name=name, description=task.ABOUT[name], input_schema=task.SCHEMAS[name])

    return [tool(name) for name in task.SCHEMAS]


def _told(message: Any) -> Told:
    calls = [block for block in message.content if block.type == "tool_use"]
    return {
        "calls": [[call.id, call.name, json.dumps(call.input)] for call in calls],
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "finish": message.stop_reason,
    }


def models(given: Given) -> Told:
    return {"models": [one.id for one in client_of(given).models.list(limit=1000)]}
