"""A person's word on an approval, written into the ledger. Arguments that he changes are checked like a model's.

Whether he may give it is not decided here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.fault import Fault
from ferrule.core.json_text import loads
from ferrule.errors import ApprovalError, DefinitionError, LedgerError, SchemaError
from ferrule.run.ledger.claim import canonical_bytes
from ferrule.run.ledger.ledger import Approval
from ferrule.schema.admission import admit
from ferrule.schema.checker import checker_for
from ferrule.server.gateway import Gateway

# Where an MCP server asks a person something: see `run.elicitation`.
_ASKED, _QUESTION, _ANSWER = "asked-", "question", "answer"
_UNKEPT = Fault("", "json", "they hold a number that is too large, or are nested too deeply")


@dataclass(frozen=True, slots=True)
class Word:
    """Yes or no. `arguments` are to run instead; None leaves them as they are."""

    approve: bool
    why: str = ""
    arguments: Mapping[str, Any] | None = None


async def decided(gateway: Gateway, approval: Approval, by: str, word: Word) -> Approval:
    """The approval after the decision. One that was decided on before, or has run out, is a conflict."""
    if word.arguments is not None and not word.approve:
        raise DefinitionError("arguments: they are for a call that is allowed", hint="Leave them out, or approve.")
    changed = None if word.arguments is None else _checked(gateway, approval, word.arguments)
    try:
        if word.approve:
            return await gateway.ledger.approve(approval.id, by, changed, now=time.time())
        return await gateway.ledger.deny(approval.id, by, word.why, now=time.time())
    except ApprovalError as refusal:
        raise LedgerError(refusal.message, code=refusal.code, hint="See its state under /v1/approvals.") from refusal


def faults_of(gateway: Gateway, approval: Approval, arguments: Mapping[str, Any]) -> tuple[Fault, ...]:
    """What keeps arguments from being run in place of those that were asked for; a conflict where nobody can say."""
    if _bytes_of(arguments) is None:
        return (_UNKEPT,)
    if approval.conversation.startswith(_ASKED) and approval.call_id == _QUESTION:
        return _answer_faults(approval, arguments)
    tool = gateway.toolbox.tools.get(approval.tool)
    if tool is None or tool.fingerprint != approval.tool_fingerprint:
        raise LedgerError(
            f"{approval.tool!r} is not what it was when leave was asked for, so arguments for it cannot be checked",
            code="approval_tool_changed",
            hint="Deny this one; the call can be asked for anew.",
        )
    return checker_for(tool.parameters).faults(arguments)


def _checked(gateway: Gateway, approval: Approval, arguments: Mapping[str, Any]) -> bytes:
    faults = faults_of(gateway, approval, arguments)
    data = _bytes_of(arguments)
    if faults or data is None:
        told = "; ".join(map(str, faults))
        raise DefinitionError(f"invalid_arguments: {told}", hint="Send what the tool's schema allows.")
    return data


def _bytes_of(arguments: Mapping[str, Any]) -> bytes | None:
    try:
        return canonical_bytes(dict(arguments))
    except (ValueError, RecursionError):
        return None


def _answer_faults(approval: Approval, arguments: Mapping[str, Any]) -> tuple[Fault, ...]:
    """To a question only the answer is filled in; the question itself stays what the person was shown."""
    question = cast("dict[str, Any]", loads(approval.arguments.decode()))
    if {**question, _ANSWER: None} != {**arguments, _ANSWER: None}:
        return (Fault("", "const", "only answer may be changed; send the rest as it is shown"),)
    try:
        found = checker_for(admit(question.get("schema", {}))).faults(arguments.get(_ANSWER))
    except SchemaError as refusal:
        raise LedgerError(f"the question's form cannot be used: {refusal.message}", code="bad_schema") from refusal
    return tuple(replace(fault, path=f"/{_ANSWER}{fault.path}") for fault in found)
