"""What SDKs make of a stream: each function asks for a streamed call and returns the calls that a program would run.

A call counts as read if the SDK shows it as valid: a tool call of its final message, or of its merged chunks, and where
it gives only text, one whose arguments are a JSON object. What was read before an error counts too.
"""

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lab.sdk_streams.faults import SCHEMA, TOOL

ReadOptions = Mapping[str, Any]
Calls = list[list[Any]]

_CHAT_TOOL = {"type": "function", "function": {"name": TOOL, "description": "Pays.", "parameters": SCHEMA}}
_RESPONSES_TOOL = {"type": "function", "strict": False, "name": TOOL, "description": "Pays.", "parameters": SCHEMA}
_MESSAGES_TOOL = {"name": TOOL, "description": "Pays.", "input_schema": SCHEMA}


def _openai(options: ReadOptions) -> Any:
    client_class: Any = importlib.import_module("openai").OpenAI
    return client_class(api_key="none", base_url=f"{options['url']}/v1", max_retries=0)


def _anthropic(options: ReadOptions) -> Any:
    client_class: Any = importlib.import_module("anthropic").Anthropic
    return client_class(api_key="none", base_url=options["url"], max_retries=0)


def _chat(options: ReadOptions) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [{"role": "user", "content": options["question"]}],
        "tools": [_CHAT_TOOL],
        "tool_choice": options["choice"],
        "max_tokens": options["max_tokens"],
        "temperature": 0,
    }


def _response(options: ReadOptions) -> dict[str, Any]:
    return {
        "model": "m",
        "input": options["question"],
        "tools": [_RESPONSES_TOOL],
        "tool_choice": options["choice"],
        "max_output_tokens": options["max_tokens"],
        "temperature": 0,
    }


def _message(options: ReadOptions) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [{"role": "user", "content": options["question"]}],
        "tools": [_MESSAGES_TOOL],
        "tool_choice": {"type": "any" if options["choice"] == "required" else "auto"},
        "max_tokens": options["max_tokens"],
        "extra_body": {"temperature": 0},
    }


def _read(read: Callable[[Calls], None]) -> dict[str, Any]:
    """Run a reader that keeps its list of calls up to date."""
    calls: Calls = []
    try:
        read(calls)
    # Whatever an SDK raises: what it had shown before stays, and the error is reported.
    except Exception as failure:
        return {"calls": calls, "raised": f"{type(failure).__name__}: {failure}"[:200]}
    return {"calls": calls, "raised": ""}


def _objects(calls: Iterable[tuple[str, str]]) -> Calls:
    """The calls whose arguments are a JSON object."""
    read: Calls = []
    for name, text in calls:
        try:
            arguments = json.loads(text)
        except ValueError:
            continue
        if isinstance(arguments, dict):
            read.append([name, arguments])
    return read


def openai_chunks(options: ReadOptions) -> Mapping[str, Any]:
    """Chunks that the program adds up."""

    def read(calls: Calls) -> None:
        parts: dict[int, list[str]] = {}
        for chunk in _openai(options).chat.completions.create(**_chat(options), stream=True):
            for choice in chunk.choices:
                for part in choice.delta.tool_calls or ():
                    call = parts.setdefault(part.index, ["", ""])
                    call[0] += part.function.name or ""
                    call[1] += part.function.arguments or ""
            calls[:] = _objects((name, text) for name, text in parts.values())

    return _read(read)


def openai_stream(options: ReadOptions) -> Mapping[str, Any]:
    """`chat.completions.stream()`, and its final completion."""

    def read(calls: Calls) -> None:
        with _openai(options).chat.completions.stream(**_chat(options)) as stream:
            message = stream.get_final_completion().choices[0].message
        calls[:] = _objects((call.function.name, call.function.arguments) for call in message.tool_calls or ())

    return _read(read)


def openai_responses(options: ReadOptions) -> Mapping[str, Any]:
    """`responses.stream()`: items that are done, and those of the final response."""

    def read(calls: Calls) -> None:
        with _openai(options).responses.stream(**_response(options)) as stream:
            for event in stream:
                if event.type == "response.output_item.done" and event.item.type == "function_call":
                    calls += _objects([(event.item.name, event.item.arguments)])
            items = [item for item in stream.get_final_response().output if item.type == "function_call"]
        calls[:] = _objects((item.name, item.arguments) for item in items)

    return _read(read)


def anthropic_message(options: ReadOptions) -> Mapping[str, Any]:
    """`messages.stream()` and `get_final_message()`."""

    def read(calls: Calls) -> None:
        with _anthropic(options).messages.stream(**_message(options)) as stream:
            calls[:] = _blocks(stream.get_final_message())

    return _read(read)


def anthropic_snapshot(options: ReadOptions) -> Mapping[str, Any]:
    """The message that `messages.stream()` accumulates, event by event, also if the stream ends in an error."""

    def read(calls: Calls) -> None:
        with _anthropic(options).messages.stream(**_message(options)) as stream:
            for _ in stream:
                calls[:] = _blocks(stream.current_message_snapshot)

    return _read(read)


def anthropic_text(options: ReadOptions) -> Mapping[str, Any]:
    """`get_final_text()`, which needs text, beside the message."""

    def read(calls: Calls) -> None:
        with _anthropic(options).messages.stream(**_message(options)) as stream:
            for _ in stream.text_stream:
                calls[:] = _blocks(stream.current_message_snapshot)
            calls[:] = _blocks(stream.current_message_snapshot)
            stream.get_final_text()

    return _read(read)


def _blocks(message: Any) -> Calls:
    return [[block.name, block.input] for block in message.content if block.type == "tool_use"]


def langchain_openai(options: ReadOptions) -> Mapping[str, Any]:
    return _langchain(_langchain_openai(options), options)


def langchain_responses(options: ReadOptions) -> Mapping[str, Any]:
    return _langchain(_langchain_openai(options, use_responses_api=True), options)


def _langchain_openai(options: ReadOptions, **more: Any) -> Any:
    model: Any = importlib.import_module("langchain_openai").ChatOpenAI
    made = model(
        model="m",
        base_url=f"{options['url']}/v1",
        api_key="none",
        max_retries=0,
        max_tokens=options["max_tokens"],
        temperature=0,
        **more,
    )
    return made.bind_tools([_CHAT_TOOL], tool_choice=options["choice"])


def langchain_anthropic(options: ReadOptions) -> Mapping[str, Any]:
    model: Any = importlib.import_module("langchain_anthropic").ChatAnthropic
    made = model(
        model="m",
        base_url=options["url"],
        api_key="none",
        max_retries=0,
        max_tokens=options["max_tokens"],
        model_kwargs={"extra_body": {"temperature": 0}},
    )
    choice = {"type": "any"} if options["choice"] == "required" else {"type": "auto"}
    return _langchain(made.bind_tools([_MESSAGES_TOOL], tool_choice=choice), options)


def _langchain(model: Any, options: ReadOptions) -> Mapping[str, Any]:
    """The calls of the merged chunks."""

    def read(calls: Calls) -> None:
        total: Any = None
        for chunk in model.stream(options["question"]):
            total = chunk if total is None else total + chunk
        # Chunks are completed on the way; a program takes the calls when the stream is over.
        calls[:] = [[call["name"], call["args"]] for call in total.tool_calls] if total is not None else []

    return _read(read)
