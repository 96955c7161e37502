"""Plan a response: who runs the calls, which conversation it continues, and which calls were approved.

A response continues the conversation of the previous one if nothing has followed that yet. Otherwise it gets a new
conversation with the messages up to there. An answer to an approval request continues where the call waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.context import Principal
from ferrule.core.message import ChatMessage, Role, messages_as_json, messages_from_json
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.openai_responses.stored_response import input_items
from ferrule.errors import ApprovalError, AuthorityError, DefinitionError, FencedError, LedgerError
from ferrule.run.conversation import messages_of
from ferrule.run.lease import Lease
from ferrule.run.ledger.ledger import Approval, ApprovalDecision, ConversationRecord, ResponseRecord
from ferrule.run.machine import Stage, State
from ferrule.server.answer.plan import ToolOwner, new_conversation_id, turn_of
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.gateway import Gateway
from ferrule.server.http import Request
from ferrule.server.tools.approval_decision import require_current_tool

_APPROVE = "approve"


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """How a response starts.

    `messages` are the whole conversation without instructions; None if the waiting turn continues. `conversation` is
    None if a new one is needed; `version` is the version of the conversation that was read.
    """

    resume_record: ResumeRecord
    conversation: str | None = None
    messages: tuple[ChatMessage, ...] | None = None
    verdicts: tuple[ApprovalDecision, ...] = ()
    version: int = 0

    @property
    def state(self) -> dict[str, Any] | None:
        if self.messages is None:
            return None
        return {"version": 1, "messages": messages_as_json(self.messages), "loop": None}


async def plan_response(
    gateway: Gateway, http_request: Request, responses_request: ResponsesRequest, body: dict[str, Any], id: str
) -> ResponsePlan:
    previous = await _previous(gateway, responses_request, http_request.principal)
    if previous is not None:
        responses_request = _with_loaded_tools(responses_request, ResumeRecord.from_json(previous.request))
    resume_record = _resume_record(gateway, http_request.principal, responses_request, body, id)
    own_results = _own_results(responses_request)
    if responses_request.approvals:
        return await _plan_with_approvals(gateway, http_request, responses_request, resume_record, previous)
    if previous is None:
        return ResponsePlan(resume_record, None, _own_messages(responses_request, ()))
    history, conversation = await _history(gateway, previous, own_results)
    if conversation is None:
        return ResponsePlan(resume_record, None, _own_messages(responses_request, history))
    return ResponsePlan(
        resume_record, conversation.id, _own_messages(responses_request, history), version=conversation.version
    )


async def take_lease(gateway: Gateway, plan: ResponsePlan, principal: Principal) -> Lease:
    """Lease the conversation of a response. If another response holds it, fork into a new one instead of waiting."""
    lease_seconds = gateway.config.lease_seconds
    if plan.conversation is not None:
        try:
            lease = await Lease.acquire(gateway.ledger, plan.conversation, principal, lease_seconds)
        except FencedError:
            if plan.messages is None:
                raise
        else:
            if plan.messages is None or lease.record.version == plan.version:
                return lease
            await lease.release()
    return await Lease.acquire(gateway.ledger, new_conversation_id(), principal, lease_seconds)


async def _previous(
    gateway: Gateway, responses_request: ResponsesRequest, principal: Principal
) -> ResponseRecord | None:
    previous_id = responses_request.previous_response_id
    if previous_id is None:
        return None
    # No database stores NUL or half of a surrogate pair in text, so no response has such an id.
    record = await gateway.ledger.response(previous_id, principal) if previous_id.isprintable() else None
    if record is None:
        raise DefinitionError(
            f"previous_response_id: there is no response {previous_id[:60]!r}",
            code="previous_response_not_found",
            hint="Send the whole conversation as input.",
        )
    if not record.is_ended:
        raise LedgerError(
            f"{previous_id!r} is still running", code="response_unfinished", hint="Wait for it, or cancel it."
        )
    return record


def _resume_record(
    gateway: Gateway, principal: Principal, responses_request: ResponsesRequest, body: dict[str, Any], id: str
) -> ResumeRecord:
    request = replace(responses_request.request, messages=())
    common: dict[str, Any] = {
        "max_tool_calls": responses_request.max_tool_calls,
        "instructions": responses_request.instructions,
        "input": tuple(input_items(body, id)),
        "client_tools": responses_request.client_tools,
        "loaded_tools": responses_request.loaded_tools,
        "scopes": principal.scopes,
    }
    if responses_request.servers:
        labels = tuple(server.label for server in responses_request.servers)
        named = tuple(server.label for server in responses_request.servers if not server.is_bound)
        listed = {item.get("server_label") for item in common["input"] if item["type"] == "mcp_list_tools"}
        is_first = responses_request.previous_response_id is None and not responses_request.approvals
        return ResumeRecord(
            request=request,
            tool_owner=ToolOwner.GATEWAY,
            tool_names=tuple(responses_request.hosted_tools),
            labels=labels,
            labels_to_list=tuple(label for label in named if is_first and label not in listed),
            approval_required=responses_request.approval_required,
            **common,
        )
    turn = turn_of(body, request, principal, has_tools=gateway.has_tools(principal))
    if turn.resumes:
        raise DefinitionError("ferrule.resume: not supported for responses", hint="Use previous_response_id.")
    owner = ToolOwner.GATEWAY if responses_request.approvals else turn.tool_owner
    return ResumeRecord(request=turn.request, tool_owner=owner, tool_names=turn.tool_names, **common)


def _with_loaded_tools(responses_request: ResponsesRequest, previous: ResumeRecord) -> ResponsesRequest:
    """Return the request with the tools that input items of earlier responses brought: they stay offered."""
    request = responses_request.request
    offered = {tool.name for tool in request.tools}
    loaded = [
        tool for tool in previous.request.tools if tool.name in previous.loaded_tools and tool.name not in offered
    ]
    if not loaded:
        return responses_request
    names = tuple(tool.name for tool in loaded)
    known = {name: tool for name, tool in previous.client_tools.items() if name in names}
    return replace(
        responses_request,
        request=replace(request, tools=(*request.tools, *loaded)),
        client_tools={**responses_request.client_tools, **known},
        loaded_tools=(*names, *responses_request.loaded_tools),
    )


def _own_results(responses_request: ResponsesRequest) -> frozenset[str]:
    """Return the ids of the calls whose results are in the input."""
    messages = _own_messages(responses_request, ())
    return frozenset(result.tool_call_id for message in messages for result in message.results)


def _handed_out(state: dict[str, Any]) -> frozenset[str]:
    """Return the ids of the client's calls in a round whose other calls wait for approval."""
    calls = state["loop"]["machine"]["round"] if state["loop"] else ()
    return frozenset(call["id"] for call in calls if call["stage"] == Stage.HANDED_OUT)


