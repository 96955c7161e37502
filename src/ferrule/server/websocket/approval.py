"""A client's word on a call that waits for leave: who may give it, and what the ledger is told. Knows no socket."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import exactly
from ferrule.dialects.frames.client_frames import Confirm
from ferrule.dialects.frames.server_frames import ConfirmationRequired, ToolFacts
from ferrule.errors import AuthorityError, NotFoundError
from ferrule.run.ledger.ledger import Approval
from ferrule.server.gateway import Gateway
from ferrule.server.http import Asked
from ferrule.server.tools.approval_decision import Word, decided


def asked_for(approval: Approval, call_id: str, tool: ToolDefinition | None) -> ConfirmationRequired:
    """What a person is shown. All of it is from the ledger; of the tool, only where it is still so defined."""
    facts = ToolFacts(approval.tool, approval.tool_fingerprint, side_effects=True)
    if tool is not None and tool.fingerprint == approval.tool_fingerprint:
        # An MCP server wrote the description, and may hide things in it too.
        described = exactly(tool.description.encode("utf-8", "surrogatepass"))
        facts = replace(facts, description=described, side_effects=tool.side_effects, parameters=dict(tool.parameters))
    return ConfirmationRequired(
        approval.id,
        call_id,
        facts,
        exactly(approval.arguments),
        approval.arguments_sha256,
        len(approval.arguments),
        approval.principal,
        approval.conversation,
        approval.expires_at,
    )


async def decide(gateway: Gateway, asked: Asked, confirm: Confirm) -> Approval:
    """Leave is given or refused once. What does not fit the tool's schema is refused here, and nothing is decided."""
    if "approve" not in asked.rights:
        raise AuthorityError(f"{asked.principal.name} may not give leave", hint="Ask somebody whose key has approve.")
    # Ours are plain; no database keeps every other text, and one of them calls asking for it an error.
    is_plain = confirm.approval.isascii() and confirm.approval.isprintable()
    approval = await gateway.ledger.approval(confirm.approval) if is_plain else None
    if approval is None or approval.tenant != asked.principal.tenant:
        raise NotFoundError("there is no such approval", code="approval_unknown", hint="See confirmation_required.")
    word = Word(confirm.approve, confirm.why, confirm.arguments)
    return await decided(gateway, approval, asked.principal.name, word)
