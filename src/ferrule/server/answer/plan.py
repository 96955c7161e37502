"""Plan an answer: the turn that a request body asks for, whatever the API, and who runs its calls:

| the caller sends tools | the gateway has tools | who runs the calls |
|---|---|---|
| no | no | nobody: text that looks like a call is text |
| yes | no | the caller: the answer ends at the call |
| yes | yes | the caller |
| no | yes | the gateway: the stream pauses, the tool runs, the stream continues |

The caller can override this in the extension.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.dialects.extension import KEY
from ferrule.dialects.field import Field
from ferrule.errors import DefinitionError
from ferrule.run.ledger.ledger import StoredRequest


class ToolOwner(StrEnum):
    """Who runs the calls."""

    NOBODY = "none"
    CALLER = "caller"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A request, its principal, and who runs the calls.

    `tool_names` are the gateway's tools to offer; None is all of them. `resumes` is the id of a waiting conversation to
    resume instead of starting a new one.
    """

    request: ToolCallRequest
    principal: Principal
    tool_owner: ToolOwner = ToolOwner.CALLER
    tool_names: tuple[str, ...] | None = None
    resumes: str = ""
    conversation: str = ""
    is_claimed: bool = False
    """Whether the request is stored: then the conversation may have begun to answer it before. See `answer.claim`."""
    new_request: StoredRequest | None = None
    """A claimed request that is not stored yet: it is stored when its conversation is opened."""
    is_repeat: bool = False
    """Whether an earlier request began the answer: this one joins it, and is no second use of a quota."""
    is_keyed: bool = False
    """Whether it is stored under an `Idempotency-Key`: sent again with it, the request joins its answer."""
    is_recorded: bool = False
    """Whether the conversation is in the ledger although the caller runs the calls: that of a stored response."""
    is_live: bool = False
    """Whether arguments are sent as they arrive: `{"ferrule": {"live_arguments": true}}`, or the key's setting."""


def new_conversation_id() -> str:
    return f"conv_{secrets.token_hex(16)}"


def turn_of(
    body: dict[str, Any], request: ToolCallRequest, principal: Principal, *, has_tools: bool, is_live: bool = False
) -> Turn:
    """Return the turn that a body requests, with the id of its conversation in the ledger.

    `has_tools`: the gateway has tools that this principal may use. `is_live` is the setting of the principal's key,
    which the body may change.

    The caller's choice is in the extension: `{"ferrule": {"tools": "caller" | "gateway" | "none" | [names]}}`,
    `{"ferrule": {"resume": "conversation"}}`, and `{"ferrule": {"live_arguments": true}}`.
    """
    extension = Field(body.get(KEY), KEY)
    tools = extension["tools"] if extension.is_given else Field(None)
    resumes = extension["resume"].or_else(Field.string, "") if extension.is_given else ""
    turn = Turn(
        request=request,
        principal=principal,
        resumes=resumes,
        conversation=resumes or new_conversation_id(),
        is_live=extension["live_arguments"].or_else(Field.boolean, is_live) if extension.is_given else is_live,
    )
    if not tools.is_given:
        owner = ToolOwner.CALLER if request.tools else ToolOwner.GATEWAY if has_tools else ToolOwner.NOBODY
        return replace(turn, tool_owner=ToolOwner.GATEWAY if resumes else owner)
    if isinstance(tools.value, str):
        owner, tool_names = tools.one_of({one.value: one for one in ToolOwner}), None
    else:
        owner, tool_names = ToolOwner.GATEWAY, tuple(entry.string() for entry in tools.items())
    if owner is ToolOwner.GATEWAY and request.tools:
        raise DefinitionError(
            "tools and ferrule.tools contradict each other: the caller's tools or the gateway's",
            hint="Leave out tools, or ferrule.tools.",
        )
    if owner is ToolOwner.CALLER and not request.tools:
        owner = ToolOwner.NOBODY
    if owner is ToolOwner.NOBODY and request.tools:
        # The tools stay offered, because the model reads its earlier calls better with them, but no call is allowed.
        return replace(turn, request=replace(request, tool_choice=ToolChoice.none()))
    return replace(turn, tool_owner=owner, tool_names=tool_names)


def shows_wire(body: dict[str, Any]) -> bool:
    """Whether the caller wants the raw model output and the grammar: `{"ferrule": {"wire": true}}`."""
    extension = Field(body.get(KEY), KEY)
    return extension.is_given and extension["wire"].or_else(Field.boolean, False)
