"""From what a client asks to what is done: whose calls they are, which conversation it goes on in, what was allowed.

A response goes on in the conversation of the one before it where nothing has followed that yet; otherwise it has a new
one, with what was said up to there. An answer to a request for leave goes on where the call waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.context import Principal
from ferrule.core.message import ChatMessage, Role
from ferrule.core.message_json import messages_as_json, messages_from_json
from ferrule.dialects.openai_responses.responses_request import ResponsesAsk
from ferrule.dialects.openai_responses.stored_response import input_items
from ferrule.errors import ApprovalError, AuthorityError, DefinitionError, FencedError, LedgerError
from ferrule.run.conversation import settled_messages
from ferrule.run.lease import Holding
from ferrule.run.ledger.ledger import Approval, ConversationRecord, ResponseRecord, Verdict
from ferrule.run.machine import State
from ferrule.server.answer.turn import ToolOwner, turn_of
from ferrule.server.apis.responses.resume_record import Plan
from ferrule.server.gateway import Gateway, new_conversation
from ferrule.server.http import Asked

_APPROVE = "approve"


@dataclass(frozen=True, slots=True)
class Start:
    """Where an answer begins. `messages` are the whole conversation without instructions; None where it goes on in the
    turn that waits. `conversation` is None where it needs a new one; `version` is how it was found.
    """

    plan: Plan
    conversation: str | None = None
    messages: tuple[ChatMessage, ...] | None = None
    verdicts: tuple[Verdict, ...] = ()
    version: int = 0

    @property
    def state(self) -> dict[str, Any] | None:
        if self.messages is None:
            return None
        return {"version": 1, "messages": messages_as_json(self.messages), "loop": None}


async def start_of(gateway: Gateway, asked: Asked, ask: ResponsesAsk, body: dict[str, Any], id: str) -> Start:
    previous = await _previous(gateway, ask, asked.principal)
    plan = _plan(gateway, asked.principal, ask, body, id)
    if ask.approvals:
        return await _allowed(gateway, asked, ask, plan, previous)
    if previous is None:
        return Start(plan, None, _own_messages(ask, ()))
    history, found = await _history(gateway, previous)
    if found is None:
        return Start(plan, None, _own_messages(ask, history))
    return Start(plan, found.id, _own_messages(ask, history), version=found.version)


async def held(gateway: Gateway, start: Start, principal: Principal) -> Holding:
    """The conversation that an answer begins in. One that somebody else holds is not waited for: it has forked."""
    lease = gateway.config.lease_seconds
    if start.conversation is not None:
        try:
            holding = await Holding.take(gateway.ledger, start.conversation, principal, lease)
        except FencedError:
            if start.messages is None:
                raise
        else:
            if start.messages is None or holding.record.version == start.version:
                return holding
            await holding.release()
    return await Holding.take(gateway.ledger, new_conversation(), principal, lease)


async def _previous(gateway: Gateway, ask: ResponsesAsk, principal: Principal) -> ResponseRecord | None:
    named = ask.previous_response_id
    if named is None:
        return None
    record = await gateway.ledger.response(named, principal)
    if record is None:
        raise DefinitionError(
            f"previous_response_id: there is no response {named[:60]!r}",
            code="previous_response_not_found",
            hint="Send the whole conversation as input.",
        )
    if not record.is_ended:
        raise LedgerError(f"{named!r} is under way", code="response_unfinished", hint="Wait for it, or cancel it.")
    return record


def _plan(gateway: Gateway, principal: Principal, ask: ResponsesAsk, body: dict[str, Any], id: str) -> Plan:
    request = replace(ask.request, messages=())
    told: dict[str, Any] = {
        "max_tool_calls": ask.max_tool_calls,
        "instructions": ask.instructions,
        "input": tuple(input_items(body, id)),
    }
    if ask.hosted:
        if request.tools:
            raise DefinitionError(
                "tools: functions, which the caller runs, stand beside mcp tools, which the gateway runs",
                hint="Send the one or the other.",
            )
        labels = tuple(server.label for server in ask.hosted)
        known = {item.get("server_label") for item in told["input"] if item["type"] == "mcp_list_tools"}
        is_first = ask.previous_response_id is None and not ask.approvals
        return Plan(
            request=request,
            whose=ToolOwner.GATEWAY,
            names=tuple(ask.hosted_tools),
            labels=labels,
            lists=tuple(label for label in labels if is_first and label not in known),
            asked=ask.asked,
            **told,
        )
    turn = turn_of(body, request, principal, has_tools=gateway.has_tools(principal))
    if turn.resumes:
        raise DefinitionError("ferrule.resume: responses go on by their own ids", hint="Name previous_response_id.")
    whose = ToolOwner.GATEWAY if ask.approvals else turn.tool_owner
    return Plan(request=turn.request, whose=whose, names=turn.names, **told)


async def _history(
    gateway: Gateway, previous: ResponseRecord
) -> tuple[tuple[ChatMessage, ...], ConversationRecord | None]:
    """What was said up to the end of a response, and its conversation where nothing has followed since."""
    kept = await gateway.ledger.load(previous.conversation)
    state = cast("dict[str, Any] | None", kept.state if kept else None)
    if state is None:
        return (), None
    said = messages_from_json(state["messages"])
    if len(said) > previous.reach:
        return said[: previous.reach], None
    if state["loop"]:
        # A call waits in it, and may still be allowed there.
        return settled_messages(state), None
    return said, kept


async def _allowed(
    gateway: Gateway, asked: Asked, ask: ResponsesAsk, plan: Plan, previous: ResponseRecord | None
) -> Start:
    """Answers to requests for leave.

    Whoever gives them needs the right to approve; that he began the conversation is not enough. A key is often in a
    program's hands, and leave that a program can give itself protects nobody. Without keys there is one person on this
    machine, who has every right.
    """
    if _APPROVE not in asked.rights:
        raise AuthorityError(f"{asked.principal.name} may not give leave", hint="Ask somebody whose key has approve.")
    approvals = [await _approval(gateway, asked.principal, answer.id) for answer in ask.approvals]
    conversation = approvals[0].conversation
    is_elsewhere = previous is not None and previous.conversation != conversation
    if is_elsewhere or any(one.conversation != conversation for one in approvals):
        raise DefinitionError("these requests for leave are not of one response", hint="Answer each where it was made.")
    kept = await gateway.ledger.load(conversation, asked.principal)
    state = cast("dict[str, Any] | None", kept.state if kept else None)
    if state is None or not state["loop"] or state["loop"]["machine"]["state"] != State.WAITING:
        raise LedgerError("nothing waits for this any more", code="approval_decided", hint="It was answered before.")
    _require_no_news(ask, messages_from_json(state["messages"]), is_continued=previous is not None)
    if previous is not None and not plan.labels and plan.names is None:
        before = Plan.from_json(previous.request)
        plan = replace(plan, names=before.names, labels=before.labels, asked=before.asked)
    verdicts = [Verdict(one.id, one.approve, asked.principal.name, one.reason) for one in ask.approvals]
    return Start(replace(plan, leave=_leave(state["loop"], approvals)), conversation, None, tuple(verdicts))


async def _approval(gateway: Gateway, principal: Principal, id: str) -> Approval:
    approval = await gateway.ledger.approval(id)
    if approval is None or (approval.tenant, approval.principal) != (principal.tenant, principal.name):
        raise DefinitionError(f"nobody asked for leave under {id[:60]!r}", code="approval_unknown")
    return approval


def _require_no_news(ask: ResponsesAsk, said: Sequence[ChatMessage], *, is_continued: bool) -> None:
    """The turn goes on where it stopped: nothing can be said in the middle of it."""
    told = sum(message.role is Role.USER for message in _own_messages(ask, ()))
    if told > (0 if is_continued else sum(message.role is Role.USER for message in said)):
        raise DefinitionError(
            "input: something is said beside the answer to a request for leave",
            hint="Answer alone, and say the rest when the response has ended.",
        )


def _leave(loop: dict[str, Any], approvals: Sequence[Approval]) -> dict[str, str]:
    """The approvals by the call that waits for each: a call's own id is the model's, and the ledger goes by places."""
    machine = loop["machine"]
    place = f"{loop['place']}.{machine['spent']['rounds']}"
    calls = {f"{place}.{number}": call["id"] for number, call in enumerate(machine["round"])}
    return {calls[one.call_id]: one.id for one in approvals if one.call_id in calls}


def _own_messages(ask: ResponsesAsk, history: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    messages = ask.following(history).messages
    return messages if ask.instructions is None else messages[1:]


def conflict(refusal: ApprovalError) -> LedgerError:
    """What was decided before is a conflict, not a missing right."""
    return LedgerError(refusal.message, code=refusal.code, hint="Each request for leave is answered once.")
