"""The summary, parameters and responses of each route, for the OpenAPI document.

A route without an entry is described by its path alone, and a test fails until it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ferrule.server.apis.approvals import FILTERS, ORDERS, STATES
from ferrule.server.apis.approvals import MAX_LIMIT as MAX_APPROVALS
from ferrule.server.apis.conversations import MAX_LIMIT as MAX_CONVERSATIONS
from ferrule.server.apis.keys import MAX_LIMIT as MAX_KEYS
from ferrule.server.apis.openapi.schemas import TEXT, Schema
from ferrule.server.apis.query import MAX_TERM_LENGTH, MAX_TIME
from ferrule.server.apis.stats import MAX_LENGTH as MAX_STATS_NAME
from ferrule.server.apis.stats import MAX_LIMIT as MAX_STATS
from ferrule.server.apis.stats import MAX_TOOLS
from ferrule.server.apis.tools import HOPS, MAX_MATCHES
from ferrule.server.apis.traces import STATUSES as TRACE_STATUSES
from ferrule.server.http import EVENTS, JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Schemas are named. `answers` maps statuses to schemas, except errors in JSON; None is a response without a body.

    `streams`: the client may request events instead.
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


_SEARCHED: Schema = {"type": "string", "maxLength": MAX_TERM_LENGTH}
_NAMED: Schema = {"type": "string", "maxLength": MAX_STATS_NAME}
_HOPS: Schema = {"type": "integer", "minimum": 0, "description": "How many more levels deep tools may call tools."}
_MOMENT: Schema = {"type": "number", "minimum": 0, "description": "Unix seconds; default: thirty days ago."}
_TIME: Schema = {"type": "number", "minimum": 0, "maximum": MAX_TIME, "description": "Unix seconds."}
_PAGES: Mapping[str, Schema] = {"limit": _limit(MAX_CONVERSATIONS), "after": _SEARCHED}
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
        tag=_CHAT, summary="Create a chat completion", body="ChatRequest", answers={200: "ChatCompletion"}, streams=True
    ),
    ("POST", "/v1/completions"): Operation(
        tag=_CHAT,
        summary="Forward a text completion to an engine that has them",
        body="CompletionRequest",
        answers={200: "Completion"},
        streams=True,
    ),
    ("POST", "/v1/embeddings"): Operation(
        tag=_CHAT,
        summary="Forward a request for embeddings to an engine that computes them",
        body="EmbeddingsRequest",
        answers={200: "Embeddings"},
    ),
    ("GET", "/v1/models"): Operation(tag=_CHAT, summary="List the models", answers={200: "Models"}),
    ("GET", "/v1/models/{id}"): Operation(tag=_CHAT, summary="Get a model", answers={200: "Model"}),
    ("GET", "/v1/engines"): Operation(
        tag=_RUN, summary="List the engines behind each model that the key may use", answers={200: "Engines"}
    ),
    ("POST", "/v1/messages"): Operation(
        tag=_MESSAGES,
        summary="Create a message",
        body="MessagesRequest",
        answers={200: "Message"},
        error="AnthropicError",
        streams=True,
    ),
    ("HEAD", "/api/hello"): Operation(tag=_MESSAGES, summary="Say that a server is there", answers={200: None}),
    ("POST", "/v1/messages/count_tokens"): Operation(
        tag=_MESSAGES,
        summary="Count the tokens of a prompt",
        body="MessagesRequest",
        answers={200: "TokenCount"},
        error="AnthropicError",
    ),
    ("POST", "/v1/responses"): Operation(
        tag=_RESPONSES, summary="Create a response", body="ResponsesRequest", answers={200: "Response"}, streams=True
    ),
    ("POST", "/v1/responses/input_tokens"): Operation(
        tag=_RESPONSES, summary="Count the tokens of a prompt", body="ResponsesRequest", answers={200: "TokenCount"}
    ),
    ("POST", "/v1/responses/compact"): Operation(
        tag=_RESPONSES,
        summary="Shorten a conversation to the user's messages and a summary",
        body="ResponsesRequest",
        answers={200: "Compaction"},
    ),
    ("GET", "/v1/responses/{id}"): Operation(
        tag=_RESPONSES,
        summary="Get a stored response, or stream its remaining events",
        answers={200: "Response"},
        query={"stream": TEXT, "starting_after": TEXT},
        streams=True,
    ),
    ("DELETE", "/v1/responses/{id}"): Operation(
        tag=_RESPONSES, summary="Delete a response", answers={200: "DeletedResponse"}
    ),
    ("POST", "/v1/responses/{id}/cancel"): Operation(
        tag=_RESPONSES, summary="Cancel a running response", answers={200: "Response"}
    ),
    ("GET", "/v1/responses/{id}/input_items"): Operation(
        tag=_RESPONSES,
        summary="List the input items of a response",
        answers={200: "InputItems"},
        query={"limit": TEXT, "order": TEXT, "after": TEXT},
    ),
    ("GET", "/v1/tools"): Operation(
        tag=_TOOLS,
        summary="List the tools that the key may use, or find those that fit a text",
        query={"text": _SEARCHED, "limit": _limit(MAX_MATCHES)},
        answers={200: "Tools"},
    ),
    ("GET", "/v1/tools/{name}"): Operation(
        tag=_TOOLS, summary="Get a tool, and how each engine enforces its schema", answers={200: "ToolDetail"}
    ),
    ("GET", "/v1/sources"): Operation(
        tag=_TOOLS,
        summary="List the sources that the key may use and their status; an operator sees all of them",
        answers={200: "Sources"},
    ),
    ("POST", "/v1/sources/{name}/login"): Operation(
        tag=_TOOLS,
        summary="Begin a login to an MCP server, to finish in the same browser",
        answers={200: "SourceLogin"},
    ),
    ("GET", "/v1/sources/callback"): Operation(
        tag=_TOOLS,
        summary="Where an authorization server sends the browser after a login",
        query=dict.fromkeys(("code", "state", "iss", "error"), TEXT),
        # A browser shows the refusal too.
        answers={200: None, 404: None},
        media_type="text/html",
    ),
    ("POST", "/v1/tools/call"): Operation(
        tag=_TOOLS,
        summary="Call a tool, once for each call_id; 202 if the call waits for approval",
        body="ToolCallRequest",
        answers={200: "ToolResult", 202: "ToolWaiting"},
        headers={HOPS: _HOPS},
    ),
    ("GET", "/v1/approvals"): Operation(
        tag=_TOOLS,
        summary="List the tenant's pending and past approvals, oldest first unless order is desc",
        answers={200: "Approvals"},
        query={
            "state": {"enum": list(STATES)},
            "order": {"enum": list(ORDERS)},
            "limit": _limit(MAX_APPROVALS),
            "after": TEXT,
            **dict.fromkeys(FILTERS, _SEARCHED),
        },
    ),
    ("GET", "/v1/approvals/events"): Operation(
        tag=_TOOLS,
        summary="Follow the tenant's pending approvals as server-sent events: all of them, then every change",
        answers={200: None},
        media_type=EVENTS,
    ),
    ("POST", "/v1/approvals/decisions"): Operation(
        tag=_TOOLS,
        summary="Decide several approvals; each has its own result",
        body="Decisions",
        answers={200: "DecisionResults"},
    ),
    ("GET", "/v1/approvals/{id}"): Operation(
        tag=_TOOLS,
        summary="Get an approval with the exact call, and what the user asked",
        answers={200: "ApprovalWithRequest"},
    ),
    ("POST", "/v1/approvals/{id}"): Operation(
        tag=_TOOLS, summary="Approve or deny a call, once", body="Decision", answers={200: "ApprovalDetail"}
    ),
    ("POST", "/v1/approvals/{id}/check"): Operation(
        tag=_TOOLS,
        summary="Check replacement arguments; decides nothing",
        body="ApprovalCheckRequest",
        answers={200: "ApprovalCheck"},
    ),
    ("GET", "/v1/conversations"): Operation(
        tag=_TOOLS,
        summary="List the conversations in the ledger, newest first; an admin sees the tenant's",
        answers={200: "Conversations"},
        query={**_PAGES, "text": _SEARCHED, "tool": _SEARCHED, "principal": _SEARCHED},
    ),
    ("GET", "/v1/conversations/{id}"): Operation(
        tag=_TOOLS, summary="Get a conversation with its calls, approvals and audit log", answers={200: "Conversation"}
    ),
    ("GET", "/v1/conversations/{id}/result"): Operation(
        tag=_TOOLS,
        summary="Get the result of a conversation, also after its caller was gone; 202 while it waits or runs",
        answers={200: "ConversationResult", 202: "ConversationResult"},
    ),
    ("GET", "/v1/traces"): Operation(
        tag=_TOOLS,
        summary="List traces, one for each conversation of a client, newest first; an admin sees the tenant's",
        answers={200: "Traces"},
        query={
            **_PAGES,
            **dict.fromkeys(("text", "tool", "principal"), _SEARCHED),
            "status": {"enum": list(TRACE_STATUSES)},
            **dict.fromkeys(("since", "until"), _TIME),
        },
    ),
    ("GET", "/v1/traces/{id}"): Operation(
        tag=_TOOLS,
        summary="Get a trace with its requests, by its ID or that of a conversation in it",
        answers={200: "Trace"},
    ),
    ("GET", "/v1/stats"): Operation(
        tag=_TOOLS,
        summary="Get tool usage by definition, most used first; an admin sees the tenant's",
        answers={200: "ToolStatsPage"},
        query={"limit": _limit(MAX_STATS), "since": _MOMENT, "tool": _NAMED, "principal": _NAMED},
    ),
    ("GET", "/v1/stats/tools"): Operation(
        tag=_TOOLS,
        summary="Get one line for each tool that models could call: loaded, called, failed, time and size",
        answers={200: "ToolSummaryPage"},
        query={"limit": _limit(MAX_TOOLS), "since": _MOMENT, "tool": _NAMED, "principal": _NAMED},
    ),
    ("POST", "/mcp"): Operation(
        tag="MCP",
        summary="Handle a message of the Model Context Protocol, of either generation",
        body="Rpc",
        answers={200: "RpcReply", 202: None},
        error="RpcError",
        streams=True,
    ),
    ("GET", "/mcp"): Operation(
        tag="MCP", summary="Not supported: there are no sessions to listen to", error="RpcError"
    ),
    ("DELETE", "/mcp"): Operation(tag="MCP", summary="Not supported: there are no sessions to end", error="RpcError"),
    ("GET", "/healthz"): Operation(tag=_RUN, summary="Liveness probe", answers={200: "Alive"}),
    ("GET", "/readyz"): Operation(tag=_RUN, summary="Readiness probe", answers={200: "Ready", 503: "Ready"}),
    ("GET", "/metrics"): Operation(
        tag=_RUN,
        summary="Metrics of all tenants for Prometheus, for operators",
        answers={200: None},
        media_type="text/plain",
    ),
    ("GET", "/openapi.json"): Operation(tag=_RUN, summary="Get this OpenAPI document", answers={200: "OpenApi"}),
    ("GET", "/v1/me"): Operation(tag=_RUN, summary="Get the principal of the key and its rights", answers={200: "Me"}),
    ("GET", "/v1/keys"): Operation(
        tag=_RUN,
        summary="List the keys of the tenant in the ledger, newest first",
        answers={200: "KeyPage"},
        query={"limit": _limit(MAX_KEYS), "after": _SEARCHED},
    ),
    ("POST", "/v1/keys"): Operation(
        tag=_RUN,
        summary="Create a key, which is shown only in this answer",
        body="KeyRequest",
        answers={201: "IssuedKey"},
    ),
    ("GET", "/v1/keys/{id}"): Operation(tag=_RUN, summary="Get a key", answers={200: "Key"}),
    ("POST", "/v1/keys/{id}/rotate"): Operation(
        tag=_RUN,
        summary="Create a key with the name and the permissions of another one, which then ends",
        body="KeyRotation",
        answers={201: "IssuedKey"},
    ),
    ("POST", "/v1/keys/{id}/revoke"): Operation(
        tag=_RUN, summary="End a key at once, and the answers that it reads", answers={200: "Key"}
    ),
    ("POST", "/v1/reload"): Operation(
        tag=_RUN,
        summary="Take up the configuration as it is now; an invalid one changes nothing",
        answers={200: "Reload"},
    ),
    ("GET", "/"): Operation(tag=_CONSOLE, summary="Redirect to the console", answers={307: None}),
    ("GET", "/console"): Operation(tag=_CONSOLE, summary="Redirect to the console", answers={307: None}),
    ("GET", "/console/{path:path}"): Operation(
        tag=_CONSOLE, summary="The web console and its files", answers={200: None}, media_type="text/html"
    ),
}
