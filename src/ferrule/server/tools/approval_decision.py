"""Record a decision on an approval in the ledger. Changed arguments are validated like a model's.

The caller checks whether the principal may decide.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.fault import Fault
from ferrule.core.json_text import loads
from ferrule.errors import ApprovalError, DefinitionError, LedgerError
from ferrule.rules.call_check import argument_faults
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.ledger.claim import canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.server_questions import ELICITATION, SAMPLING, is_question
from ferrule.server.gateway import Gateway
from ferrule.sources.mcp.elicitation import answer_faults, with_defaults

_ANSWER = "answer"
"""The member of a question's arguments that a person fills in: see `run.elicitation`."""
_UNSTORABLE = Fault("", "json", "they contain a number that is too large, or are nested too deeply")


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """Approve or deny. `arguments` replace those of the call; None leaves them unchanged.

    `seen_sha256` is that of the arguments that the person saw; if they were changed since, nothing is approved.
    """

    approve: bool
    why: str = ""
    arguments: Mapping[str, Any] | None = None
    seen_sha256: str = ""


async def record_decision(gateway: Gateway, approval: Approval, by: str, decision: ApprovalDecision) -> Approval:
    """Record a decision and return the approval. Raises a conflict if it was decided before or has expired.

    A call whose tool has changed or is gone cannot be approved: it could not run.
    """
    if decision.arguments is not None and not decision.approve:
        raise DefinitionError("arguments: only an approval may change them", hint="Leave them out, or approve.")
    if decision.approve:
        require_current_tool(gateway, approval)
        _require_answer(approval, decision.arguments)
    arguments = None if decision.arguments is None else _validate_arguments(gateway, approval, decision.arguments)
    try:
        if decision.approve:
            terms = None if arguments is None else _terms_of(gateway, approval, arguments)
            seen = decision.seen_sha256
            return await gateway.ledger.approve(approval.id, by, arguments, seen=seen, terms=terms, now=time.time())
        return await gateway.ledger.deny(approval.id, by, decision.why, now=time.time())
    except ApprovalError as refusal:
        raise LedgerError(refusal.message, code=refusal.code, hint="See its state under /v1/approvals.") from refusal


def faults_of(gateway: Gateway, approval: Approval, arguments: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Validate replacement arguments. Raises a conflict if they cannot be checked, because the tool has changed."""
    if _bytes_of(arguments) is None:
        return (_UNSTORABLE,)
    if _is_question(approval):
        return _answer_faults(approval, arguments)
    require_current_tool(gateway, approval)
    return argument_faults(gateway.tool_catalog.tools[approval.tool], arguments)


def require_current_tool(gateway: Gateway, approval: Approval) -> None:
    """Raise a conflict if the gateway no longer offers the tool as it was when approval was requested."""
    if _is_question(approval):
        return
    tool = gateway.tool_catalog.tools.get(approval.tool)
    if tool is None:
        raise LedgerError(
            f"{approval.tool!r} is not offered any more, so its call could not run",
            code="approval_tool_missing",
            hint="Deny this approval, or approve it when the tool is back.",
        )
    if tool.fingerprint != approval.tool_fingerprint:
        raise LedgerError(
            f"{approval.tool!r} has changed since approval was requested",
            code="approval_tool_changed",
            hint="Deny this approval, and make the call again.",
        )


def _is_question(approval: Approval) -> bool:
    return is_question(approval.conversation, approval.call_id)


def _require_answer(approval: Approval, arguments: Mapping[str, Any] | None) -> None:
    """Raise if a question with a form is approved without an answer that fits it: the server would get none."""
    if arguments is not None or not _is_question(approval) or approval.call_id != ELICITATION:
        return
    question = cast("dict[str, Any]", loads(approval.arguments.decode()))
    schema = cast("dict[str, Any]", question.get("schema", {}))
    faults = answer_faults(schema, with_defaults(schema, question.get(_ANSWER) or {}))
    if faults and approval.state is ApprovalState.PENDING:
        raise DefinitionError(
            f"the question needs an answer: {'; '.join(map(str, faults[:5]))}",
            code="answer_required",
            hint="Approve it with its arguments, in which `answer` is filled in.",
        )


def _terms_of(gateway: Gateway, approval: Approval, arguments: bytes) -> ApprovalTerms | None:
    """Return who must approve the call with other arguments: a larger amount may need more people."""
    tool = gateway.tool_catalog.tools.get(approval.tool)
    call = ToolCall(approval.call_id, FunctionCall(approval.tool, arguments.decode()))
    side_effects = tool is not None and tool.side_effects
    return gateway.tool_catalog.approval_policy.terms_of(call, side_effects=side_effects)


def _validate_arguments(gateway: Gateway, approval: Approval, arguments: Mapping[str, Any]) -> bytes:
    faults = faults_of(gateway, approval, arguments)
    data = _bytes_of(arguments)
    if faults or data is None:
        message = "; ".join(map(str, faults))
        raise DefinitionError(f"invalid_arguments: {message}", hint="Send arguments that match the tool's schema.")
    return data


def _bytes_of(arguments: Mapping[str, Any]) -> bytes | None:
    try:
        return canonical_bytes(dict(arguments))
    except (ValueError, RecursionError):
        return None


def _answer_faults(approval: Approval, arguments: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Validate the answer to a question. Only the answer may change; the question must stay as it was shown."""
    question = cast("dict[str, Any]", loads(approval.arguments.decode()))
    if approval.call_id == SAMPLING:
        is_same = question == dict(arguments)
        return () if is_same else (Fault("", "const", "what a model is asked cannot be changed; deny it instead"),)
    if {**question, _ANSWER: None} != {**arguments, _ANSWER: None}:
        return (Fault("", "const", "only answer may be changed; send the rest as it was shown"),)
    schema, answer = cast("dict[str, Any]", question.get("schema", {})), arguments.get(_ANSWER)
    if isinstance(answer, dict):
        # The server gets the form's defaults too.
        answer = with_defaults(schema, cast("dict[str, Any]", answer))
    return tuple(replace(fault, path=f"/{_ANSWER}{fault.path}") for fault in answer_faults(schema, answer))
