"""Data for the screenshots: the tools of a small office, and conversations that used them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage, messages_as_json
from ferrule.core.outcome import Answered, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.engines.profile import Finding, Profile, Verdict, save_profile
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.trace import RequestError, TracedRequest, TraceStatus
from ferrule.run.tool_usage import AttemptStatus, CallAttempt
from live.console.conversation_writer import ConversationWriter

FUNCTIONS = '''
from typing import Annotated, Literal

from pydantic import Field

from ferrule import tool


@tool
def get_weather(city: Literal["Bern", "Oslo", "Lisbon"], days: Annotated[int, Field(ge=1, le=5)] = 1) -> dict:
    """The weather in a city, for some days from today on."""
    return {"city": city, "sky": "sunny", "degrees": [21, 19, 23, 22, 20][:days]}


@tool
def search_notes(words: str, most: Annotated[int, Field(ge=1, le=50)] = 10) -> list[str]:
    """Finds the notes in which these words occur."""
    return []


@tool(side_effects=True)
def book_table(
    day: Annotated[str, Field(json_schema_extra={"format": "date"})],
    hour: Annotated[int, Field(ge=11, le=22, description="As long as the kitchen is open.")],
    guests: Annotated[int, Field(ge=1, le=12)],
    place: Literal["window", "garden", "any"] = "any",
    note: Annotated[str | None, Field(max_length=200)] = None,
) -> str:
    """Books a table at the restaurant. For more than eight guests, the restaurant calls back."""
    return "booked"


@tool(side_effects=True)
def pay(to: str, amount: Annotated[float, Field(gt=0, le=5000)], purpose: str = "") -> str:
    """Pays a bill from the office's account."""
    return "paid"


