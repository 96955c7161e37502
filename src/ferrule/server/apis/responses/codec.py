"""How responses are put into bytes, and by which encoder. Shared by those that are kept and those that are not."""

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
from ferrule.dialects.openai_responses.responses_request import ResponsesAsk
from ferrule.dialects.sse import encode
from ferrule.server.answer.headers import RECEIPTS
from ferrule.server.apis.responses.labels import hosted_in
from ferrule.server.apis.responses.loop_events import Speech
from ferrule.server.apis.responses.resume_record import Plan

KEEP_ALIVE = b": keep-alive\n\n"


def speech_of(ask: ResponsesAsk, plan: Plan, hosts: Hosts, *, id: str, model: str) -> Speech:
    """Of a response that begins now."""
    hosted = hosted_in(plan, hosts)
    head = head_of(id=id, model=model, created=int(time.time()), request=ask.request, ask=ask)
    return Speech(HostedEncoder(head, hosted), plan, hosted)


def said(told: str) -> bytes:
    """An event, as it is kept, for a stream."""
    return encode(told, cast("dict[str, Any]", loads(told))["type"])


def instructed(ask: ResponsesAsk) -> tuple[ChatMessage, ...]:
    return () if ask.instructions is None else (ChatMessage.system(ask.instructions),)


def receipts_header(body: Mapping[str, Any]) -> dict[str, str]:
    """How each call was guaranteed, for who cannot read the extension."""
    receipts = mapping(mapping(body.get(KEY)).get("receipts"))
    told = [f"{id}={mapping(receipt).get('how')}" for id, receipt in receipts.items()]
    return {RECEIPTS: ", ".join(told)} if told else {}
