"""A real engine accepts and follows a grammar that allows arguments in any order."""

from __future__ import annotations

import pytest

from ferrule import ChatMessage, ToolCallRequest, ToolChoice, ToolDefinition
from ferrule.core.call import How
from live.model import smol

pytestmark = pytest.mark.live

BOOK = (
    ToolDefinition.build("book")
    .description("Books a room.")
    .parameter("nights", {"type": "integer", "minimum": 1, "maximum": 9}, required=True)
    .parameter("city", {"type": "string", "maxLength": 16}, required=True)
    .parameter("late", {"type": "boolean"})
    .done()
)


def test_calls_follow_the_grammar_in_any_argument_order() -> None:
    engine = smol("hermes", any_order=True)
    for seed in range(5):
        reply = engine.generate(
            ToolCallRequest(
                messages=(ChatMessage.user("Book a room in Rome for 2 nights."),),
                tools=(BOOK,),
                tool_choice=ToolChoice.required(),
                parallel_tool_calls=False,
                max_tokens=120,
                temperature=1.0,
                seed=seed,
            )
        )
        (call,) = reply.calls
        assert call.receipt is not None
        assert (call.receipt.how, reply.diagnostics) == (How.GRAMMAR, ())
        assert {"city", "nights"} <= {*call.arguments}
