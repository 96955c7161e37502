"""Encoders of responses, shared by stored responses and by those that are not stored."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.core.message import ChatMessage
from ferrule.dialects.extension import KEY
from ferrule.dialects.lenient_json import mapping
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.hosted_tools import Hosts
from ferrule.dialects.openai_responses.response_body import head_of
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.sse import encode_json_text
from ferrule.server.answer.response import RECEIPTS
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.apis.responses.labels import hosted_tools_of
from ferrule.server.apis.responses.loop_events import LoopEventEncoder

KEEP_ALIVE = b": keep-alive\n\n"


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
    return LoopEventEncoder(HostedEncoder(head, hosted), resume_record, hosted)


def encode_event(text: str) -> bytes:
    """Encode a stored event for a stream."""
    return encode_json_text(text, cast("dict[str, Any]", loads(text))["type"])


def instruction_messages(responses_request: ResponsesRequest) -> tuple[ChatMessage, ...]:
    return () if responses_request.instructions is None else (ChatMessage.system(responses_request.instructions),)


def receipts_header(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the header with the receipts of the calls, for clients that do not read the extension."""
    receipts = mapping(mapping(body.get(KEY)).get("receipts"))
    values = [f"{id}={mapping(receipt).get('how')}" for id, receipt in receipts.items()]
    return {RECEIPTS: ", ".join(values)} if values else {}
