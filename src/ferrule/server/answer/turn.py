"""Turn: one answer to one request, whichever API it came in by. Says which of the four rows of the matrix it is.

| the caller brings tools | the gateway has tools | whose calls they are |
|---|---|---|
| no | no | nobody's: what looks like a call is text |
| yes | no | the caller's: the answer ends at the call |
| yes | yes | the caller's |
| no | yes | the gateway's: the stream pauses, the tool runs, the stream goes on |

A caller who says which he wants gets that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ferrule.core.choice import ToolChoice
from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.extension import KEY
from ferrule.dialects.field import Field
from ferrule.errors import DefinitionError


class ToolOwner(StrEnum):
    """Who runs the calls."""

    NOBODY = "none"
    CALLER = "caller"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is asked, by whom, and who runs the calls. `names` are the gateway's tools to offer; None is all of them.

    `resumes` is a conversation that was left waiting, to be gone on with instead of asking anew.
    """

    request: ToolCallRequest
    principal: Principal
    tool_owner: ToolOwner = ToolOwner.CALLER
    names: tuple[str, ...] | None = None
    resumes: str = ""
    conversation: str = ""

    def held_in(self, conversation: str) -> Turn:
        """The same, under this id in the ledger."""
        return replace(self, conversation=conversation)


def turn_of(body: dict[str, Any], request: ToolCallRequest, principal: Principal, *, has_tools: bool) -> Turn:
    """The turn that a body asks for. `has_tools`: the gateway has tools that this principal may use.

    The caller's word stands in the extension: `{"ferrule": {"tools": "caller" | "gateway" | "none" | [names]}}`, and
    `{"ferrule": {"resume": "conversation"}}`.
    """
    said = Field(body.get(KEY), KEY)
    wish = said["tools"] if said.is_given else Field(None)
    resumes = said["resume"].or_else(Field.string, "") if said.is_given else ""
    if not wish.is_given:
        whose = ToolOwner.CALLER if request.tools else ToolOwner.GATEWAY if has_tools else ToolOwner.NOBODY
        return Turn(
            request=request, principal=principal, tool_owner=ToolOwner.GATEWAY if resumes else whose, resumes=resumes
        )
    if isinstance(wish.value, str):
        whose, names = wish.one_of({one.value: one for one in ToolOwner}), None
    else:
        whose, names = ToolOwner.GATEWAY, tuple(entry.string() for entry in wish.items())
    if whose is ToolOwner.GATEWAY and request.tools:
        raise DefinitionError(
            "the caller brings tools and asks for the gateway's", hint="Leave out tools, or ferrule.tools."
        )
    if whose is ToolOwner.CALLER and not request.tools:
        whose = ToolOwner.NOBODY
    if whose is ToolOwner.NOBODY and request.tools:
        # On offer they stay, for the model to read its earlier calls by; but nothing is called.
        return Turn(request=_without_calls(request), principal=principal, tool_owner=ToolOwner.CALLER)
    return Turn(request=request, principal=principal, tool_owner=whose, names=names, resumes=resumes)


def shows_wire(body: dict[str, Any]) -> bool:
    """Whether the caller wants to see what the model is held to and writes: `{"ferrule": {"wire": true}}`."""
    said = Field(body.get(KEY), KEY)
    return said.is_given and said["wire"].or_else(Field.boolean, False)


def _without_calls(request: ToolCallRequest) -> ToolCallRequest:
    return replace(request, tool_choice=ToolChoice.none())
