"""`/v1/responses`: the gateway for clients of OpenAI's Responses API.

A stored response continues even if its client disconnects. Only its owner can fetch, stream, cancel and delete it. With
`store: false` a response lives as long as its connection.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ferrule.core.boolean_text import parse_boolean
from ferrule.core.context import Principal
from ferrule.core.event import FinishReason
from ferrule.core.json_text import dumps
from ferrule.core.reply import ReplyFold
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.field import Field
from ferrule.dialects.openai_error import error_body
from ferrule.dialects.openai_responses.compaction import compaction_body, compaction_request
from ferrule.dialects.openai_responses.request_decoder import read_responses_request
from ferrule.dialects.openai_responses.response_body import count_body
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.openai_responses.stored_response import deleted_body, error_event, input_items_body, response_body
from ferrule.dialects.sse import DONE, encode_json_text
from ferrule.errors import ApprovalError, DefinitionError, EngineError, FerruleError, NotFoundError
from ferrule.run.events import LoopEnded
from ferrule.run.ledger.ledger import ResponseRecord, ResponseStatus
from ferrule.server.answer.claim import claim_answer, has_effects
from ferrule.server.answer.plan import ToolOwner, Turn, new_conversation_id
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.answer.stream import AnswerStream, loop_headers
from ferrule.server.apis.responses.codec import (
    KEEP_ALIVE,
    encode_event,
    instruction_messages,
    is_last_event,
    media_header,
    new_loop_encoder,
    receipts_header,
)
from ferrule.server.apis.responses.direct import answer_directly
from ferrule.server.apis.responses.plan import ResponsePlan, conflict, plan_response, take_lease
from ferrule.server.apis.responses.run import ResponseRun
from ferrule.server.apis.responses.store import ResponseStore, new_record, parse_events
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route, StreamingResponse

_FIRST_OUTPUT_SECONDS = 10.0
"""How long to wait for the first output before the HTTP status is sent. Later errors come inside the answer."""
_MAX_DIGITS = 15


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of a running gateway, and start to take over abandoned responses until the gateway stops."""
    responses = ResponseStore(gateway)
    responses.open()
    gateway.shutdown_callbacks.append(responses.close)
    handlers = {
        ("POST", ""): _create,
        ("POST", "/input_tokens"): _count,
        ("POST", "/compact"): _compact,
        ("GET", "/{id}"): _get,
        ("DELETE", "/{id}"): _delete,
        ("POST", "/{id}/cancel"): _cancel,
        ("GET", "/{id}/input_items"): _input_items,
    }

    def bind(handler: Any) -> Any:
        async def handle(http_request: Request) -> AnyResponse:
            return await handler(responses, http_request)

        return handle

    return [
        Route(method, f"/v1/responses{path}", bind(handler), "models", shape)
        for (method, path), handler in handlers.items()
    ]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def _create(responses: ResponseStore, http_request: Request) -> AnyResponse:
    gateway, principal = responses.gateway, http_request.principal
    hosts = responses.labels.hosts(principal)
    body, responses_request = await http_request.read(lambda body: read_responses_request(body, hosts))
    request = gateway.without_missing_search(gateway.sort_options(responses_request.request))
    responses_request = replace(responses_request, request=request)
    gateway.telemetry.record_ignored(responses_request.request.ignored)
    id = f"resp_{secrets.token_hex(16)}"
    engine = gateway.engine(responses_request.request.model, principal)
    plan = await plan_response(gateway, http_request, responses_request, body, id)
    model = responses_request.request.model or engine.model
    model_request = _model_request(responses_request, plan)
    await gateway.request_limits.check(model_request, gateway.may_defer(model_request))
    if not responses_request.store:
        return await answer_directly(responses, http_request, responses_request, plan, body, id=id, model=model)
    id, is_new = await _claim(responses, http_request, plan, body, id)
    if is_new:
        if responses_request.background:
            responses.check_capacity(principal)
        run = await _begin(responses, responses_request, plan, principal, id=id, model=model)
        if not responses_request.background:
            await _wait_for_output(run)
    headers = loop_headers(gateway, plan.resume_record.tool_owner, _model_request(responses_request, plan))
    if responses_request.stream:
        own_run = responses.run(id)
        answer_headers = own_run.answer.headers if own_run and own_run.answer else dict[str, str]()
        return replace(_follow(responses, id, -1), headers={**headers, **answer_headers})
    if not responses_request.background:
        await _wait_for_end(responses, id)
    response = await _response(responses, id)
    return replace(response, headers={**response.headers, **headers})