TOOLS = [get_weather, search_notes, book_table, pay]
'''
TOOL_CALLS = 40
"""The quota of tool calls in an hour."""
UPSTREAM = "http://127.0.0.1:9/v1"
EXTRA_CONFIG = f"""
[engines.away]
use = "openai:qwen3-8b"
url = "{UPSTREAM}"
tries = 1

[models.smol]
engines = ["smol"]

[models.qwen3-8b]
engines = ["away", "smol"]

[quotas.requests-of-a-key]
counts = "requests"
most = 60
per = "day"

[quotas.tokens-of-a-key]
counts = "tokens"
most = 20_000
per = "day"

[quotas.tool-calls]
counts = "calls"
most = {TOOL_CALLS}
per = "hour"
each = "tenant"
"""
PENDING_CALLS = (
    ("book_table", {"day": "2026-11-27", "hour": 19, "guests": 8, "place": "window", "note": "A birthday."}),
    ("pay", {"to": "Baker\u200b Lutz", "amount": 84.5, "purpose": "Bread for October, and November in advance"}),
    ("switch", {"lamp": "attic", "on": False}),
)
"""Calls that are waiting for approval. One of them contains a hidden character."""
TRACE = "conv_1c7f4b0e9a52d836"
_FINDINGS = (
    ("auto", "honoured", "3 of 3 prompts that want prose were answered with prose"),
    ("none", "honoured", "no call in 3 of 3 answers; without it 3 of 3 had one"),
    ("required", "partly", "2 of 3 had a call; the third was prose that looks like one"),
    ("named", "ignored", "3 of 3 calls were of send_note, though find_city was named"),
    ("schema.enum", "honoured", "9 of 9 values were of the enum; without it 7 of 9 were not"),
    ("schema.pattern", "ignored", "5 of 9 values did not match"),
    ("stream", "honoured", "calls came in 12, 14 and 11 pieces"),
)
_QUESTIONS = (
    ("What is the weather in Oslo?", "get_weather", {"city": "Oslo"}),
    ("Where did I write down the garage's number?", "search_notes", {"words": "garage"}),
    ("And in Bern, for three days?", "get_weather", {"city": "Bern", "days": 3}),
    ("Find what we said about the offsite.", "search_notes", {"words": "offsite"}),
    ("Will it rain in Lisbon?", "get_weather", {"city": "Lisbon", "days": 2}),
)


def write_profile() -> None:
    """Save a doctor profile for the engine that is down."""
    findings = tuple(Finding(name, Verdict(verdict), evidence) for name, verdict, evidence in _FINDINGS)
    save_profile(Profile(UPSTREAM, "qwen3-8b", "2026-10-02", findings))


def write_keys(request: Callable[..., Any]) -> None:
    """Create keys in every state with requests to a running gateway."""
    day = 86_400
    laptop = request("/v1/keys", {"name": "old-laptop", "expires_in": 30 * day})
    request(f"/v1/keys/{laptop['id']}/revoke", {})
    request("/v1/keys", {"name": "dora", "models": [], "approve": True, "expires_in": 365 * day})
    invoices = {"name": "invoice-agent", "models": ["smol"], "tools": ["pay", "search_notes"], "rate": 60, "width": 4}
    request("/v1/models", key=request("/v1/keys", {**invoices, "expires_in": 5 * day})["key"])
    desk = request("/v1/keys", {"name": "front-desk", "tools": ["get_*", "book_table"], "expires_in": 90 * day})
    request("/v1/models", key=desk["key"])
    request(f"/v1/keys/{desk['id']}/rotate", {"overlap_seconds": day, "expires_in": 90 * day})


async def write_conversations(file: Path, tools: tuple[ToolDefinition, ...]) -> None:
    async with await open_ledger(str(file)) as ledger:
        now = time.time()
        for number in range(24):
            await _write_conversation(ledger, number, now - 3600.0 * (50 - 2 * number), tools)
        await _write_trace(ledger, now - 900, tools)
        await _write_failures(ledger, now - 240)


async def _write_conversation(ledger: Ledger, number: int, at: float, tools: tuple[ToolDefinition, ...]) -> None:
    text, name, arguments = _QUESTIONS[number % len(_QUESTIONS)]
    who, model = ("ann", "bob")[number % 3 == 2], ("smol", "qwen3-8b")[number % 4 == 1]
    writer = ConversationWriter(ledger, f"conv_{number:04x}a7d1e60b", Principal(who), at, tools, model)
    await writer.add_user_message(text)
    call = ToolCall.of(name, arguments, "c1")
    if number % 8 == 2:
        await writer.add_reply_without_call(CallAttempt(name, AttemptStatus.NOT_OFFERED, name.rpartition("_")[2]))
    if number % 6 == 5:
        await writer.add_reply("", call)
        await writer.run_call(call, Answered("it took too long", True, "timeout"), 5.0)
        call = replace(call, id="c2")
    attempt = CallAttempt(
        name, AttemptStatus.REPAIRED if number % 7 == 3 else AttemptStatus.ACCEPTED, name, 0, number % 6 == 5
    )
    await writer.add_reply("", call, attempt=attempt, seconds=0.6 + number % 5 / 3)
    await writer.run_call(call, Answered({"found": 2}))
    await writer.add_reply("Here is what I found.", seconds=0.5 + number % 7 / 4)
    await writer.finish()
    await ledger.record_requests([_request(writer, at, text, (name,), number)])


def _request(writer: ConversationWriter, at: float, title: str, tools: tuple[str, ...], number: int) -> TracedRequest:
    """Return the request that the gateway recorded for a conversation. Some were cut off, and some were left."""
    statuses = {3: TraceStatus.INCOMPLETE, 9: TraceStatus.LEFT}
    status = statuses.get(number % 11, TraceStatus.COMPLETED)
    prompt, completion = 310 + 37 * (number % 9), 41 + 13 * (number % 7)
    return TracedRequest(
        id=f"request_{number:04x}",
        tenant="local",
        principal=writer.principal.name,
        at=at,
        api=("/v1/chat/completions", "/v1/messages", "/v1/responses")[number % 3],
        request_id=f"req_{number:04x}",
        seconds=writer.now - at,
        status=status,
        model=writer.model,
        finish="length" if status is TraceStatus.INCOMPLETE else "stop",
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost=(prompt * 0.5 + completion * 1.5) / 1e6,
        tools=tools,
        conversation=writer.id,
        title=title,
    )


async def _write_failures(ledger: Ledger, at: float) -> None:
    """Write the requests of an agent that runs its own tools, on an engine that goes away."""
    common: dict[str, Any] = {"tenant": "local", "principal": "bob", "api": "/v1/messages", "model": "qwen3-8b"}
    error = RequestError(
        code="engine_unavailable",
        status=503,
        message="the engine cannot be reached or is busy. Retry later.",
        detail="connection refused: http://127.0.0.1:9/v1",
    )
    asked = [ChatMessage.user("Fix the failing test in tests/test_menu.py."), ChatMessage.assistant("I read the test.")]
    answered = TracedRequest(
        id="request_a1",
        at=at,
        request_id="req_5d1c",
        seconds=4.2,
        status=TraceStatus.COMPLETED,
        finish="tool_calls",
        prompt_tokens=2210,
        completion_tokens=96,
        cost=0.0012,
        tools=("Read",),
        title=asked[0].content,
        messages_text=dumps(messages_as_json(asked)),
        history_key="k1",
        **common,
    )
    tries = [
        TracedRequest(
            id=f"request_b{number}",
            at=at + 6 + number,
            request_id=f"req_77a{number}",
            seconds=0.03,
            status=TraceStatus.FAILED,
            error=error,
            history_key="try:k2",
            earlier_keys=("try:k2", "k1"),
            **common,
        )
        for number in range(3)
    ]
    await ledger.record_requests([answered, *tries])


async def _write_trace(ledger: Ledger, at: float, tools: tuple[ToolDefinition, ...]) -> None:
    """Write a conversation with every kind of timeline entry."""
    writer = ConversationWriter(ledger, TRACE, Principal("ann"), at, tools)
    await writer.add_user_message(
        "Book a table in the garden for six on Friday if it is dry, and pay the baker's bill."
    )
    weather = ToolCall.of("get_weather", {"city": "Bern", "days": 5}, "c1")
    await writer.add_reply("Let me look at the weather first.", weather, seconds=1.9)
    await writer.run_call(weather, Answered("the service did not answer", True, "timeout"), 5.0)
    await writer.add_reply("", again := ToolCall.of("get_weather", {"city": "Bern", "days": 5}, "c2"), seconds=0.9)
    await writer.run_call(again, Answered({"city": "Bern", "sky": "sunny", "degrees": [21, 19, 23, 22, 20]}), 0.42)
    table = ToolCall.of("book_table", {"day": "2026-11-20", "hour": 19, "guests": 6, "place": "garden"}, "c3")
    bill = ToolCall.of("pay", {"to": "Baker Lutz", "amount": 84.5, "purpose": "October"}, "c4")
    await writer.add_reply("Friday will be dry. I book the table and pay the bill.", table, bill, seconds=2.6)
    await writer.run_approved_call(table, Answered("booked"), "bob", wait_seconds=74.0, seconds=0.61)
    await writer.deny_call(bill, "bob", "it was paid on Monday", wait_seconds=12.0)
    await writer.add_reply("The table is booked. The bill was paid already.", seconds=1.4)
    await writer.add_user_message("Remind the guests.")
    notes = ToolCall.of("search_notes", {"words": "guests friday"}, "c5")
    await writer.add_reply("", notes, seconds=0.8)
    await writer.run_call(notes, Unknown("the connection was lost"), 3.2)
    await writer.add_reply("I could not read the notes: the connection was lost.", seconds=1.1)
    await writer.finish()
    title = "Book a table in the garden for six on Friday if it is dry, and pay the baker's bill."
    tools_called = ("get_weather", "book_table", "search_notes")
    await ledger.record_requests([_request(writer, at, title, tools_called, 0x101)])
