"""Claim a request, so that a retry joins its answer instead of beginning a second one.

A client retries when it got no answer, or an error that it may retry, and cannot know whether a tool has run by then.
Requests that may begin an effect are therefore stored in the ledger before anything else happens, and a retry is
answered by the same conversation:

| the conversation | the retry |
|---|---|
| runs, here or in another process | waits until it ends, or takes over when its lease expires |
| has ended | gets the same answer |
| was interrupted, or waits for approval | resumes it |

Clients say that they retry in one of two ways. `Idempotency-Key` (IETF draft 07, quoted or bare) is sent by programs
that choose a key; it also works for requests without tools. A counter is sent by the SDKs of OpenAI and Anthropic and
by Envoy; requests with the same body belong together then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.errors import DefinitionError
from ferrule.run.ledger.claim import canonical_bytes, sha256
from ferrule.run.ledger.ledger import CallState, Ledger, StoredRequest
from ferrule.server.answer.plan import ToolOwner, Turn
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.gateway import Gateway
from ferrule.server.http import SMALL_BODY_BYTES, Request
from ferrule.server.tools.service import CallKey

_KEY = "idempotency-key"
_MAX_KEY_LENGTH = 255
_MAX_DIGITS = 9
# The header, and its value in a first attempt.
_COUNTERS: Mapping[str, int] = {"x-stainless-retry-count": 0, "x-envoy-attempt-count": 1}


async def claim_turn(gateway: Gateway, http_request: Request, body: Mapping[str, Any], turn: Turn) -> Turn:
    """Store the request of a turn if it may begin an effect or has a key. A retry gets the earlier conversation.

    A request that resumes a conversation gets the tools, the choice and the limits of the request that began it.
    """
    if turn.resumes:
        return await _with_first_request(gateway, turn)
    request = await _request_of(gateway, http_request, body, _record_of(turn), turn.conversation)
    if request is None:
        return turn
    is_retry = _is_retry(http_request.headers)
    if turn.tool_owner is ToolOwner.GATEWAY and not request.idempotency_key and not is_retry:
        # It repeats no other request: its conversation is new, and is opened before anything else happens.
        return replace(turn, is_claimed=True, new_request=request)
    stored = await gateway.ledger.claim_request(request, is_retry=is_retry, now=time.time())
    return replace(claimed(turn, http_request, stored.answer), is_repeat=stored.answer != turn.conversation)


def claimed(turn: Turn, http_request: Request, answer: str) -> Turn:
    """Return a turn whose request is stored: its answer is this conversation."""
    return replace(turn, conversation=answer, is_claimed=True, is_keyed=bool(_read_key(http_request.headers)))


async def store_turn(gateway: Gateway, turn: Turn, api: str) -> Turn:
    """Store the request of a turn that cannot be retried, so that it can be resumed. One that resumes gets the first's.

    A turn on a WebSocket is continued by its own means; what is stored is for the time after its connection is lost.
    """
    if turn.resumes:
        first = await _with_first_request(gateway, turn)
        return replace(first, request=replace(first.request, shows_wire=turn.request.shows_wire))
    principal, record = turn.principal, _record_of(turn)
    if _may_have_effects(gateway, principal, record):
        request = StoredRequest(
            *(turn.conversation, principal.tenant, principal.name, api, "", "", 0.0, dumps(record.as_json()))
        )
        return replace(turn, new_request=request)
    return turn


async def claim_answer(
    gateway: Gateway, http_request: Request, body: Mapping[str, Any], record: ResumeRecord, answer: str
) -> str | None:
    """Store a request. Returns the id of its answer: `answer`, or that of the first attempt. None if not needed."""
    request = await _request_of(gateway, http_request, body, record, answer)
    if request is None:
        return None
    is_retry = _is_retry(http_request.headers)
    return (await gateway.ledger.claim_request(request, is_retry=is_retry, now=time.time())).answer


async def has_effects(ledger: Ledger, conversation: str) -> bool:
    """Whether a call with side effects was recorded in a conversation: it may have run, or wait for approval."""
    calls = await ledger.calls(conversation)
    return any(call.side_effects and call.state is not CallState.REFUSED for call in calls)


async def _request_of(
    gateway: Gateway, http_request: Request, body: Mapping[str, Any], record: ResumeRecord, answer: str
) -> StoredRequest | None:
    """Return what is stored of a request. None if it has no key and begins no effect."""
    key, principal = _read_key(http_request.headers), http_request.principal
    if not key and not _may_have_effects(gateway, principal, record):
        return None
    return StoredRequest(
        *(answer, principal.tenant, principal.name, http_request.path),
        *(await _body_sha256(http_request, body), key, 0.0, dumps(record.as_json())),
    )


def _record_of(turn: Turn) -> ResumeRecord:
    return ResumeRecord(
        request=replace(turn.request, messages=()),
        tool_owner=turn.tool_owner,
        tool_names=turn.tool_names,
        scopes=turn.principal.scopes,
    )


async def _with_first_request(gateway: Gateway, turn: Turn) -> Turn:
    # No database stores NUL in text, and the task of an MCP client is a single call, and no turn.
    if not turn.resumes.isprintable() or turn.resumes.startswith(CallKey.PREFIX):
        return turn
    # No conversation of another principal may be resumed: that is checked later.
    stored = await gateway.ledger.stored_request(turn.resumes)
    if stored is None or (stored.tenant, stored.principal) != (turn.principal.tenant, turn.principal.name):
        return turn
    record = ResumeRecord.from_json(stored.request)
    names = record.tool_names if turn.tool_names is None else turn.tool_names
    return replace(turn, request=record.request, tool_names=names)


def _may_have_effects(gateway: Gateway, principal: Principal, record: ResumeRecord) -> bool:
    if record.tool_owner is not ToolOwner.GATEWAY:
        return False
    policy = gateway.tool_catalog.approval_policy
    return any(
        tool.side_effects or tool.name in record.approval_required or policy.may_require(tool.name, side_effects=False)
        for tool in gateway.tool_catalog.tools_for(principal, record.tool_names)
    )


async def _body_sha256(http_request: Request, body: Mapping[str, Any]) -> str:
    try:
        if len(http_request.body) <= SMALL_BODY_BYTES:
            return sha256(canonical_bytes(body))
        return await asyncio.to_thread(lambda: sha256(canonical_bytes(body)))
    except ValueError as error:
        # In a field that nobody reads.
        raise DefinitionError("the request body contains a number that is too large", hint="Send less.") from error


def _is_retry(headers: Mapping[str, str]) -> bool:
    values = ((headers.get(name, ""), first) for name, first in _COUNTERS.items())
    return any(
        value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS and int(value) > first
        for value, first in values
    )


def _read_key(headers: Mapping[str, str]) -> str:
    value = headers.get(_KEY)
    if value is None:
        return ""
    # The draft has a string of a structured field, in quotes; most clients send the bare value.
    is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
    key = value[1:-1] if is_quoted else value
    if not 0 < len(key) <= _MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise DefinitionError(
            "Idempotency-Key: not a valid key",
            hint=f"Send 1 to {_MAX_KEY_LENGTH} printable ASCII characters, for instance a UUID.",
        )
    return key
