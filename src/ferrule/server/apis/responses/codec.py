"""Encoders of responses, shared by stored responses and by those that are not stored."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from ferrule.core.json_text import read_json
from ferrule.core.message import ChatMessage
from ferrule.core.named_media import MEDIA_NAMED, named_kinds
from ferrule.dialects.extension import KEY
from ferrule.dialects.lenient_json import mapping
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.hosted_tools import Hosts
from ferrule.dialects.openai_responses.response_body import head_of
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.sse import encode_json_text
from ferrule.server.answer.response import RECEIPTS
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.answer.stream import MEDIA
from ferrule.server.apis.responses.labels import hosted_tools_of
from ferrule.server.apis.responses.loop_events import LoopEventEncoder

KEEP_ALIVE = b": keep-alive\n\n"
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


def new_loop_encoder(
    responses_request: ResponsesRequest, resume_record: ResumeRecord, hosts: Hosts, *, id: str, model: str
) -> LoopEventEncoder:
    """Return the encoder of a new response."""
    hosted = hosted_tools_of(resume_record, hosts)
    head = head_of(
        id=id,
        model=model,
        created=int(time.time()),
        request=responses_request.request,
        responses_request=responses_request,
    )
    encoder = HostedEncoder(
        head,
        hosted,
        resume_record.client_tools,
        resume_record.late_tools,
        resume_record.request.tools,
        resume_record.deferred_tools,
    )
    return LoopEventEncoder(encoder, resume_record, hosted)


def encode_event(text: str) -> bytes:
    """Encode a stored event for a stream."""
    return encode_json_text(text, cast("dict[str, Any]", read_json(text))["type"])


def is_last_event(text: str) -> bool:
    """Whether a stored event ends its response."""
    return cast("dict[str, Any]", read_json(text))["type"] in _LAST_EVENTS


def instruction_messages(responses_request: ResponsesRequest) -> tuple[ChatMessage, ...]:
    return () if responses_request.instructions is None else (ChatMessage.system(responses_request.instructions),)


def receipts_header(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the header with the receipts of the calls, for clients that do not read the extension."""
    receipts = mapping(mapping(body.get(KEY)).get("receipts"))
    values = [f"{id}={mapping(receipt).get('how')}" for id, receipt in receipts.items()]
    return {RECEIPTS: ", ".join(values)} if values else {}


def media_header(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the header with the media that the model read only the names of."""
    entries = cast("list[object]", mapping(body.get(KEY)).get("diagnostics") or [])
    diagnostics = map(mapping, entries)
    named = [str(one.get("message", "")) for one in diagnostics if one.get("code") == MEDIA_NAMED]
    return {MEDIA: f"named: {named_kinds(named[-1])}"} if named else {}
