"""`/v1/responses`: the gateway for clients of OpenAI's Responses API.

What is stored is worked on whether or not its client stays, and can be fetched, followed, cancelled and deleted by its
owner alone. With `store: false` an answer lives as long as its connection.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.field import Field
from ferrule.dialects.openai_error import error_body
from ferrule.dialects.openai_responses.request_decoder import read_ask
from ferrule.dialects.openai_responses.response_body import count_body
from ferrule.dialects.openai_responses.responses_request import ResponsesAsk
from ferrule.dialects.openai_responses.stored_response import deleted_body, error_event, input_items_body, response_body
from ferrule.dialects.sse import encode
from ferrule.errors import ApprovalError, DefinitionError, FerruleError, NotFoundError
from ferrule.run.ledger.ledger import ResponseRecord
from ferrule.server.answer.turn import ToolOwner
from ferrule.server.apis.responses.codec import KEEP_ALIVE, instructed, receipts_header, said, speech_of
from ferrule.server.apis.responses.direct import answered_directly
from ferrule.server.apis.responses.plan import Start, conflict, held, start_of
from ferrule.server.apis.responses.resume_record import Plan
from ferrule.server.apis.responses.run import Run
from ferrule.server.apis.responses.store import Responses, events_of, fresh_record
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Streamed, Whole

_PATIENCE = 10.0
"""How long a status is held back for the first word; after that errors come inside the answer."""
_LONGEST_NUMBER = 15
_TRUTH = {"true": True, "false": False}


def routes(gateway: Gateway) -> list[Route]:
    """Of an open gateway. From here on responses that nobody works on are taken up, until the gateway stops."""
    responses = Responses(gateway)
    responses.open()
    gateway.at_end.append(responses.close)
    handlers = {
        ("POST", ""): _create,
        ("POST", "/input_tokens"): _count,
        ("GET", "/{id}"): _get,
        ("DELETE", "/{id}"): _delete,
        ("POST", "/{id}/cancel"): _cancel,
        ("GET", "/{id}/input_items"): _input_items,
    }

    def bound(handler: Any) -> Any:
        async def handle(asked: Asked) -> Answer:
            return await handler(responses, asked)

        return handle

    return [
        Route(method, f"/v1/responses{path}", bound(handler), "models", shape)
        for (method, path), handler in handlers.items()
    ]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def _create(responses: Responses, asked: Asked) -> Answer:
    gateway, principal = responses.gateway, asked.principal
    hosts = responses.labels.hosts(principal)
    body, ask = await asked.read(lambda body: read_ask(body, hosts))
    id = f"resp_{secrets.token_hex(16)}"
    engine = gateway.engine(ask.request, principal)
    start = await start_of(gateway, asked, ask, body, id)
    model = ask.request.model or engine.model
    await gateway.admission.check(_asked_in(ask, start))
    if not ask.store:
        return await answered_directly(responses, asked, ask, start, id=id, model=model)
    if ask.background:
        responses.require_room(principal)
    run = await _begun(responses, ask, start, principal, id=id, model=model)
    if not ask.background:
        await _has_spoken(run)
    if ask.stream:
        return _followed(responses, id, -1)
    if not ask.background:
        await _ended(responses, id)
    return await _whole(responses, id)


async def _begun(
    responses: Responses, ask: ResponsesAsk, start: Start, principal: Principal, *, id: str, model: str
) -> Run:
    holding = await held(responses.gateway, start, principal)
    try:
        plan = replace(start.plan, epoch=holding.record.epoch)
        speech = speech_of(ask, plan, responses.labels.hosts(principal), id=id, model=model)
        record = fresh_record(id, holding.record.id, principal, plan, model, is_queued=ask.background)
        first = speech.encoder.queue() if ask.background else speech.begun()
        return await responses.begin(
            record, plan, principal, holding, speech, first, state=start.state, verdicts=start.verdicts
        )
    except ApprovalError as refusal:
        await holding.release()
        raise conflict(refusal) from refusal
    except FerruleError:
        await holding.release()
        raise


async def _has_spoken(run: Run) -> None:
    """What fails before a word was said fails with a status of its own, so that clients know what to do."""
    until = time.monotonic() + _PATIENCE
    while not run.speech.has_said_something and not run.telling.is_over and time.monotonic() < until:
        await run.telling.news(until - time.monotonic())
    if run.error is not None and not run.speech.has_said_something:
        raise run.error


async def _get(responses: Responses, asked: Asked) -> Answer:
    record = await _found(responses, asked)
    query = Field(dict(asked.query))
    if not query["stream"].or_else(lambda field: field.one_of(_TRUTH), False):
        return await _whole(responses, record.id)
    after = asked.query.get("starting_after", "-1")
    if not after.removeprefix("-").isdecimal() or not after.isascii() or len(after) > _LONGEST_NUMBER:
        raise DefinitionError("starting_after: it is not a number", hint="Send the last sequence_number that you had.")
    return _followed(responses, record.id, max(-1, int(after)))


async def _delete(responses: Responses, asked: Asked) -> Answer:
    id = asked.params["id"]
    if not await responses.gateway.ledger.delete_response(id, asked.principal, now=time.time()):
        raise _missing(id)
    return Whole.of(deleted_body(id))


async def _cancel(responses: Responses, asked: Asked) -> Answer:
    id = asked.params["id"]
    record = await responses.gateway.ledger.cancel_response(id, asked.principal, now=time.time())
    if record is None:
        raise _missing(id)
    run = responses.run(id)
    if run is not None and not record.is_ended:
        run.telling.cancelled.set()
    try:
        # Where another process works on it, that one reads so within a part of a lease.
        async with asyncio.timeout(responses.gateway.config.lease_seconds):
            await _ended(responses, id)
    except TimeoutError:
        pass
    return await _whole(responses, id)


async def _input_items(responses: Responses, asked: Asked) -> Answer:
    record = await _found(responses, asked)
    return Whole.of(input_items_body(Plan.from_json(record.request).input, asked.query))


async def _count(responses: Responses, asked: Asked) -> Answer:
    gateway, principal = responses.gateway, asked.principal
    hosts = responses.labels.hosts(principal)
    body, ask = await asked.read(lambda body: read_ask(body, hosts))
    start = await start_of(gateway, asked, ask, body, "count")
    counted = _asked_in(ask, start)
    if start.plan.whose is ToolOwner.GATEWAY:
        counted = replace(counted, tools=gateway.toolbox.offered(principal, start.plan.names))
    return Whole.of(count_body(await gateway.count_tokens(counted, principal)))


def _asked_in(ask: ResponsesAsk, start: Start) -> ToolCallRequest:
    """What the model is asked first."""
    return replace(ask.request, messages=(*instructed(ask), *(start.messages or ())))


async def _found(responses: Responses, asked: Asked) -> ResponseRecord:
    record = await responses.gateway.ledger.response(asked.params["id"], asked.principal)
    if record is None:
        raise _missing(asked.params["id"])
    return record


def _missing(id: str) -> NotFoundError:
    return NotFoundError(f"there is no response {id[:60]!r}", code="response_not_found", hint="See what create gave.")


async def _ended(responses: Responses, id: str) -> None:
    async with aclosing(responses.follow(id)) as batches:
        async for _ in batches:
            pass


async def _whole(responses: Responses, id: str) -> Whole:
    run = responses.run(id)
    told = run.telling.told if run else await responses.told(id)
    body = response_body(events_of(told))
    return Whole.of(body, headers=receipts_header(body))


def _followed(responses: Responses, id: str, after: int) -> Streamed:
    pause = responses.gateway.config.limits.keep_alive_seconds
    return Streamed(_pieces(responses, id, after), keep_alive=KEEP_ALIVE, keep_alive_seconds=pause)


async def _pieces(responses: Responses, id: str, after: int) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(responses.follow(id, after)) as batches:
            async for batch in batches:
                after += len(batch)
                yield b"".join(map(said, batch))
    except FerruleError as error:
        # The response itself goes on; only this reader cannot be told of it.
        event = error_event(error, after + 1)
        yield encode(dumps(event), event["type"])