async def _claim(
    responses: ResponseStore, http_request: Request, plan: ResponsePlan, body: dict[str, Any], id: str
) -> tuple[str, bool]:
    """Return the id of the response to a request, and whether this request is the one that begins it.

    A retry gets the response of the first attempt, finished or not. If that one failed before any effect, it is
    replaced by a new one.
    """
    gateway, principal = responses.gateway, http_request.principal
    claimed_id = await claim_answer(gateway, http_request, body, plan.resume_record, id)
    if claimed_id is None or claimed_id == id:
        return id, True
    record = await gateway.ledger.response(claimed_id, principal)
    if record is None:
        # The process that claimed it has not begun yet, or has died. Only one of both can begin it.
        return claimed_id, True
    if record.status is not ResponseStatus.FAILED or await has_effects(gateway.ledger, record.conversation):
        return claimed_id, False
    if await gateway.ledger.move_request(claimed_id, id):
        return id, True
    return await _claim(responses, http_request, plan, body, id)


async def _begin(
    responses: ResponseStore,
    responses_request: ResponsesRequest,
    plan: ResponsePlan,
    principal: Principal,
    *,
    id: str,
    model: str,
) -> ResponseRun:
    lease = await take_lease(responses.gateway, plan, principal)
    try:
        resume_record = replace(plan.resume_record, epoch=lease.record.epoch)
        encoder = new_loop_encoder(
            responses_request, resume_record, responses.labels.hosts(principal), id=id, model=model
        )
        record = new_record(
            id, lease.record.id, principal, resume_record, model, is_queued=responses_request.background
        )
        first_events = encoder.encoder.queue() if responses_request.background else encoder.begin()
        return await responses.begin(
            record, resume_record, principal, lease, encoder, first_events, state=plan.state, verdicts=plan.verdicts
        )
    except ApprovalError as refusal:
        await lease.release()
        raise conflict(refusal) from refusal
    except FerruleError:
        await lease.release()
        raise


async def _wait_for_output(run: ResponseRun) -> None:
    """Wait for the first output. An error before it is raised, so that the client gets its HTTP status."""
    deadline = time.monotonic() + _FIRST_OUTPUT_SECONDS
    while not run.loop_encoder.has_output and not run.event_log.is_over and time.monotonic() < deadline:
        await run.event_log.wait_for_events(deadline - time.monotonic())
    if run.error is not None and not run.loop_encoder.has_output:
        raise run.error


async def _get(responses: ResponseStore, http_request: Request) -> AnyResponse:
    record = await _find(responses, http_request)
    query = Field(dict(http_request.query))
    if not query["stream"].or_else(_boolean_parameter, False):
        return await _response(responses, record.id)
    after = http_request.query.get("starting_after", "-1")
    if not after.removeprefix("-").isdecimal() or not after.isascii() or len(after) > _MAX_DIGITS:
        raise DefinitionError(
            "starting_after: it is not a number", hint="Send the last sequence_number that you received."
        )
    return _follow(responses, record.id, max(-1, int(after)))


def _boolean_parameter(field: Field) -> bool:
    try:
        return parse_boolean(field.string())
    except ValueError:
        raise field.refusal(f"unknown value {field.string()[:60]!r}", "Use true or false.") from None


async def _delete(responses: ResponseStore, http_request: Request) -> AnyResponse:
    id = http_request.params["id"]
    if not await responses.gateway.ledger.delete_response(id, http_request.principal, now=time.time()):
        raise _missing(id)
    return Response.json(deleted_body(id))


async def _cancel(responses: ResponseStore, http_request: Request) -> AnyResponse:
    id = http_request.params["id"]
    record = await responses.gateway.ledger.cancel_response(id, http_request.principal, now=time.time())
    if record is None:
        raise _missing(id)
    run = responses.run(id)
    if run is not None and not record.is_ended:
        run.event_log.cancel_requested.set()
    try:
        # If another process runs it, that process notices within a fraction of the lease.
        async with asyncio.timeout(responses.gateway.config.lease_seconds):
            await _wait_for_end(responses, id)
    except TimeoutError:
        pass
    return await _response(responses, id)


async def _input_items(responses: ResponseStore, http_request: Request) -> AnyResponse:
    record = await _find(responses, http_request)
    return Response.json(input_items_body(ResumeRecord.from_json(record.request).input, http_request.query))