def _require_no_results(state: dict[str, Any], own_results: frozenset[str], hint: str) -> None:
    """Raise if the input has results of calls in a round that still waits: it ends when all of them are there."""
    if _handed_out(state) & own_results:
        raise DefinitionError(
            "input: another call of the same response waits for approval", code="approval_pending", hint=hint
        )


async def _history(
    gateway: Gateway, previous: ResponseRecord, own_results: frozenset[str]
) -> tuple[tuple[ChatMessage, ...], ConversationRecord | None]:
    """Return the messages up to the end of a response, and its conversation if nothing has followed it."""
    conversation = await gateway.ledger.load(previous.conversation)
    state = cast("dict[str, Any] | None", conversation.state if conversation else None)
    if state is None:
        return (), None
    messages = messages_from_json(state["messages"])
    if len(messages) > previous.reach:
        if not state["loop"] and _ids_of(messages[-1:]) and own_results & _ids_of(messages[previous.reach :]):
            # A call of the response was approved elsewhere. Its round ended there, and these are the other results.
            return messages, conversation
        return messages[: previous.reach], None
    if state["loop"]:
        # A call waits in this conversation and may still be approved there.
        _require_no_results(state, own_results, "Answer the approval request first, and send the results afterwards.")
        return messages_of(state), None
    return messages, conversation


