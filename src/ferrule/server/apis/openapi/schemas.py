"""The JSON Schemas of request and response bodies, by name, for the OpenAPI document.

For the APIs of others only the fields that are always read are described, and the rest is left open, because their
clients keep adding fields. In our own APIs every field that is always present is required.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ferrule.run.ledger.ledger import ApprovalState, CallState
from ferrule.run.ledger.trace import ChangedBy, TraceStatus
from ferrule.run.timeline_entry import EntryKind
from ferrule.run.tool_usage import UsageCounts
from ferrule.server.answer.result import STATUSES
from ferrule.server.apis.approvals import MAX_DECISIONS
from ferrule.server.apis.engines import READY, RESTING
from ferrule.server.auth.issued_keys import ACTIVE, REVOKED
from ferrule.server.auth.issued_keys import EXPIRED as EXPIRED_KEY
from ferrule.server.tools.approval_context import EXPIRED
from ferrule.sources.status import SourceState, Trust

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(name: str) -> Schema:
    return {"anyOf": [ref(name), {"type": "null"}]}


def obj(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def page_of(name: str, **more: Schema) -> Schema:
    return obj({"object": {"const": "list"}, "data": {"type": "array", "items": ref(name)}, **more})


TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
ANY: Schema = {}
OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}
OBJECTS: Schema = {"type": "array", "items": OBJECT}
OR_NULL: Schema = {"type": ["string", "null"]}
MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
MAYBE_COUNT: Schema = {"type": ["integer", "null"]}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_SECONDS: Schema = {"type": "number", "exclusiveMinimum": 0, "description": "Seconds until the key expires."}
_LIMIT: Schema = {"type": "integer", "minimum": 0, "description": "0 is no limit."}
_PERMISSIONS: Mapping[str, Schema] = {
    **dict.fromkeys(("models", "tools", "sources"), TEXTS),
    **dict.fromkeys(("approve", "admin", "operator", "live_arguments"), FLAG),
    **dict.fromkeys(("rate", "width"), _LIMIT),
}
_KEY: Mapping[str, Schema] = {
    "object": {"const": "key"},
    **dict.fromkeys(("id", "name", "tenant", "created_by", "revoked_by", "replaced_by"), TEXT),
    "status": {"enum": [ACTIVE, EXPIRED_KEY, REVOKED]},
    **_PERMISSIONS,
    "created_at": NUMBER,
    **dict.fromkeys(("expires_at", "last_used_at", "revoked_at"), MAYBE_NUMBER),
}
_MESSAGES = {"messages": OBJECTS}
_EXAMPLE_MESSAGES = [{"role": "user", "content": "How is the weather in Bern?"}]
_CALL = {"name": "search", "arguments": {"query": "ferrules"}}
_DECISION: Mapping[str, Schema] = {
    "why": OR_NULL,
    "arguments": {"type": ["object", "null"]},
    "arguments_sha256": {**OR_NULL, "description": "Of the arguments that you saw. If they were changed, it is 409."},
}
_RPC = {"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer", "null"]}}
_RPC_METHODS = ["initialize", "notifications/initialized", "ping", "server/discover", "tools/call", "tools/list"]

SCHEMAS: dict[str, Schema] = {
    # Errors, each in the shape of its API.
    "Error": obj(
        {"error": obj({"message": TEXT, "type": TEXT, "code": OR_NULL, "param": OR_NULL})},
    ),
    "AnthropicError": obj({"type": {"const": "error"}, "error": obj({"type": TEXT, "message": TEXT})}),
    "RpcError": obj({**_RPC, "error": obj({"code": COUNT, "message": TEXT})}),
    # The APIs of others.
    "ChatRequest": {
        **obj(_MESSAGES, model=OR_NULL, stream={"type": ["boolean", "null"]}, tools={"type": ["array", "null"]}),
        "example": {"messages": _EXAMPLE_MESSAGES},
    },
    "ChatCompletion": obj(
        {"id": TEXT, "object": {"const": "chat.completion"}, "created": COUNT, "model": TEXT, "choices": OBJECTS},
        usage=OBJECT,
        ferrule=OBJECT,
    ),
    "CompletionRequest": {
        **obj(
            {"prompt": {"type": ["string", "array"]}},
            model=OR_NULL,
            max_tokens=MAYBE_COUNT,
            stream={"type": ["boolean", "null"]},
        ),
        "example": {"prompt": "The capital of Switzerland is", "max_tokens": 8},
    },
    # The engine's own body.
    "Completion": obj({"choices": OBJECTS}, usage=OBJECT),
    "EmbeddingsRequest": {
        **obj({"input": {"type": ["string", "array"]}}, model=OR_NULL, dimensions=MAYBE_COUNT),
        "example": {"input": "How is the weather in Bern?"},
    },
    "Embeddings": obj({"data": OBJECTS}, usage=OBJECT),
    "MessagesRequest": {
        **obj(_MESSAGES, model=OR_NULL, max_tokens={"type": ["integer", "null"]}, system=ANY),
        "example": {"messages": _EXAMPLE_MESSAGES, "max_tokens": 64},
    },
    "Message": obj(
        {"id": TEXT, "type": {"const": "message"}, "role": {"const": "assistant"}, "model": TEXT, "content": OBJECTS},
        usage=OBJECT,
        ferrule=OBJECT,
    ),
    "TokenCount": obj({"input_tokens": COUNT}),
    "ResponsesRequest": {
        **obj({"input": {"type": ["string", "array"]}}, model=OR_NULL, stream={"type": ["boolean", "null"]}),
        "example": {"input": "How is the weather in Bern?"},
    },
    "Response": obj({"id": TEXT, "object": {"const": "response"}, "status": TEXT, "output": OBJECTS}),
    "Compaction": obj({"id": TEXT, "object": {"const": "response.compaction"}, "output": OBJECTS}, usage=OBJECT),
    "DeletedResponse": obj({"id": TEXT, "deleted": FLAG}),
    "InputItems": obj({"object": {"const": "list"}, "data": OBJECTS, "has_more": FLAG}),
    "Model": obj(
        {
            **{"id": TEXT, "object": {"const": "model"}, "type": {"const": "model"}, "display_name": TEXT},
            "ferrule": obj({"apis": TEXTS}),
        }
    ),
    "Models": page_of("Model", has_more=FLAG),
    # Our own APIs.
    "Tool": obj(
        {
            "object": {"const": "tool"},
            "name": TEXT,
            "description": TEXT,
            "parameters": OBJECT,
            "source": TEXT,
            "bound_to": {"type": ["object", "null"]},
            "side_effects": FLAG,
            "fingerprint": TEXT,
        }
    ),
    "ToolDetail": {
        "allOf": [ref("Tool"), obj({"enforcement": {"type": "array", "items": ref("Enforcement")}})],
    },
    "Enforcement": obj(
        {
            **dict.fromkeys(("model", "engine", "target", "why"), TEXT),
            **dict.fromkeys(("enforced", "checked", "unchecked"), TEXTS),
        }
    ),
    "FoundTool": {"allOf": [ref("Tool"), obj({}, score={**NUMBER, "description": "In a search: higher fits better."})]},
    "Tools": page_of("FoundTool", notices=TEXTS),
    "ToolCallRequest": {
        **obj(
            {"name": TEXT},
            arguments={"type": ["object", "string", "null"]},
            call_id={"anyOf": [_NAME, {"type": "null"}]},
            conversation={"anyOf": [_NAME, {"type": "null"}]},
            deadline={**MAYBE_NUMBER, "description": "Unix seconds."},
        ),
        "example": _CALL,
    },
    "ToolResult": obj(
        {
            "object": {"const": "tool.result"},
            "call_id": TEXT,
            "name": TEXT,
            "arguments": TEXT,
            "content": ANY,
            "is_error": FLAG,
            "code": TEXT,
        }
    ),
    "ToolWaiting": obj(
        {"object": {"const": "tool.waiting"}, "call_id": TEXT, "name": TEXT, "approval": ref("Approval")}
    ),
    "Approval": obj(
        {
            "object": {"const": "approval"},
            "id": TEXT,
            "state": {"enum": [*(state.value for state in ApprovalState), EXPIRED]},
            **dict.fromkeys(("tool", "fingerprint", "principal", "conversation", "call_id"), TEXT),
            **dict.fromkeys(("arguments", "arguments_sha256", "shown", "decided_by", "why"), TEXT),
            "requested_at": NUMBER,
            "expires_at": NUMBER,
            "decided_at": MAYBE_NUMBER,
            "needed": NUMBER,
            "votes": NUMBER,
            "four_eyes": FLAG,
        }
    ),
    "ApprovalDetail": {
        "allOf": [
            ref("Approval"),
            obj({"definition": or_null("ApprovedDefinition"), "last": or_null("LastApproval")}),
        ]
    },
    "ApprovalWithRequest": {
        "allOf": [ref("ApprovalDetail"), obj({"approved_by": TEXTS, "request": or_null("ApprovalRequest")})]
    },
    "ApprovalRequest": obj(
        {
            "asked": OR_NULL,
            "asked_chars": NUMBER,
            "calls": {"type": "array", "items": ref("EarlierCall")},
            "earlier_calls": NUMBER,
        }
    ),
    "EarlierCall": obj({**dict.fromkeys(("tool", "arguments", "result"), TEXT), "is_error": FLAG}),
    "ApprovedDefinition": obj(
        {
            **dict.fromkeys(("description", "shown_description", "source", "fingerprint"), TEXT),
            "parameters": OBJECT,
            "side_effects": FLAG,
            "is_same": FLAG,
        }
    ),
    "LastApproval": obj(
        {
            **dict.fromkeys(("id", "decided_by", "fingerprint", "arguments"), TEXT),
            "decided_at": NUMBER,
            "is_same_definition": FLAG,
        }
    ),
    "Approvals": page_of("ApprovalDetail", has_more=FLAG),
    "ApprovalCheckRequest": {**obj({"arguments": OBJECT}), "example": {"arguments": _CALL["arguments"]}},
    "ApprovalCheck": obj(
        {
            "object": {"const": "approval.check"},
            "fits": FLAG,
            "faults": {"type": "array", "items": obj({"path": TEXT, "message": TEXT})},
        }
    ),
    "Decision": {
        **obj({"approve": FLAG}, **_DECISION),
        "example": {"approve": False, "why": "not before Monday"},
    },
    "Decisions": {
        **obj(
            {
                "decisions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_DECISIONS,
                    "items": obj({"id": TEXT, "approve": FLAG}, **_DECISION),
                }
            }
        ),
        "example": {"decisions": [{"id": "0", "approve": False, "why": "not before Monday"}]},
    },
    "DecisionResults": page_of("DecisionResult"),
    "DecisionResult": obj({"id": TEXT, "status": NUMBER}, approval=ref("Approval"), error=OBJECT),
    "ConversationResult": obj(
        {"object": {"const": "conversation.result"}, "id": TEXT, "status": {"enum": list(STATUSES)}},
        approvals=TEXTS,
        text=TEXT,
        finish_reason=TEXT,
        limit=TEXT,
        usage={"type": ["object", "null"]},
        calls=OBJECTS,
        call=OBJECT,
        error=OBJECT,
    ),
    "Source": obj(
        {
            "object": {"const": "source"},
            **dict.fromkeys(("name", "kind", "why"), TEXT),
            "state": {"enum": [one.value for one in SourceState]},
            "trust": {"enum": [one.value for one in Trust]},
            "tools": TEXTS,
            "quarantined": {"type": "array", "items": ref("QuarantinedTool")},
            "login": {"type": ["string", "null"]},
        }
    ),
    "SourceLogin": obj(
        {"object": {"const": "login"}, "source": TEXT, "url": {"type": ["string", "null"]}, "expires_at": COUNT}
    ),
    "QuarantinedTool": obj(
        {"tool": TEXT, "why": TEXT, "before": or_null("DescribedTool"), "now": ref("DescribedTool")}
    ),
    "DescribedTool": obj({"description": TEXT, "parameters": OBJECT, "fingerprint": TEXT, "more": OBJECT}),
    "Sources": page_of("Source", notices=TEXTS),
    "Engine": obj(
        {
            "object": {"const": "engine"},
            **dict.fromkeys(("model", "engine", "kind", "why"), TEXT),
            **dict.fromkeys(("targets", "honours"), TEXTS),
            "goes_on_cheaply": FLAG,
            "state": {"enum": [READY, RESTING]},
            "profile": or_null("Profile"),
        }
    ),
    "Profile": obj(
        {
            **dict.fromkeys(("url", "model", "date"), TEXT),
            "findings": {
                "type": "array",
                "items": obj(dict.fromkeys(("name", "verdict", "evidence"), TEXT)),
            },
            "continuation_cost": {"type": ["number", "null"]},
        }
    ),
    "Engines": page_of("Engine"),
    "ConversationSummary": obj(
        {
            "object": {"const": "conversation"},
            "id": TEXT,
            "principal": TEXT,
            "opened_at": NUMBER,
            "changed_at": NUMBER,
            "version": COUNT,
            "is_held": FLAG,
            "title": TEXT,
        }
    ),
    "Conversations": page_of("ConversationSummary", has_more=FLAG),
    "Conversation": {
        "allOf": [
            ref("ConversationSummary"),
            obj(
                {
                    "within": TEXT,
                    "messages": OBJECTS,
                    "is_unfinished": FLAG,
                    "calls": {"type": "array", "items": ref("Call")},
                    "approvals": {"type": "array", "items": ref("Approval")},
                    "timeline": {"type": "array", "items": ref("TimelineEntry")},
                    "audit": obj({"rows": OBJECTS, "chain": obj({"holds": FLAG, "breach": TEXT})}),
                }
            ),
        ]
    },
    "TraceSummary": obj(
        {
            "object": {"const": "trace"},
            **dict.fromkeys(("id", "principal", "title", "error", "model"), TEXT),
            "status": {"enum": [*(one.value for one in TraceStatus), ""]},
            **dict.fromkeys(("request_count", "error_count", "prompt_tokens", "completion_tokens"), COUNT),
            "cost": MAYBE_NUMBER,
            "began_at": NUMBER,
            "changed_at": NUMBER,
        }
    ),
    "Traces": page_of("TraceSummary", has_more=FLAG),
    "Trace": {
        "allOf": [
            ref("TraceSummary"),
            obj({"conversations": TEXTS, "requests": {"type": "array", "items": ref("TracedRequest")}}),
        ]
    },
    "TracedRequest": obj(
        {
            **dict.fromkeys(("id", "request_id", "api", "model", "finish", "conversation"), TEXT),
            "at": NUMBER,
            "seconds": MAYBE_NUMBER,
            "status": {"enum": [one.value for one in TraceStatus]},
            "error": {"anyOf": [obj({"code": TEXT, "status": COUNT, "message": TEXT}), {"type": "null"}]},
            **dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), COUNT),
            "prompt_prefix": {
                "anyOf": [
                    obj(
                        {
                            "changed_by": {"enum": [one.value for one in ChangedBy]},
                            "changed": TEXT,
                            **dict.fromkeys(("kept_bytes", "previous_bytes"), COUNT),
                        }
                    ),
                    {"type": "null"},
                ]
            },
            "cost": MAYBE_NUMBER,
            "tools": TEXTS,
            "messages": OBJECTS,
        }
    ),
    "Call": obj(
        {
            "id": TEXT,
            "tool": TEXT,
            "fingerprint": TEXT,
            "arguments": TEXT,
            "arguments_sha256": TEXT,
            "side_effects": FLAG,
            "needs_approval": FLAG,
            "state": {"enum": [state.value for state in CallState]},
            "outcome": {"type": ["object", "null"]},
        }
    ),
    "ToolStats": obj(
        {
            "object": {"const": "tool.stats"},
            "model": TEXT,
            "tool": TEXT,
            "fingerprint": TEXT,
            "description": TEXT,
            "first_at": MAYBE_NUMBER,
            "last_at": MAYBE_NUMBER,
            **{one.name: COUNT for one in fields(UsageCounts)},
            "wrong": COUNT,
            "wrong_share": MAYBE_NUMBER,
        }
    ),
    "ToolSummary": obj(
        {
            "object": {"const": "tool.summary"},
            "tool": TEXT,
            **dict.fromkeys(("loaded", "called", "failed", "denied"), COUNT),
            "seconds_p50": MAYBE_NUMBER,
            "definition_tokens": {"type": ["integer", "null"]},
        }
    ),
    "ToolSummaryPage": page_of("ToolSummary", has_more=FLAG),
    "MisnamedTool": obj({"model": TEXT, "wrote": TEXT, "tool": TEXT, "count": COUNT}),
    "ToolStatsPage": page_of("ToolStats", misnamed={"type": "array", "items": ref("MisnamedTool")}, has_more=FLAG),
    "Rpc": {
        **obj(
            {"jsonrpc": {"const": "2.0"}, "method": {"anyOf": [{"enum": _RPC_METHODS}, TEXT]}},
            id={"type": ["string", "integer"]},
            params=OBJECT,
        ),
        "example": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL},
    },
    "RpcReply": {"anyOf": [obj({**_RPC, "result": OBJECT}), ref("RpcError")]},
    "Alive": obj({"status": {"const": "alive"}}),
    "Ready": obj(
        {
            "status": {"enum": ["ready", "not ready"]},
            "draining": FLAG,
            "models": OBJECT,
            "ledger": TEXT,
            "tools": OBJECT,
        }
    ),
    "OpenApi": obj({"openapi": TEXT, "info": OBJECT, "paths": OBJECT}),
    "Me": obj(
        {
            "object": {"const": "principal"},
            "name": TEXT,
            "tenant": TEXT,
            "rights": {"type": "array", "items": {"enum": ["admin", "approve", "models", "operator", "tools"]}},
            "needs_key": FLAG,
            "quotas": {
                "type": "array",
                "items": obj(
                    {
                        **dict.fromkeys(("name", "counts", "per", "each"), TEXT),
                        **dict.fromkeys(("most", "used", "remaining", "seconds_left"), NUMBER),
                    }
                ),
            },
        }
    ),
    "KeyRequest": {
        **obj({"name": _NAME}, tenant=_NAME, expires_in=_SECONDS, **_PERMISSIONS),
        "additionalProperties": False,
        "example": {"name": "app", "tools": ["get_*"], "expires_in": 7_776_000},
    },
    "KeyRotation": obj({}, overlap_seconds={"type": "number", "minimum": 0}, expires_in=_SECONDS),
    "Key": obj(_KEY),
    "IssuedKey": obj({**_KEY, "key": TEXT}),
    "Reload": obj({"object": {"const": "reload"}, "changed": TEXTS, "models": TEXTS, "tools": COUNT}),
    "KeyPage": page_of("Key", has_more=FLAG, is_temporary=FLAG),
    "TimelineEntry": obj(
        {
            "at": NUMBER,
            "seconds": MAYBE_NUMBER,
            "kind": {"enum": [kind.value for kind in EntryKind]},
            **dict.fromkeys(("title", "call_id", "tool", "approval"), TEXT),
            "tokens": {"anyOf": [obj({"prompt": COUNT, "completion": COUNT}), {"type": "null"}]},
            **dict.fromkeys(("bytes", "message"), MAYBE_COUNT),
            "is_error": FLAG,
        }
    ),
}
