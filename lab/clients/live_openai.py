"""OpenAI's client against a gateway, over both of its APIs. Each function is one way to use it."""

import importlib
from collections.abc import Mapping
from typing import Any

from lab.clients import task
from lab.clients.models import book_table

RunOptions = Mapping[str, Any]
RunSummary = Mapping[str, Any]

# The client's helpers raise when an answer is cut off, and this model may repeat its call until the budget ends.
_ONE_CALL: dict[str, Any] = {"parallel_tool_calls": False}


def client_of(options: RunOptions) -> Any:
    client_class: Any = importlib.import_module("openai").OpenAI
    return client_class(api_key=options.get("key", "none"), base_url=f"{options['url']}/v1")


def _chat(options: RunOptions, **more: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": options.get("model", "smol"),
        "messages": [{"role": "user", "content": task.QUESTION}],
        "tools": task.chat_tools(),
        "tool_choice": "required",
        "max_completion_tokens": task.MAX_TOKENS,
        "temperature": task.TEMPERATURE,
    }
    return request | more | dict(options.get("more", {}))


def chat_create(options: RunOptions) -> RunSummary:
    return _completion(client_of(options).chat.completions.create(**_chat(options)))


def chat_chunks(options: RunOptions) -> RunSummary:
    """Chunks, assembled by the program, as most programs do."""
    calls: dict[int, list[str]] = {}
    text, finish = "", None
    for chunk in client_of(options).chat.completions.create(**_chat(options), stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, ["", "", ""])
                for at, piece in enumerate((part.id, part.function.name, part.function.arguments)):
                    call[at] += piece or ""
    return {"calls": [calls[index] for index in sorted(calls)], "text": text, "finish": finish}


def chat_stream(options: RunOptions) -> RunSummary:
    with client_of(options).chat.completions.stream(
        **_chat(options, **_ONE_CALL), stream_options={"include_usage": True}
    ) as stream:
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    return {**_completion(completion), "usage": [completion.usage.prompt_tokens, completion.usage.completion_tokens]}


def chat_named(options: RunOptions) -> RunSummary:
    named = {"type": "function", "function": {"name": task.WEATHER}}
    return _completion(client_of(options).chat.completions.create(**_chat(options, tool_choice=named)))


def chat_one_call(options: RunOptions) -> RunSummary:
    return _completion(client_of(options).chat.completions.create(**_chat(options, parallel_tool_calls=False)))


def chat_parallel(options: RunOptions) -> RunSummary:
    return _completion(client_of(options).chat.completions.create(**_chat(options, parallel_tool_calls=True)))


def chat_parse_tool(options: RunOptions) -> RunSummary:
    """The client derives the tool's schema from a type, and a value of that type from the arguments."""
    tool = importlib.import_module("openai").pydantic_function_tool(book_table())
    completion = client_of(options).chat.completions.parse(**_chat(options, tools=[tool], **_ONE_CALL))
    parsed = [call.function.parsed_arguments for call in completion.choices[0].message.tool_calls]
    return {**_completion(completion), "parsed": [type(one).__name__ for one in parsed]}


def chat_parse_answer(options: RunOptions) -> RunSummary:
    request = _chat(options, response_format=book_table())
    completion = client_of(options).chat.completions.parse(**{k: v for k, v in request.items() if "tool" not in k})
    return {**_completion(completion), "parsed": [type(completion.choices[0].message.parsed).__name__]}


def _completion(completion: Any) -> RunSummary:
    choice = completion.choices[0]
    calls: list[Any] = choice.message.tool_calls or []
    return {
        "calls": [[call.id, call.function.name, call.function.arguments] for call in calls],
        "text": choice.message.content or "",
        "finish": choice.finish_reason,
    }


def _response(options: RunOptions, **more: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": options.get("model", "smol"),
        "input": task.QUESTION,
        "tools": task.response_tools(),
        "tool_choice": "required",
        "max_output_tokens": task.MAX_TOKENS,
        "temperature": task.TEMPERATURE,
        "store": False,
    }
    return request | more | dict(options.get("more", {}))


def response_create(options: RunOptions) -> RunSummary:
    return _summary(client_of(options).responses.create(**_response(options)))


def response_events(options: RunOptions) -> RunSummary:
    events = list(client_of(options).responses.create(**_response(options), stream=True))
    failed = next((event for event in events if event.type in ("error", "response.failed")), None)
    return _summary(events[-1].response) if failed is None else {"calls": [], "text": "", "finish": failed.type}


def response_stream(options: RunOptions) -> RunSummary:
    with client_of(options).responses.stream(**_response(options)) as stream:
        for _ in stream:
            pass
        return _summary(stream.get_final_response())


def response_named(options: RunOptions) -> RunSummary:
    named = {"type": "function", "name": task.WEATHER}
    return _summary(client_of(options).responses.create(**_response(options, tool_choice=named)))


def response_one_call(options: RunOptions) -> RunSummary:
    return _summary(client_of(options).responses.create(**_response(options, parallel_tool_calls=False)))


def response_parallel(options: RunOptions) -> RunSummary:
    return _summary(client_of(options).responses.create(**_response(options, parallel_tool_calls=True)))


def response_parse_tool(options: RunOptions) -> RunSummary:
    tool = importlib.import_module("openai").pydantic_function_tool(book_table())
    response = client_of(options).responses.parse(
        **_response(options, tools=[{"type": "function", **tool["function"]}])
    )
    parsed = [item.parsed_arguments for item in response.output if item.type == "function_call"]
    return {**_summary(response), "parsed": [type(one).__name__ for one in parsed]}


def _summary(response: Any) -> RunSummary:
    calls = [item for item in response.output if item.type == "function_call"]
    return {
        "calls": [[call.call_id, call.name, call.arguments] for call in calls],
        "text": response.output_text,
        "finish": response.status,
    }


def models(options: RunOptions) -> RunSummary:
    return {"models": [one.id for one in client_of(options).models.list()]}


def text_completion(options: RunOptions) -> RunSummary:
    completion = client_of(options).completions.create(**_text(options))
    return {**_text_summary(completion), "usage": completion.usage.completion_tokens}


def text_chunks(options: RunOptions) -> RunSummary:
    chunks = list(client_of(options).completions.create(**_text(options), stream=True))
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    return {**_text_summary(chunks[-1]), "text": text, "chunks": len(chunks)}


def embeddings(options: RunOptions) -> RunSummary:
    """The client asks for base64 and decodes it by itself."""
    answer = client_of(options).embeddings.create(
        model=options.get("model", "smol"), input=["A cat.", "A kitten.", "Tax."]
    )
    vectors = [one.embedding for one in answer.data]
    return {"calls": [], "text": "", "finish": None, "vectors": vectors}


def _text(options: RunOptions) -> dict[str, Any]:
    request = {"model": options.get("model", "smol"), "prompt": "The capital of France is", "max_tokens": 8}
    return request | {"temperature": 0.0} | dict(options.get("more", {}))


def _text_summary(completion: Any) -> dict[str, Any]:
    choice = completion.choices[0]
    return {"calls": [], "text": choice.text, "finish": choice.finish_reason}