async def _plan_with_approvals(
    gateway: Gateway,
    http_request: Request,
    responses_request: ResponsesRequest,
    resume_record: ResumeRecord,
    previous: ResponseRecord | None,
) -> ResponsePlan:
    """Plan a response to approval requests.

    The caller needs the right to approve; owning the conversation is not enough. A key is often used by a program, and
    an approval that a program can give itself protects nobody. A gateway without keys has a single user with all
    rights.
    """
    if _APPROVE not in http_request.rights:
        raise AuthorityError(
            f"{http_request.principal.name} may not approve calls", hint="Use a key with the approve right."
        )
    approvals = [await _approval(gateway, http_request.principal, answer.id) for answer in responses_request.approvals]
    conversation = approvals[0].conversation
    is_elsewhere = previous is not None and previous.conversation != conversation
    if is_elsewhere or any(one.conversation != conversation for one in approvals):
        raise DefinitionError(
            "these approval requests belong to different responses", hint="Answer each of them separately."
        )
    record = await gateway.ledger.load(conversation, http_request.principal)
    state = cast("dict[str, Any] | None", record.state if record else None)
    if state is None or not state["loop"] or state["loop"]["machine"]["state"] != State.WAITING:
        raise LedgerError(
            "no call waits for this approval any more", code="approval_decided", hint="It was answered before."
        )
    hint = "Send the answer alone, and the results with the request that follows."
    _require_no_results(state, _own_results(responses_request), hint)
    _require_no_new_messages(
        responses_request, messages_from_json(state["messages"]), is_continued=previous is not None
    )
    if previous is not None and not resume_record.labels and resume_record.tool_names is None:
        previous_record = ResumeRecord.from_json(previous.request)
        resume_record = replace(
            resume_record,
            tool_names=previous_record.tool_names,
            labels=previous_record.labels,
            approval_required=previous_record.approval_required,
        )
        if not resume_record.request.tools:
            request = replace(resume_record.request, tools=previous_record.request.tools)
            resume_record = replace(resume_record, request=request, client_tools=previous_record.client_tools)
    for approval, answer in zip(approvals, responses_request.approvals, strict=True):
        if answer.approve:
            require_current_tool(gateway, approval)
    verdicts = [
        ApprovalDecision(one.id, one.approve, http_request.principal.name, one.reason)
        for one in responses_request.approvals
    ]
    return ResponsePlan(
        replace(
            resume_record,
            approvals=_approvals_by_call(state["loop"], approvals),
            are_handed_out=bool(_handed_out(state)),
        ),
        conversation,
        None,
        tuple(verdicts),
    )


async def _approval(gateway: Gateway, principal: Principal, id: str) -> Approval:
    approval = await gateway.ledger.approval(id)
    if approval is None or (approval.tenant, approval.principal) != (principal.tenant, principal.name):
        raise DefinitionError(f"there is no approval request {id[:60]!r}", code="approval_unknown")
    return approval


def _require_no_new_messages(
    responses_request: ResponsesRequest, history: Sequence[ChatMessage], *, is_continued: bool
) -> None:
    """Raise if the input has new user messages: the waiting turn continues, so none can be inserted."""
    new_count = sum(message.role is Role.USER for message in _own_messages(responses_request, ()))
    if new_count > (0 if is_continued else sum(message.role is Role.USER for message in history)):
        raise DefinitionError(
            "input: a message beside the answer to an approval request",
            hint="Send the answer alone, and the message after the response has ended.",
        )


def _approvals_by_call(loop: dict[str, Any], approvals: Sequence[Approval]) -> dict[str, str]:
    """Return the approvals by the model's call id. The ledger identifies calls by their position in the loop."""
    machine = loop["machine"]
    prefix = f"{loop['place']}.{machine['spent']['rounds']}"
    calls = {f"{prefix}.{number}": call["id"] for number, call in enumerate(machine["round"])}
    return {calls[one.call_id]: one.id for one in approvals if one.call_id in calls}


def _ids_of(messages: Sequence[ChatMessage]) -> frozenset[str]:
    """Return the ids of the calls in messages, and of those with results in them."""
    calls = {call.id for message in messages for call in message.tool_calls}
    return frozenset(calls | {result.tool_call_id for message in messages for result in message.results})


def _own_messages(responses_request: ResponsesRequest, history: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    messages = responses_request.with_history(history).messages
    return messages if responses_request.instructions is None else messages[1:]


def conflict(refusal: ApprovalError) -> LedgerError:
    """Return the conflict for an approval that was decided before: it is not a missing right."""
    return LedgerError(refusal.message, code=refusal.code, hint="Each approval request can be answered once.")
