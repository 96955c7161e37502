"""`ferrule trace`: a conversation as a timeline."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.command_line import run
from ferrule import Reply, ToolCall, tool
from ferrule.cli.trace import WIDTH, Span, Timeline
from ferrule.core.context import CallContext, Principal
from ferrule.engines.fake import FakeEngine
from ferrule.run.conversation import ToolConversation
from ferrule.run.journal import Decision
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import CallState
from ferrule.run.ledger.trace import ChangedBy, PromptPrefix, TracedRequest

ANN = CallContext(principal=Principal("ann", "acme"))
CALLS = Reply.of(ToolCall.of("look", {"city": "Paris"}, id="a"), ToolCall.of("pay", {"amount": 3}, id="b"))


@tool
async def look(city: str) -> str:
    return f"sunny in {city}\x1b[2J"


@tool(side_effects=True)
async def pay(amount: int) -> str:
    return f"paid {amount}"


async def yes(call: ToolCall) -> Decision:
    return Decision(True)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """One finished conversation and one that waits for approval."""
    path = tmp_path / "ledger.db"

    async def story() -> None:
        async with await open_ledger(str(path)) as opened_ledger:
            done = FakeEngine([CALLS, Reply.of("Paid.")])
            talk = await ToolConversation.open(opened_ledger, "over", done, [look, pay], decide=yes, context=ANN)
            await talk.send_message("Look and pay.")
            waits = await ToolConversation.open(opened_ledger, "waits", FakeEngine([CALLS]), [look, pay], context=ANN)
            await waits.send_message("Look and pay.")

    asyncio.run(story())
    return str(path)


def test_it_prints_the_messages_and_the_outcome_of_each_call(ledger: str) -> None:
    output = run("trace", "over", "--ledger", ledger).out
    for text in (
        "Look and pay.",
        'calls look({"city": "Paris"})',
        "look returned: sunny in Paris",
        "pay returned: paid 3",
    ):
        assert text in output
    assert "pay (effect)" in output
    assert "approved by" in output
    assert "done in" in output
    assert "\x1b[2J" not in output


def test_a_pending_turn_is_printed_as_far_as_it_has_come(ledger: str) -> None:
    output = run("trace", "waits", "--ledger", ledger).out
    assert "waiting" in output
    assert CallState.AWAITING_APPROVAL.value in output


def test_as_json_it_is_for_programs(ledger: str) -> None:
    document = json.loads(run("trace", "over", "--ledger", ledger, "--json").out)
    assert {call["tool"]: call["state"] for call in document["calls"]} == {"look": "done", "pay": "done"}
    assert document["messages"][-1] == "assistant  Paid."


def test_a_conversation_that_is_not_there_is_an_error(ledger: str) -> None:
    ran = run("trace", "nobody", "--ledger", ledger)
    assert (ran.code, "unknown conversation" in ran.err) == (1, True)


MOMENTS = st.floats(0, 1_000)


@given(MOMENTS, MOMENTS, MOMENTS, st.sampled_from(["done", "unknown", "failed"]))
def test_a_bar_keeps_to_the_scale_whatever_the_clocks_say(
    question: float, began: float, ended: float, end: str
) -> None:
    timeline = Timeline(0.0, 1_000.0, 1, {})
    span = Span("f", True, {"proposed": 0.0, "awaiting_approval": question, "started": began, end: ended})
    assert len(timeline.bar(span)) <= WIDTH
    assert timeline.bar(span).endswith("?") == (end == "unknown")


def test_it_prints_what_was_read_of_each_prompt_of_a_trace_and_who_changed_it(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    change = PromptPrefix(ChangedBy.CLIENT, "the system message changed at byte 0", 0, 4096)
    first = TracedRequest(
        id="request_a", tenant="acme", principal="ann", at=1.0, api="x", history_key="k", prompt_tokens=900
    )
    second = replace(first, id="request_b", at=2.0, cached_tokens=100, earlier_keys=("k",), prompt_prefix=change)

    async def story() -> None:
        async with await open_ledger(path) as opened_ledger:
            await opened_ledger.record_requests([first, second])

    asyncio.run(story())
    output = run("trace", "trace_a", "--ledger", path, "--tenant", "acme").out
    assert "by the client: the system message changed at byte 0" in " ".join(output.split())
    document = json.loads(run("trace", "trace_a", "--ledger", path, "--tenant", "acme", "--json").out)
    assert [one["read_tokens"] for one in document["requests"]] == [900, 800]
    assert [one["changed_by"] for one in document["requests"]] == ["", "client"]
    assert run("trace", "trace_a", "--ledger", path).code == 1
