"""The specification's integration tests with a real model on a real bus.

The model is too weak to choose well, so each test offers one tool and requires the call. The arguments are the model's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ferrule import ChatMessage, ChoicePolicy, Role, ToolCallRequest, ToolConversation
from ferrule.core.call import How
from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered
from ferrule.run.executor import ToolExecutor
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import ApprovalState, Ledger
from ferrule.run.loop import Loop
from ferrule.run.machine import State
from ferrule.sources.bus.bus import Bus
from live.hearth_house import EXAMPLES, Hearth, hearth_at
from live.model import smol

pytestmark = [pytest.mark.live, pytest.mark.long]
FIRST = ChoicePolicy.REQUIRED_FIRST_HOP


@pytest.fixture(scope="module")
def hearth(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hearth]:
    with hearth_at(tmp_path_factory.mktemp("hearth")) as house:
        yield house


def asking(*messages: ChatMessage, policy: ChoicePolicy = FIRST) -> ToolCallRequest:
    return ToolCallRequest(
        messages=messages, tool_choice_policy=policy, parallel_tool_calls=False, max_tokens=600, temperature=0.0, seed=1
    )


async def chatted(bus: Bus, tool: str, request: ToolCallRequest, **options: Any) -> Loop:
    executor = ToolExecutor(bus, tools=[tool], **options)
    # With this format the model copies words from the question, not from the example call.
    return await executor.run_chat_with_tools(smol("pythonic"), request, context=CallContext(conversation="model"))


def test_an_answer_is_grounded_through_search_corpus(hearth: Hearth) -> None:
    question = ChatMessage.user("Search for: boiler pressure")
    loop = hearth.on_bus(lambda bus: chatted(bus, "search_corpus", asking(question), max_iterations=1))
    called, data, _, answer = loop.added
    (call,), (result,) = called.tool_calls, data.results
    assert call.receipt is not None
    assert (call.name, call.receipt.how) == ("search_corpus", How.GRAMMAR)
    assert not result.is_error
    passages = [passage for passage in result.content if passage["file"] == "heating.md"]
    assert passages, call.function.arguments
    page = EXAMPLES / "hearth" / "corpora" / "house" / "heating.md"
    assert passages[0]["text"] in page.read_text(encoding="utf-8")
    assert (answer.role, answer.tool_calls) == (Role.ASSISTANT, ())
    assert answer.content.strip()


def test_what_a_search_gave_is_translated_in_a_chain(hearth: Hearth) -> None:
    async def chain(bus: Bus) -> tuple[Loop, Loop]:
        question = ChatMessage.user("Search for: boiler pressure")
        first = await chatted(bus, "search_corpus", asking(question), max_iterations=1)
        onward = ChatMessage.user("Translate the word apples to de.")
        return first, await chatted(bus, "translate", asking(question, *first.new_messages, onward))

    first, second = hearth.on_bus(chain)
    assert first.added[1].results[0].content
    (call,), (result,) = second.added[0].tool_calls, second.added[1].results
    assert call.name == "translate"
    assert not result.is_error, call.function.arguments
    assert {"text", "not_in_the_table"} <= set(result.content)
    assert second.machine.state is State.DONE


def test_a_market_post_waits_for_approval_and_then_happens_once(hearth: Hearth, tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")

    async def opened(ledger: Ledger, bus: Bus) -> ToolConversation:
        executor = ToolExecutor(bus, tools=["post_to_market"])
        return await ToolConversation.open(ledger, "post", smol(), executor, request=asking())

    async def asked(bus: Bus) -> str:
        async with await open_ledger(path) as ledger:
            talk = await opened(ledger, bus)
            turn = await talk.send_message("Post an offer to the market: a wooden ladder.")
            assert turn.state is State.WAITING
            await talk.close()
            (waiting,) = await ledger.approvals(ApprovalState.PENDING)
            return waiting.id

    async def resumed(bus: Bus) -> tuple[State, Any, bool]:
        async with await open_ledger(path) as ledger:
            talk = await opened(ledger, bus)
            turn = await talk.resume()
            # A second approval from a second process has no effect.
            again = await talk.resume()
            return turn.state, talk.messages[2].results[0], again is turn

    def notices() -> int:
        listed = hearth.call("list_marketplace", {})
        assert isinstance(listed, Answered)
        return len(listed.content)

    before = notices()
    leave = hearth.on_bus(asked)
    assert notices() == before
    approve = [sys.executable, "-m", "ferrule", "approvals", "approve", leave, "--ledger", path]
    subprocess.run(approve, check=True, capture_output=True)
    state, result, is_over = hearth.on_bus(resumed)
    assert (state, result.is_error, is_over) == (State.DONE, False, True)
    assert notices() == before + 1
    traced = subprocess.run(
        [sys.executable, "-m", "ferrule", "trace", "post", "--ledger", path], check=True, capture_output=True, text=True
    )
    assert "post_to_market (effect)" in traced.stdout
    assert "approved by" in traced.stdout


def test_a_model_that_calls_without_end_is_stopped_by_the_budget_and_answers(hearth: Hearth) -> None:
    question = ChatMessage.user("List the corpora again and again.")
    request = asking(question, policy=ChoicePolicy.REQUIRED_ALWAYS)
    loop = hearth.on_bus(lambda bus: chatted(bus, "list_corpora", request, max_iterations=2))
    rounds = [message for message in loop.added if message.tool_calls]
    assert (len(rounds), loop.machine.state) == (2, State.DONE)
    assert not loop.reply.calls
