"""What each route is for, takes and gives: the one place that the OpenAPI description is made from.

A route that has no entry here is described by its path alone, and a test fails until it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ferrule.server.apis.approvals import MOST as MOST_APPROVALS
from ferrule.server.apis.approvals import ORDERS, STATES
from ferrule.server.apis.conversations import LONGEST
from ferrule.server.apis.conversations import MOST as MOST_CONVERSATIONS
from ferrule.server.apis.openapi.schemas import TEXT, Schema
from ferrule.server.apis.stats import LONGEST as LONGEST_STATS_NAME
from ferrule.server.apis.stats import MOST as MOST_STATS
from ferrule.server.apis.tools import HOPS
from ferrule.server.http import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Schemas are by name. `answers` has statuses besides errors; None is an answer without a body.

    `streams`: the client may ask for events instead.
    """

    tag: str
    summary: str
    body: str | None = None
    answers: Mapping[int, str | None] = field(default_factory=dict[int, "str | None"])
    query: Mapping[str, Schema] = field(default_factory=dict[str, Schema])
    headers: Mapping[str, Schema] = field(default_factory=dict[str, Schema])
    error: str = "Error"
    media_type: str = JSON
    streams: bool = False


def _limit(most: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most}


_SEARCHED: Schema = {"type": "string", "maxLength": LONGEST}
_NAMED: Schema = {"type": "string", "maxLength": LONGEST_STATS_NAME}
_HOPS: Schema = {"type": "integer", "minimum": 0, "description": "How many calls deep tools may still call tools."}
_MOMENT: Schema = {"type": "number", "minimum": 0, "description": "Unix seconds; thirty days ago."}
_PAGES: Mapping[str, Schema] = {"limit": _limit(MOST_CONVERSATIONS), "after": _SEARCHED}
_CHAT, _MESSAGES, _RESPONSES, _TOOLS, _RUN, _CONSOLE = (
    "OpenAI chat",
    "Anthropic messages",
    "OpenAI responses",
    "Tools",
    "Operation",
    "Console",
)

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/chat/completions"): Operation(
        tag=_CHAT, summary="Answer a chat", body="ChatRequest", answers={200: "ChatCompletion"}, streams=True
    ),
    ("GET", "/v1/models"): Operation(tag=_CHAT, summary="List the models", answers={200: "Models"}),
    ("GET", "/v1/models/{id}"): Operation(tag=_CHAT, summary="One model", answers={200: "Model"}),
    ("GET", "/v1/engines"): Operation(
        tag=_RUN, summary="What answers behind each model that the key may use", answers={200: "Engines"}
    ),
    ("POST", "/v1/messages"): Operation(
        tag=_MESSAGES,
        summary="Answer messages",
        body="MessagesRequest",
        answers={200: "Message"},
        error="AnthropicError",
        streams=True,
    ),
    ("POST", "/v1/messages/count_tokens"): Operation(
        tag=_MESSAGES,
        summary="How many tokens a prompt has",
        body="MessagesRequest",
        answers={200: "TokenCount"},
        error="AnthropicError",
    ),
    ("POST", "/v1/responses"): Operation(
        tag=_RESPONSES, summary="Make a response", body="ResponsesRequest", answers={200: "Response"}, streams=True
    ),
    ("POST", "/v1/responses/input_tokens"): Operation(
        tag=_RESPONSES, summary="How many tokens a prompt has", body="ResponsesRequest", answers={200: "TokenCount"}
    ),
    ("GET", "/v1/responses/{id}"): Operation(
        tag=_RESPONSES,
        summary="A stored response, or the rest of its events",
        answers={200: "Response"},
        query={"stream": TEXT, "starting_after": TEXT},
        streams=True,
    ),
    ("DELETE", "/v1/responses/{id}"): Operation(
        tag=_RESPONSES, summary="Forget a response", answers={200: "DeletedResponse"}
    ),
    ("POST", "/v1/responses/{id}/cancel"): Operation(
        tag=_RESPONSES, summary="Stop a response that is under way", answers={200: "Response"}
    ),
    ("GET", "/v1/responses/{id}/input_items"): Operation(
        tag=_RESPONSES,
        summary="What a response was asked with",
        answers={200: "InputItems"},
        query={"limit": TEXT, "order": TEXT, "after": TEXT},
    ),
    ("GET", "/v1/tools"): Operation(tag=_TOOLS, summary="The tools that the key may use", answers={200: "Tools"}),
    ("GET", "/v1/tools/{name}"): Operation(
        tag=_TOOLS, summary="One tool, and what holds its calls on each engine", answers={200: "HeldTool"}
    ),
    ("GET", "/v1/sources"): Operation(
        tag=_TOOLS, summary="Where the tools come from, and how it stands with each", answers={200: "Sources"}
    ),
    ("POST", "/v1/tools/call"): Operation(
        tag=_TOOLS,
        summary="Call a tool, once under each call_id; 202 where it waits for leave",
        body="ToolCallRequest",
        answers={200: "ToolResult", 202: "ToolWaiting"},
        headers={HOPS: _HOPS},
    ),
    ("GET", "/v1/approvals"): Operation(
        tag=_TOOLS,
        summary="Calls of the tenant that wait for leave, or did, oldest first unless order is desc",
        answers={200: "Approvals"},
        query={
            "state": {"enum": list(STATES)},
            "order": {"enum": list(ORDERS)},
            "limit": _limit(MOST_APPROVALS),
            "after": TEXT,
        },
    ),
    ("GET", "/v1/approvals/{id}"): Operation(
        tag=_TOOLS, summary="What exactly would be done", answers={200: "ShownApproval"}
    ),
    ("POST", "/v1/approvals/{id}"): Operation(
        tag=_TOOLS, summary="Say yes or no, once", body="Decision", answers={200: "ShownApproval"}
    ),
    ("POST", "/v1/approvals/{id}/check"): Operation(
        tag=_TOOLS,
        summary="Whether other arguments could be run instead; decides nothing",
        body="ApprovalCheckRequest",
        answers={200: "ApprovalCheck"},
    ),
    ("GET", "/v1/conversations"): Operation(
        tag=_TOOLS,
        summary="Conversations in the ledger, newest first; an admin sees the tenant's",
        answers={200: "Conversations"},
        query={**_PAGES, "text": _SEARCHED, "tool": _SEARCHED, "principal": _SEARCHED},
    ),
    ("GET", "/v1/conversations/{id}"): Operation(
        tag=_TOOLS, summary="What was said and done, and its audit", answers={200: "Conversation"}
    ),
    ("GET", "/v1/stats"): Operation(
        tag=_TOOLS,
        summary="Which tools models pick, by definition, the most used first; an admin sees the tenant's",
        answers={200: "ToolStatsPage"},
        query={"limit": _limit(MOST_STATS), "since": _MOMENT, "tool": _NAMED, "principal": _NAMED},
    ),
    ("POST", "/mcp"): Operation(
        tag="MCP",
        summary="One message of the Model Context Protocol, of either era",
        body="Rpc",
        answers={200: "RpcReply", 202: None},
        error="RpcError",
        streams=True,
    ),
    ("GET", "/mcp"): Operation(tag="MCP", summary="There are no sessions to listen to", error="RpcError"),
    ("DELETE", "/mcp"): Operation(tag="MCP", summary="There are no sessions to end", error="RpcError"),
    ("GET", "/healthz"): Operation(tag=_RUN, summary="Whether the process lives", answers={200: "Alive"}),
    ("GET", "/readyz"): Operation(
        tag=_RUN, summary="Whether it should be sent requests", answers={200: "Ready", 503: "Ready"}
    ),
    ("GET", "/metrics"): Operation(
        tag=_RUN, summary="Counters for Prometheus", answers={200: None}, media_type="text/plain"
    ),
    ("GET", "/openapi.json"): Operation(tag=_RUN, summary="This description", answers={200: "OpenApi"}),
    ("GET", "/v1/me"): Operation(tag=_RUN, summary="Who the key is of, and what it may do", answers={200: "Me"}),
    ("GET", "/"): Operation(tag=_CONSOLE, summary="Leads to the console", answers={307: None}),
    ("GET", "/console"): Operation(tag=_CONSOLE, summary="Leads to the console", answers={307: None}),
    ("GET", "/console/{path:path}"): Operation(
        tag=_CONSOLE, summary="The page for people, and its files", answers={200: None}, media_type="text/html"
    ),
}