async def _count(responses: ResponseStore, http_request: Request) -> AnyResponse:
    gateway, principal = responses.gateway, http_request.principal
    hosts = responses.labels.hosts(principal)
    body, responses_request = await http_request.read(lambda body: read_responses_request(body, hosts))
    plan = await plan_response(gateway, http_request, responses_request, body, "count")
    request = _model_request(responses_request, plan)
    if plan.resume_record.tool_owner is ToolOwner.GATEWAY:
        own_tools = gateway.tool_catalog.tools_for(principal, plan.resume_record.tool_names)
        request = replace(request, tools=(*own_tools, *request.tools))
    return Response.json(count_body(await gateway.count_tokens(request, principal)))


async def _compact(responses: ResponseStore, http_request: Request) -> AnyResponse:
    """Return the conversation as its user messages and a summary that the model writes. Nothing is stored."""
    gateway, principal = responses.gateway, http_request.principal
    hosts = responses.labels.hosts(principal)
    body, responses_request = await http_request.read(lambda body: read_responses_request(body, hosts))
    responses_request = replace(responses_request, request=gateway.sort_options(responses_request.request))
    gateway.telemetry.record_ignored(responses_request.request.ignored)
    if responses_request.approvals:
        raise DefinitionError("input: no call waits for approval here", hint="Leave out mcp_approval_response.")
    plan = await plan_response(gateway, http_request, responses_request, body, "compact")
    request = compaction_request(_model_request(responses_request, plan))
    await gateway.request_limits.check(request, gateway.may_defer(request))
    # The tools stay in the prompt, as in the requests before, but none may be called.
    owner = ToolOwner.CALLER if request.tools else ToolOwner.NOBODY
    turn = Turn(request=request, principal=principal, tool_owner=owner, conversation=new_conversation_id())
    folding = ReplyFold()
    async with aclosing(AnswerStream(gateway, turn)) as events:
        async for event in events:
            if not isinstance(event, LoopEnded):
                folding.add(event)  # pyright: ignore[reportArgumentType]  # without a loop there is nothing else
    reply = folding.reply()
    if not reply.text.strip() or reply.finish_reason is FinishReason.LENGTH:
        raise EngineError("the model wrote no whole summary", hint="Raise max_output_tokens, or send less.")
    id = f"resp_{secrets.token_hex(16)}"
    return Response.json(compaction_body(id, int(time.time()), plan.messages or (), reply.text, reply.usage))


def _model_request(responses_request: ResponsesRequest, plan: ResponsePlan) -> ToolCallRequest:
    """Return the first request to the model."""
    return replace(
        responses_request.request, messages=(*instruction_messages(responses_request), *(plan.messages or ()))
    )


async def _find(responses: ResponseStore, http_request: Request) -> ResponseRecord:
    record = await responses.gateway.ledger.response(http_request.params["id"], http_request.principal)
    if record is None:
        raise _missing(http_request.params["id"])
    return record


def _missing(id: str) -> NotFoundError:
    return NotFoundError(
        f"there is no response {id[:60]!r}", code="response_not_found", hint="Use the id that create returned."
    )


async def _wait_for_end(responses: ResponseStore, id: str) -> None:
    async with aclosing(responses.follow(id)) as batches:
        async for _ in batches:
            pass


async def _response(responses: ResponseStore, id: str) -> Response:
    run = responses.run(id)
    events = run.event_log.events if run else await responses.all_events(id)
    body = response_body(parse_events(events))
    return Response.json(body, headers={**receipts_header(body), **media_header(body)})


def _follow(responses: ResponseStore, id: str, after: int) -> StreamingResponse:
    pause = responses.gateway.config.limits.keep_alive_seconds
    return StreamingResponse(_pieces(responses, id, after), keep_alive=KEEP_ALIVE, keep_alive_seconds=pause)


async def _pieces(responses: ResponseStore, id: str, after: int) -> AsyncGenerator[bytes, None]:
    last_event = ""
    try:
        async with aclosing(responses.follow(id, after)) as batches:
            async for batch in batches:
                after += len(batch)
                last_event = batch[-1]
                yield b"".join(map(encode_event, batch))
        # A response that was deleted meanwhile has no last event: its stream must not look whole.
        if is_last_event(last_event) if last_event else await responses.gateway.ledger.response(id) is not None:
            yield DONE
    except FerruleError as error:
        # The response itself continues; only this stream has failed.
        event = error_event(error, after + 1)
        yield encode_json_text(dumps(event), event["type"])
