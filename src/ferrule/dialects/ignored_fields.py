"""Fields of a body that nobody reads: which of them do no harm, which are reported, which are refused.

A body is read first; then `ignored_fields` looks at what was not read. Each API has one table:

| in the table | what happens |
|---|---|
| harmless | nothing: the field changes nothing that the client could notice, for the reason that stands beside it |
| refused | the request is refused: the field restricts the model, or the answer without it would be a wrong one |
| anything else | the path is reported: in `ToolCallRequest.ignored`, and from there in a header, receipts and the log |

A value that says the same as leaving the field out (`neutral`) is neither reported nor refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.dialects.extension import KEY
from ferrule.dialects.field import Field
from ferrule.dialects.field_reads import FieldReads

_EXTENSION_FIELDS = ("tools", "resume", "live_arguments", "wire")
_MAX_PATHS, _MAX_LENGTH = 16, 80
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[]=:/")
OTHER = "other"
"""Stands for a name that is too long, or that has characters which do not belong into a header."""


@dataclass(frozen=True, slots=True)
class FieldTable:
    """What is known about the fields of one API that no reader asks for. The keys are paths without numbers.

    A key such as `*.cache_control` is for the field of any object.
    """

    harmless: Mapping[str, str]
    """Why leaving it out harms nobody."""
    reported: Mapping[str, str]
    """What the field asks for. Other fields are reported too; these are the ones that may be named in metrics."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """What to send instead."""
    neutral: Mapping[str, Callable[[object], bool]] = field(default_factory=dict[str, Callable[[object], bool]])
    """Whether a value says the same as leaving the field out."""


def tracked(body: Mapping[str, Any]) -> Field:
    """Return the root of a body whose reads are recorded, for `ignored_fields`."""
    return Field(body, reads=FieldReads())


def ignored_fields(root: Field, table: FieldTable) -> tuple[str, ...]:
    """Return the paths of the fields that were not read and have to be reported, without repeats.

    Call it last. Raises `DefinitionError` for a field that must not be left out.
    """
    reads = root.reads
    if reads is None:
        return ()
    extension = root[KEY]
    if isinstance(extension.value, dict):
        for name in _EXTENSION_FIELDS:
            _ = extension[name]
    found: dict[str, None] = {}
    for path, exact_path, value in reads.unread():
        anywhere = f"*.{path.rpartition('.')[2]}"
        if path in table.harmless or anywhere in table.harmless:
            continue
        names = (path, anywhere)
        is_neutral = next((table.neutral[name] for name in names if name in table.neutral), None)
        if is_neutral is not None and is_neutral(value):
            continue
        hint = next((table.refused[name] for name in names if name in table.refused), None)
        if hint is not None:
            raise Field(value, exact_path).refusal("is not supported, and cannot be left out in silence", hint)
        found[_shown(path)] = None
    found |= {_shown(path): None for path in reads.left_out}
    paths = tuple(found)
    if len(paths) <= _MAX_PATHS:
        return paths
    return (*paths[: _MAX_PATHS - 1], f"{len(paths) - _MAX_PATHS + 1}-more")


def metric_label(path: str) -> str:
    """The path if it is one of ours, else "other": what clients invent is neither counted by name nor logged."""
    path = path.partition("=")[0]
    return path if path in _NAMED else OTHER


def _shown(path: str) -> str:
    return path if len(path) <= _MAX_LENGTH and _PLAIN.issuperset(path) else OTHER


def _equals(*values: object) -> Callable[[object], bool]:
    return lambda value: any(value == one for one in values)


def _allows_direct_calls(value: object) -> bool:
    return isinstance(value, list) and "direct" in cast("list[object]", value)


def _is_zero(value: object) -> bool:
    return value == 0


_CALLERS = 'Leave the tool out, or add "direct" to it: the model here can only call a tool directly.'
_SERVERS = "Leave it out: a request may not name servers; the tools of the gateway's own servers are on offer."
_FILTERS = "Leave it out: the tool of the gateway that does this search cannot be restricted by a request."
_READ_LATER = "it is read where the answer is encoded"
_CACHE = "it only says what a provider may cache"
_LABEL = "it only labels the request for its sender"
_PRIVACY = "it is about what a provider keeps"
_STRICT = "every call fits its schema, with it and without"
_COMMON_HARMLESS = {
    "stream": _READ_LATER,
    "stream_options": _READ_LATER,
    "metadata": _LABEL,
    "user": _LABEL,
    "safety_identifier": _LABEL,
    "client_metadata": _LABEL,
    "service_tier": "it only chooses a price",
    "*.cache_control": _CACHE,
    "prompt_cache_key": _CACHE,
    "prompt_cache_retention": _CACHE,
    "prompt_cache_options": _CACHE,
}
_TOOL_REPORTED = {
    "defer_loading": "to hide the tool until a search finds it",
    "input_examples": "to show the model examples of calls",
    "output_schema": "to tell the model what the tool returns",
    "async": "to let the model write more before the result",
}


def _tools(prefix: str) -> dict[str, str]:
    return {f"{prefix}.{name}": effect for name, effect in _TOOL_REPORTED.items()}


_TOOL_NEUTRAL: dict[str, Callable[[object], bool]] = {
    "*.allowed_callers": _allows_direct_calls,
    "*.defer_loading": _equals(False),
    "*.input_examples": _equals([]),
    "*.async": _equals(False),
}

CHAT = FieldTable(
    harmless={
        **_COMMON_HARMLESS,
        "store": _PRIVACY,
        "function_call": "it belongs to functions, and there are none",
        "tools[].strict": _STRICT,
        "tools[].function.strict": _STRICT,
        "functions[].strict": _STRICT,
        "response_format.json_schema.name": "it only labels the schema",
        "response_format.json_schema.strict": "an answer with a schema fits it, with it and without",
        "messages[].tool_calls[].index": "the order of the list says it",
        "messages[].annotations": "it is about what the client shows",
    },
    reported={
        **_tools("tools[]"),
        **_tools("tools[].function"),
        "reasoning_effort": "how much the model thinks",
        "verbosity": "how long answers are",
        "logit_bias": "which tokens are likelier",
        "logprobs": "the probabilities of tokens",
        "top_logprobs": "the probabilities of other tokens",
        "frequency_penalty": "fewer repeats",
        "presence_penalty": "more new words",
        "prediction": "a faster answer, from text that is expected",
        "web_search_options": "a search by the provider",
        "moderation": "a moderation by the provider",
        "response_format.json_schema.description": "what the schema is for",
        "messages[].name": "who of several users speaks",
        "messages[].audio": "an earlier answer as sound",
        "messages[].refusal": "an earlier refusal",
        "ferrule": "an unknown field of the extension",
    },
    refused={
        "*.allowed_callers": _CALLERS,
        "modalities": 'Leave it out, or send ["text"]: answers are text.',
    },
    neutral={
        **_TOOL_NEUTRAL,
        "modalities": _equals(["text"], []),
        "logprobs": _equals(False),
        "top_logprobs": _is_zero,
        "logit_bias": _equals({}),
        "frequency_penalty": _is_zero,
        "presence_penalty": _is_zero,
        "messages[].refusal": _equals(""),
        "functions": _equals([]),
    },
)

RESPONSES = FieldTable(
    harmless={
        **_COMMON_HARMLESS,
        "tools[].strict": _STRICT,
        "tools[].tools[].strict": _STRICT,
        "input[].tools[].strict": _STRICT,
        "input[].tools[].tools[].strict": _STRICT,
        "input[].name": "results are matched by call_id",
        "input[].namespace": "results are matched by call_id",
        "text.format.name": "it only labels the schema",
        "text.format.strict": "an answer with a schema fits it, with it and without",
        "input[].id": "items are matched by their place and by call_id",
        "input[].status": "what is in the history has ended",
        "input[].encrypted_content": "only the provider that made it can read it",
        "input[].content[].annotations": "it is about what the client shows",
        "input[].content[].logprobs": "it is about what the client shows",
        "input[].summary": "the text itself is read",
        "reasoning.summary": "reasoning is sent as it is, which is more than a summary",
        "reasoning.generate_summary": "reasoning is sent as it is, which is more than a summary",
        "background": "it is read where the answer is begun",
        "store": "it is read where the answer is begun",
        "previous_response_id": "it is read where the answer is begun",
    },
    reported={
        **_tools("tools[]"),
        **_tools("tools[].tools[]"),
        **_tools("input[].tools[]"),
        **_tools("input[].tools[].tools[]"),
        "tools[]": "a tool that the provider runs",
        "tools[].external_web_access": "whether a search may read more than stored pages",
        "tools[].search_content_types": "what a search looks for",
        "tools[].search_context_size": "how much a search returns",
        "tools[].user_location": "where the user is",
        "input[].tools[]": "a tool that the provider runs",
        "reasoning.effort": "how much the model thinks",
        "reasoning.context": "which reasoning of earlier turns counts",
        "text.verbosity": "how long answers are",
        "text.format.description": "what the schema is for",
        "include[]": "more data in the answer",
        "top_logprobs": "the probabilities of other tokens",
        "context_management": "to shorten a long conversation",
        "moderation": "a moderation by the provider",
        "input[].phase": "which part of an answer the text is",
        "ferrule": "an unknown field of the extension",
    },
    refused={"*.allowed_callers": _CALLERS, "tools[].filters": _FILTERS},
    neutral={**_TOOL_NEUTRAL, "top_logprobs": _is_zero, "context_management": _equals([])},
)

MESSAGES = FieldTable(
    harmless={
        **_COMMON_HARMLESS,
        "*.citations": "it is about what the client shows",
        "tools[].strict": _STRICT,
        "tools[].eager_input_streaming": "arguments are sent as soon as they are safe to send",
        "system[].type": "it can only be text",
        "thinking.display": "reasoning is sent as it is",
        "inference_geo": "it is about where a provider computes",
        "speed": "it only chooses a price",
    },
    reported={
        **_tools("tools[]"),
        "thinking": "whether and how much the model thinks",
        "output_config.effort": "how much the model thinks",
        "output_config.task_budget": "how much a whole task may cost",
        "context_management": "to leave parts of the history out",
        "container": "a place where the provider runs code",
        "compaction": "to shorten a long conversation",
        "thread": "a conversation that the provider keeps",
        "messages[].content[].caller": "who made an earlier call",
        "ferrule": "an unknown field of the extension",
    },
    refused={
        "*.allowed_callers": _CALLERS,
        "mcp_servers": _SERVERS,
        "output_format": "Send the schema in output_config.format.",
    },
    neutral={
        **_TOOL_NEUTRAL,
        "mcp_servers": _equals([]),
        "context_management": _equals(
            {}, {"edits": []}, {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        ),
        "messages[].content[].caller": _equals({"type": "direct"}),
    },
)

COMPLETIONS = FieldTable(harmless=_COMMON_HARMLESS, reported={})
EMBEDDINGS = FieldTable(harmless=_COMMON_HARMLESS, reported={})

TABLES: Mapping[str, FieldTable] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "messages": MESSAGES,
    "completions": COMPLETIONS,
    "embeddings": EMBEDDINGS,
}
_NAMED = frozenset(path for table in TABLES.values() for path in table.reported)
