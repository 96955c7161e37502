"""Lists of tools, calls and choices of any length are read in linear time: a client chooses how long they are."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from ferrule import DefinitionError
from ferrule.dialects.anthropic.request_decoder import read_request as read_messages
from ferrule.dialects.openai_forward import read_completion, read_embeddings
from ferrule.dialects.openai_responses.request_decoder import read_responses_request

ALLOWED = 3
"""How many times more than in proportion a long body may cost: machines are not even."""
TRIES = 10
USER = [{"role": "user", "content": "x"}]
OBJECT = {"type": "object"}
Body = dict[str, Any]


def functions(count: int) -> list[Body]:
    return [{"type": "function", "name": f"a{at}"} for at in range(count)]


def namespace(count: int) -> list[Body]:
    return [{"type": "namespace", "name": "n", "tools": functions(count)}]


def custom_tools(count: int) -> Body:
    return {"input": USER, "tools": [{"type": "custom", "name": f"a{at}"} for at in range(count)]}


def described_namespaces(count: int) -> Body:
    tools = [{"type": "function", "name": "a"}]
    entries = [{"type": "namespace", "name": f"n{at}", "description": "d", "tools": tools} for at in range(count)]
    return {"input": USER, "tools": entries}


def unknown_calls(count: int) -> Body:
    calls = [{"type": "function_call", "name": f"z{at}", "call_id": f"c{at}", "arguments": "{}"} for at in range(count)]
    return {"input": calls, "tools": namespace(count)}


def additional_tools(count: int) -> Body:
    return {"input": [{"type": "additional_tools", "tools": []}] * count + USER, "tools": functions(count)}


def chosen_tools(count: int) -> Body:
    choice = {"type": "allowed_tools", "tools": functions(count)}
    return {"input": USER, "tools": namespace(count), "tool_choice": choice}


def chosen_namespaces(count: int) -> Body:
    choice = {"type": "allowed_tools", "tools": [{"type": "namespace", "name": "n"}] * count}
    return {"input": USER, "tools": namespace(count), "tool_choice": choice}


def references(count: int) -> Body:
    content = [{"type": "tool_reference", "tool_name": f"a{at}"} for at in range(count)]
    tools = [{"name": f"a{at}", "input_schema": OBJECT, "defer_loading": at > 0} for at in range(count)]
    result = {"type": "tool_result", "tool_use_id": "c", "content": content}
    return {"messages": [{"role": "user", "content": [result]}], "tools": tools}


BODIES = (
    *(custom_tools, described_namespaces, unknown_calls, additional_tools, chosen_tools, chosen_namespaces),
    references,
)


def seconds(body: Body) -> float:
    """The CPU seconds that a body takes."""
    read = read_messages if "messages" in body else read_responses_request
    return cpu_seconds(lambda: read(body))


def cpu_seconds(act: Callable[[], object]) -> float:
    gc.disable()
    try:
        started = time.process_time()
        act()
        return time.process_time() - started
    finally:
        gc.enable()


LONG_LISTS: dict[str, Callable[[int], Any]] = {
    "tokens": lambda count: [7] * count,
    "lists of tokens": lambda count: [[7]] * count,
    "texts": lambda count: ["a"] * count,
    "a fault at the end": lambda count: [7] * count + [7.0],
    "a fault in the last list": lambda count: [[7]] * count + [[-1]],
}


@pytest.mark.parametrize("kind", LONG_LISTS)
def test_reading_a_prompt_of_many_tokens_costs_no_more_than_parsing_its_json(kind: str) -> None:
    prompt = LONG_LISTS[kind](200_000)
    text = json.dumps({"prompt": prompt, "input": prompt})
    body = json.loads(text)

    def read() -> None:
        for reader in (read_completion, read_embeddings):
            with nullcontext() if "fault" not in kind else pytest.raises(DefinitionError):
                reader(body)

    assert any(cpu_seconds(read) <= ALLOWED * cpu_seconds(lambda: json.loads(text)) for _ in range(TRIES))


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_read_in_linear_time(body: Callable[[int], Body]) -> None:
    long, short = body(8_000), body(500)
    assert any(seconds(long) <= ALLOWED * 16 * seconds(short) for _ in range(TRIES))
