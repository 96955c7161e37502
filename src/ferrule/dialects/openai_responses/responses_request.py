"""ResponsesRequest: a decoded body of the Responses API: the model's request, and the API's own fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.core.call import ToolResult
from ferrule.core.message import ChatMessage, Part
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.client_tools import ClientTool
from ferrule.dialects.openai_responses.hosted_tools import HostedServer, HostedTool


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to an `mcp_approval_request`. `id` is that of the approval request."""

    id: str
    approve: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesRequest:
    """`request` is the conversation in the body, instructions first; its tools are the caller's functions.

    `approvals` are the answers that have had no effect yet, without those that the client resends from earlier turns.
    `choice`, `text`, `labels` and `declared_tools` are echoed in the response. `client_tools` says of the tools that
    are not plain functions what the caller knows them as, by the model's names; `loaded_tools` are the names of those
    that came with input items. `left_out` are the types of the tools that are not offered, by their paths.
    """

    request: ToolCallRequest
    previous_response_id: str | None = None
    store: bool = True
    background: bool = False
    stream: bool = False
    approvals: tuple[ApprovalAnswer, ...] = ()
    servers: tuple[HostedServer, ...] = ()
    instructions: str | None = None
    max_tool_calls: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    choice: str | dict[str, Any] = "auto"
    text: Mapping[str, Any] = field(default_factory=lambda: {"format": {"type": "text"}})
    client_tools: Mapping[str, ClientTool] = field(default_factory=dict[str, ClientTool])
    loaded_tools: tuple[str, ...] = ()
    declared_tools: tuple[dict[str, Any], ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def hosted_tools(self) -> dict[str, HostedTool]:
        """The tools of all declared servers, by the names that the model uses. The first server with a name counts."""
        tools: dict[str, HostedTool] = {}
        for server in self.servers:
            for tool in server.tools:
                name = tool.definition.name
                tools.setdefault(
                    name, replace(tool, may_need_approval=tool.may_need_approval or name in server.approval_required)
                )
        return tools

    @property
    def approval_required(self) -> frozenset[str]:
        """The tools whose calls the caller wants to approve."""
        return frozenset(name for server in self.servers for name in server.approval_required)

    def with_history(self, history: Iterable[ChatMessage], *, instructions: str | None = None) -> ToolCallRequest:
        """Return the request with an earlier conversation before it.

        `instructions` are those of the earlier response, which do not carry over. Results get the names of their calls,
        which may be in the history.
        """
        earlier = tuple(history)
        if instructions is not None and earlier[:1] == (ChatMessage.system(instructions),):
            earlier = earlier[1:]
        own = self.request.messages
        head, rest = (own[:1], own[1:]) if self.instructions is not None else ((), own)
        names = {call.id: call.name for message in earlier for call in message.tool_calls}
        rest_named = tuple(
            replace(message, parts=tuple(_with_name(part, names) for part in message.parts)) for message in rest
        )
        return replace(self.request, messages=(*head, *earlier, *rest_named))


def _with_name(part: Part, names: Mapping[str, str]) -> Part:
    if isinstance(part, ToolResult) and not part.name:
        return replace(part, name=names.get(part.tool_call_id, ""))
    return part
