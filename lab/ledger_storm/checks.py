"""What must hold when a storm is over, read from outside: the file of effects, the public API, and HTTP."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

import ferrule.ledger
from ferrule import ChatMessage, Role, ToolConversation
from ferrule.ledger import CallState, Ledger
from lab.ledger_storm.reader import Reader, stored_events
from lab.ledger_storm.script import (
    LOOK,
    PAY,
    Effect,
    ScriptedEngine,
    answer_of,
    is_denied,
    read_effects,
    result_of,
    rounds_of,
    storm_tools,
)
from lab.ledger_storm.storm import Storm
from lab.ledger_storm.worker import TURNS, Board

_UNKNOWN: Final = "unknown: "
_DENIED: Final = "denied: "
# Its code in the API is that of every error of a server.
_GIVEN_UP: Final = "too many processes have stopped while they ran this response"
_BROKEN_OFF: Final = ("the answer broke off (lease_over)", "the answer broke off (ledger_unavailable)")


@dataclass(slots=True)
class Findings:
    """What was counted, and every breach of a guarantee."""

    counts: Counter[str] = field(default_factory=Counter[str])
    breaches: list[str] = field(default_factory=list[str])
    broken_off: list[str] = field(default_factory=list[str])
    """Responses that their owner ended as failed, because its lease or the database was away for a while, instead of
    leaving them to the next owner. No effect is repeated, but the client has to find out what became of its calls.
    """

    def require(self, claim: bool, breach: str) -> None:
        if not claim:
            self.breaches.append(breach)


async def check_storm(storm: Storm, session: aiohttp.ClientSession) -> Findings:
    """Check everything. The gateways must still serve."""
    findings = Findings()
    effects = read_effects(storm.board.effects)
    by_item = {one.item: one for one in effects}
    check_effects(effects, findings)
    findings.breaches += storm.board.faults.read_text(encoding="utf-8").splitlines()
    findings.breaches += [f"ended by itself: {one}" for one in storm.exits]
    findings.breaches += [
        f"a stopped {one.kind} kept what it owned: {one.blocked_by}"
        for one in storm.freezes
        if one.blocked_by.startswith("nothing")
    ]
    async with ferrule.ledger.open(storm.address) as ledger:
        for name in sorted(storm.board.read_ended()):
            await _check_conversation(ledger, storm.board, name, by_item, findings)
        breach = await ledger.verify()
        findings.require(breach is None, f"the audit log: {breach}")
    for reader in storm.readers:
        await check_reader(session, storm.urls[0], reader, by_item, findings)
    return findings


def check_effects(effects: list[Effect], findings: Findings) -> None:
    findings.counts["effects"] = len(effects)
    for what, times in Counter(one.key for one in effects).items():
        findings.require(times == 1, f"an effect happened {times} times: {what}")
    for what, times in Counter(one.item for one in effects).items():
        findings.require(times == 1, f"an item had {times} effects: {what}")
    for one in effects:
        findings.require(one.tool != PAY or not is_denied(one.item), f"a denied call was made: {one}")


async def _check_conversation(
    ledger: Ledger, board: Board, name: str, effects: dict[str, Effect], findings: Findings
) -> None:
    findings.counts["conversations"] += 1
    conversation = await ToolConversation.open(ledger, name, ScriptedEngine(), storm_tools(board.effects))
    messages = tuple(conversation.messages)
    await conversation.close()
    findings.require(not conversation.is_unfinished, f"{name} is unfinished")
    results = _results(messages)
    answers = [message.content for message in messages if message.role is Role.ASSISTANT and not message.tool_calls]
    findings.require(answers == [answer_of(f"{name}.{n}") for n in range(TURNS)], f"{name} has the answers {answers}")
    for turn in range(TURNS):
        findings.counts["turns"] += 1
        for tool, item in (call for calls in rounds_of(f"{name}.{turn}") for call in calls):
            findings.require(item in results, f"{item} has no result")
            _check_result(tool, item, results.get(item, ""), effects, findings)
    for call in await ledger.calls(name):
        item = json.loads(call.arguments)["item"]
        ends = (CallState.DONE, CallState.UNKNOWN, CallState.DENIED, CallState.REFUSED)
        findings.require(call.state in ends, f"{item} is left as {call.state.value}")
        if not call.side_effects:
            continue
        findings.counts[f"effects recorded as {call.state.value}"] += 1
        findings.require(call.state is not CallState.DONE or item in effects, f"{item} is done and did not happen")
        is_refused = call.state in (CallState.DENIED, CallState.REFUSED)
        findings.require(not is_refused or item not in effects, f"{item} is {call.state.value} and happened")
        is_unknown = str(results.get(item, "")).startswith(_UNKNOWN)
        findings.require(
            is_unknown == (call.state is CallState.UNKNOWN), f"{item} is {call.state.value}: {results.get(item)}"
        )


def _check_result(tool: str, item: str, content: Any, effects: dict[str, Effect], findings: Findings) -> None:
    """The result that the model got fits what happened."""
    text = str(content)
    if text == result_of(tool, item):
        findings.counts[f"{tool}: done"] += 1
        findings.require(tool == LOOK or item in effects, f"{item} was reported as done and did not happen")
    elif text.startswith(_UNKNOWN) and tool != LOOK:
        findings.counts[f"{tool}: unknown, {'happened' if item in effects else 'did not happen'}"] += 1
    elif text.startswith(_DENIED) and tool == PAY:
        findings.counts[f"{tool}: denied"] += 1
        findings.require(is_denied(item), f"{item} was denied and should not have been")
        findings.require(item not in effects, f"{item} was denied and happened")
    else:
        findings.breaches.append(f"{item} has the result {text[:100]!r}")


def _results(messages: Iterable[ChatMessage]) -> dict[str, Any]:
    """Return the result of each call, by the item that it was called with."""
    results: dict[str, Any] = {}
    items: dict[str, str] = {}
    for message in messages:
        if message.tool_calls:
            items = {call.id: call.arguments["item"] for call in message.tool_calls}
        for result in message.results:
            results[items[result.tool_call_id]] = result.content
    return results


async def check_reader(
    session: aiohttp.ClientSession, url: str, reader: Reader, effects: dict[str, Effect], findings: Findings
) -> None:
    findings.counts["responses"] += 1
    findings.counts["events"] += len(reader.events)
    findings.counts["returns of clients"] += reader.returns - 1
    findings.breaches += reader.faults
    for refusal, count in reader.refusals.items():
        findings.counts[f"client saw: {refusal}"] += count
    stored = await stored_events(session, url, reader.id)
    findings.require(stored == reader.events, f"{reader.task}: the client saw other events than are stored")
    response = reader.events[-1]["response"]
    error: dict[str, Any] = response["error"] or {}
    if str(error.get("message")).startswith(_GIVEN_UP):
        # The gateway's own limit on how many processes may die over one response; it counts as an end.
        findings.counts["responses that were given up after too many kills"] += 1
        return
    if str(error.get("message")).startswith(_BROKEN_OFF):
        findings.broken_off.append(f"{reader.task}: {error['message']}")
        return
    findings.require(response["status"] == "completed", f"{reader.task} is {response['status']}: {response['error']}")
    added = [event["item"]["id"] for event in reader.events if event["type"] == "response.output_item.added"]
    done = [event["item"]["id"] for event in reader.events if event["type"] == "response.output_item.done"]
    findings.require(sorted(added) == sorted(done), f"{reader.task}: an item was begun or ended twice or never")
    results: dict[str, Any] = {}
    for item in response["output"]:
        if item["type"] == "mcp_call":
            results[json.loads(item["arguments"])["item"]] = _output(item)
    for tool, name in (call for calls in rounds_of(reader.task) for call in calls):
        findings.require(name in results, f"{name} has no result in the response")
        _check_result(tool, name, results.get(name, ""), effects, findings)


def _output(item: dict[str, Any]) -> Any:
    """Return the result of a call in a response, as the model got it."""
    if not item["error"]:
        return item["output"]
    return "".join(part["text"] for part in item["error"]["content"])
