"""A client's decision on a waiting call: check the right to approve and record it. Independent of the socket."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import visible_text
from ferrule.dialects.frames.client_frames import ConfirmFrame
from ferrule.dialects.frames.server_frames import ConfirmationFrame, ToolInfo
from ferrule.errors import AuthorityError, NotFoundError
from ferrule.run.ledger.ledger import Approval
from ferrule.server.gateway import Gateway
from ferrule.server.http import Request
from ferrule.server.tools.approval_decision import ApprovalDecision, record_decision


def confirmation_frame(approval: Approval, call_id: str, tool: ToolDefinition | None) -> ConfirmationFrame:
    """Return the frame for the person who decides. It comes from the ledger, and from the tool if it is unchanged."""
    info = ToolInfo(approval.tool, approval.tool_fingerprint, side_effects=True)
    if tool is not None and tool.fingerprint == approval.tool_fingerprint:
        # An MCP server wrote the description, which may contain hidden characters too.
        description = visible_text(tool.description.encode("utf-8", "surrogatepass"))
        info = replace(info, description=description, side_effects=tool.side_effects, parameters=dict(tool.parameters))
    return ConfirmationFrame(
        approval.id,
        call_id,
        info,
        visible_text(approval.arguments),
        approval.arguments_sha256,
        len(approval.arguments),
        approval.principal,
        approval.conversation,
        approval.expires_at,
    )


async def decide(gateway: Gateway, request: Request, confirm: ConfirmFrame) -> Approval:
    """Approve or deny a call, once. Arguments that do not match the tool's schema are refused without a decision."""
    if "approve" not in request.rights:
        raise AuthorityError(
            f"{request.principal.name} may not approve calls", hint="Use a key with the approve right."
        )
    # Approval ids are printable ASCII. Not every database accepts other text; one of them raises an error for it.
    is_plain = confirm.approval.isascii() and confirm.approval.isprintable()
    approval = await gateway.ledger.approval(confirm.approval) if is_plain else None
    if approval is None or approval.tenant != request.principal.tenant:
        raise NotFoundError("there is no such approval", code="approval_unknown", hint="See confirmation_required.")
    decision = ApprovalDecision(confirm.approve, confirm.why, confirm.arguments)
    return await record_decision(gateway, approval, request.principal.name, decision)
