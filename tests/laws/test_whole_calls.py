"""Law 9: a call is whole, or it is not a call. Only the schema and the token budget limit a value.

The engine is scripted and writes as many characters as it has tokens; what it may write is the real grammar, followed
by llguidance's own matcher.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.tools import PLAIN_TEMPLATE
from ferrule import ChatMessage, FinishReason, Reply, ToolCall, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.core.call import How
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.formats import all_formats, render

FORMATS = all_formats()
TEXT: dict[str, Any] = {"type": "string"}
WRITE = ToolDefinition(
    "write",
    "Write a file.",
    {
        "type": "object",
        "properties": {
            "path": TEXT,
            "content": TEXT,
            "tags": {"type": "array", "items": TEXT},
            "size": {"type": "integer"},
        },
        "required": ["path", "content", "tags", "size"],
    },
)
# Beside them the budget used to be divided by the strings of every tool.
OTHERS = tuple(
    ToolDefinition(name, "", {"type": "object", "properties": dict.fromkeys("abcdefgh", TEXT)})
    for name in ("read", "edit", "grep")
)
TOOLS = (WRITE, *OTHERS)
CHOICES = {"auto": ToolChoice.auto(), "required": ToolChoice.required(), "one": ToolChoice.one("write")}


class Typist(FakeGenerator):
    """Writes one character per token and stops at the budget, as an engine does."""

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        text = next(self._texts)
        for start in range(0, min(len(text), request.max_tokens), 50):
            yield Piece(text[start : min(start + 50, request.max_tokens)])
        yield CompletionEnd(len(text) > request.max_tokens, 1, min(len(text), request.max_tokens))


def write_call(form: str, length: int, items: int) -> ToolCall:
    words = "All work and no play makes a long file. "
    content = (words * (length // len(words) + 1))[:length]
    arguments = {"path": "notes.txt", "content": content, "tags": [f"tag {n}" for n in range(items)], "size": 10**items}
    return ToolCall.of("write", arguments, id=FORMATS[form].ids.sample("write", 0))


def answer(form: str, text: str, choice: str, budget: int) -> Reply:
    engine = TextEngine(Typist([text], ModelFacts(template=PLAIN_TEMPLATE)), TextOptions(format=form))
    request = ToolCallRequest(
        messages=(ChatMessage.user("Write it."),), tools=TOOLS, tool_choice=CHOICES[choice], max_tokens=budget
    )
    return engine.generate(request)


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=3)
@given(st.sampled_from([100, 700, 5_000]), st.integers(0, 80), st.sampled_from(sorted(CHOICES)))
def test_a_value_is_as_long_as_the_model_writes_it(form: str, length: int, items: int, choice: str) -> None:
    call = write_call(form, length, items)
    text = render(FORMATS[form], Reply.of(call), TOOLS)
    reply = answer(form, text, choice, len(text))
    assert [one.arguments for one in reply.calls] == [call.arguments]
    assert reply.diagnostics == ()
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert receipt.how is How.GRAMMAR
    assert reply.finish is FinishReason.TOOL_CALLS


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=8)
@given(st.data(), st.sampled_from(sorted(CHOICES)))
def test_a_budget_that_ends_inside_a_call_gives_no_call(form: str, data: st.DataObject, choice: str) -> None:
    text = render(FORMATS[form], Reply.of(write_call(form, 400, 5)), TOOLS)
    inside = text.index("All work")
    reply = answer(form, text, choice, data.draw(st.integers(inside, inside + 390)))
    assert reply.calls == ()
    assert reply.finish is FinishReason.LENGTH


@settings(max_examples=20)
@given(st.integers(1, 3_000), st.integers(1, 3_000))
def test_a_larger_budget_never_gives_a_shorter_value(one: int, other: int) -> None:
    call = write_call("hermes", 2_000, 20)
    text = render(FORMATS["hermes"], Reply.of(call), TOOLS)
    lengths = [
        max((len(each.arguments["content"]) for each in answer("hermes", text, "auto", budget).calls), default=0)
        for budget in sorted((one, other))
    ]
    assert lengths == sorted(lengths)
    assert set(lengths) <= {0, 2_000}
