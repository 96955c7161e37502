"""OpenAI's client against a gateway, over both of its APIs. Every function is one way in which programs use it."""

import importlib
from collections.abc import Mapping
from typing import Any

from lab.clients import task
from lab.clients.models import book_table

Given = Mapping[str, Any]
Told = Mapping[str, Any]


def client_of(given: Given) -> Any:
    made: Any = importlib.import_module("openai").OpenAI
    return made(api_key=given.get("key", "none"), base_url=f"{given['url']}/v1")


def _chat(given: Given, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": given.get("model", "smol"),
        "messages": [{"role": "user", "content": task.QUESTION}],
        "tools": task.chat_tools(),
        "tool_choice": "required",
        "max_completion_tokens": task.MAX_TOKENS,
        "temperature": task.TEMPERATURE,
    }
    return asked | more | dict(given.get("more", {}))


def chat_create(given: Given) -> Told:
    return _completion(client_of(given).chat.completions.create(**_chat(given)))


def chat_chunks(given: Given) -> Told:
    """Chunks, put together by the program, as most programs do it."""
    calls: dict[int, list[str]] = {}
    text, finish = "", None
    for chunk in client_of(given).chat.completions.create(**_chat(given), stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, ["", "", ""])
                for at, said in enumerate((part.id, part.function.name, part.function.arguments)):
                    call[at] += said or ""
    return {"calls": [calls[index] for index in sorted(calls)], "text": text, "finish": finish}


def chat_stream(given: Given) -> Told:
    with client_of(given).chat.completions.stream(**_chat(given), stream_options={"include_usage": True}) as stream:
        for _ in stream:
            pass
        told = stream.get_final_completion()
    return {**_completion(told), "usage": [told.usage.prompt_tokens, told.usage.completion_tokens]}


def chat_named(given: Given) -> Told:
    named = {"type": "function", "function": {"name": task.WEATHER}}
    return _completion(client_of(given).chat.completions.create(**_chat(given, tool_choice=named)))


def chat_one_call(given: Given) -> Told:
    return _completion(client_of(given).chat.completions.create(**_chat(given, parallel_tool_calls=False)))


def chat_parallel(given: Given) -> Told:
    return _completion(client_of(given).chat.completions.create(**_chat(given, parallel_tool_calls=True)))


def chat_parse_tool(given: Given) -> Told:
    """The client makes the tool's schema out of a type, and a value of that type out of the arguments."""
    tool = importlib.import_module("openai").pydantic_function_tool(book_table())
    completion = client_of(given).chat.completions.parse(**_chat(given, tools=[tool]))
    parsed = [call.function.parsed_arguments for call in completion.choices[0].message.tool_calls]
    return {**_completion(completion), "parsed": [type(one).__name__ for one in parsed]}


def chat_parse_answer(given: Given) -> Told:
    asked = _chat(given, response_format=book_table())
    completion = client_of(given).chat.completions.parse(**{k: v for k, v in asked.items() if "tool" not in k})
    return {**_completion(completion), "parsed": [type(completion.choices[0].message.parsed).__name__]}


def _completion(completion: Any) -> Told:
    choice = completion.choices[0]
    calls: list[Any] = choice.message.tool_calls or []
    return {
        "calls": [[call.id, call.function.name, call.function.arguments] for call in calls],
        "text": choice.message.content or "",
        "finish": choice.finish_reason,
    }


def _response(given: Given, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": given.get("model", "smol"),
        "input": task.QUESTION,
        "tools": task.response_tools(),
        "tool_choice": "required",
        "max_output_tokens": task.MAX_TOKENS,
        "temperature": task.TEMPERATURE,
        "store": False,
    }
    return asked | more | dict(given.get("more", {}))


def response_create(given: Given) -> Told:
    return _told(client_of(given).responses.create(**_response(given)))


def response_events(given: Given) -> Told:
    seen = list(client_of(given).responses.create(**_response(given), stream=True))
    failed = next((event for event in seen if event.type in ("error", "response.failed")), None)
    return _told(seen[-1].response) if failed is None else {"calls": [], "text": "", "finish": failed.type}


def response_stream(given: Given) -> Told:
    with client_of(given).responses.stream(**_response(given)) as stream:
        for _ in stream:
            pass
        return _told(stream.get_final_response())


def response_named(given: Given) -> Told:
    named = {"type": "function", "name": task.WEATHER}
    return _told(client_of(given).responses.create(**_response(given, tool_choice=named)))


def response_one_call(given: Given) -> Told:
    return _told(client_of(given).responses.create(**_response(given, parallel_tool_calls=False)))


def response_parallel(given: Given) -> Told:
    return _told(client_of(given).responses.create(**_response(given, parallel_tool_calls=True)))


def response_parse_tool(given: Given) -> Told:
    tool = importlib.import_module("openai").pydantic_function_tool(book_table())
    response = client_of(given).responses.parse(**_response(given, tools=[{"type": "function", **tool["function"]}]))
    parsed = [item.parsed_arguments for item in response.output if item.type == "function_call"]
    return {**_told(response), "parsed": [type(one).__name__ for one in parsed]}


def _told(response: Any) -> Told:
    calls = [item for item in response.output if item.type == "function_call"]
    return {
        "calls": [[call.call_id, call.name, call.arguments] for call in calls],
        "text": response.output_text,
        "finish": response.status,
    }


def models(given: Given) -> Told:
    return {"models": [one.id for one in client_of(given).models.list()]}
