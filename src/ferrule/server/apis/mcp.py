"""`/mcp`: the gateway as an MCP server over streamable HTTP, without sessions, for clients of both protocol eras.

Its tools are governed like those of `/v1/tools/call`. One that needs leave is answered by an error that names the
approval; a client of the newer era that can ask its user, with a key that may give leave, is asked to.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

from ferrule.core.call import ToolResult
from ferrule.core.context import DEFAULT_HOPS, Progress
from ferrule.core.json_text import digest, dumps, loads
from ferrule.dialects.mcp_server import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REFUSED,
    Call,
    Fault,
    Note,
    fault,
    progress,
    read,
    result,
)
from ferrule.dialects.sse import encode
from ferrule.errors import AuthorityError, FerruleError
from ferrule.server.apis.mcp_bodies import answer_in, called, discovered, initialized, listed, question, waits
from ferrule.server.apis.mcp_call_identity import place_again
from ferrule.server.apis.tools import HOPS, hops_in
from ferrule.server.gateway import Gateway
from ferrule.server.http import EVENTS, Answer, Asked, Route, Streamed, Whole
from ferrule.server.tools.approval_decision import Word, decided
from ferrule.server.tools.service import Governed, Place, Settled, Wanted

IDEMPOTENCY_KEY, META_HOPS = "ferrule.dev/idempotency-key", "ferrule.dev/hops"
_LONGEST_NAME = 200
_APPROVAL = re.compile("[0-9a-f]{1,64}")
_KEEP_ALIVE = b": keep-alive\n\n"
Reply = dict[str, Any] | Fault


def routes(gateway: Gateway) -> list[Route]:
    server = _Server(gateway, Governed(gateway))

    async def closed(asked: Asked) -> Answer:
        # There are no sessions, so there is nothing to listen to and nothing to end.
        told = Fault(REFUSED, "this server has no sessions: every message is a POST")
        return Whole.of(told.as_dict(), 405, {"allow": "POST"})

    return [
        Route("POST", "/mcp", server.answer, "tools", shape),
        Route("GET", "/mcp", closed, "tools", shape),
        Route("DELETE", "/mcp", closed, "tools", shape),
    ]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    words = f"{error.message} {error.hint}".strip()
    return Fault(REFUSED, words, data={"code": error.code, "request_id": request_id}).as_dict()


class _Server:
    def __init__(self, gateway: Gateway, governed: Governed) -> None:
        self._gateway = gateway
        self._governed = governed

    async def answer(self, asked: Asked) -> Answer:
        call = read(asked.body, asked.headers)
        if isinstance(call, Note):
            return Whole(status=202)
        if isinstance(call, Fault):
            return _sent(call)
        if call.method == "tools/call" and call.progress_token is not None and _takes_events(asked):
            pieces, patience = self._with_progress(asked, call), self._gateway.config.limits.keep_alive_seconds
            return Streamed(pieces, keep_alive=_KEEP_ALIVE, keep_alive_seconds=patience)
        return _sent(await self._reply(asked, call, lambda progress: None))

    async def _reply(self, asked: Asked, call: Call, tell: Callable[[Progress], None]) -> Reply:
        match call.method, call.is_modern:
            case "initialize", False:
                return result(call, initialized(call))
            case "ping", False:
                return result(call, {})
            case "server/discover", True:
                return result(call, discovered())
            case "tools/list", _:
                cursor = call.params.get("cursor", "")
                if not isinstance(cursor, str):
                    return fault(call, INVALID_PARAMS, "params.cursor must be a string")
                return result(call, listed(call, self._gateway.toolbox.offered(asked.principal), cursor))
            case "tools/call", _:
                return await self._called(asked, call, tell)
            case method, _:
                return fault(call, METHOD_NOT_FOUND, f"there is no method {method[:80]!r} here")

    async def _called(self, asked: Asked, call: Call, tell: Callable[[Progress], None]) -> Reply:
        name, arguments = call.params.get("name"), call.params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            return fault(call, INVALID_PARAMS, "params.name must be a string, and params.arguments an object")
        try:
            wanted = Wanted(
                name=name,
                arguments=_text(cast("object", arguments) or {}),
                principal=asked.principal,
                call_id=_key(call),
                hops=_hops(asked, call),
                tell=tell,
            )
            return await self._governed_call(asked, call, wanted)
        except FerruleError as refusal:
            # A model reads it and can correct itself; an error of the protocol would end its turn.
            told = ToolResult("", name, f"{refusal.code}: {refusal.message}", is_error=True)
            return result(call, called(call, told, refusal.code))

    async def _governed_call(self, asked: Asked, call: Call, wanted: Wanted) -> Reply:
        approval, said = answer_in(call)
        place = await self._answered(asked, wanted, approval, said) if approval else None
        place = place or await self._again(wanted)
        settled = await self._governed.call(wanted, place)
        if isinstance(settled, Settled):
            code = settled.outcome.code if settled.result.is_error else ""
            return result(call, called(call, settled.result, code))
        if call.takes_forms and "approve" in asked.rights and not approval:
            return result(call, question(settled.approval), "input_required")
        return result(call, waits(call, settled.approval))

    async def _answered(self, asked: Asked, wanted: Wanted, id: str, said: bool | None) -> Place | None:
        """Writes down what the client's user said. What the client sends back is believed no more than its key is."""
        approval = await self._gateway.ledger.approval(id) if _APPROVAL.fullmatch(id) else None
        whose = (asked.principal.tenant, asked.principal.name)
        tool = self._governed.tool(wanted.name, wanted.principal)
        if approval is None or (approval.tenant, approval.principal, approval.tool) != (*whose, tool.name):
            return None
        if said is not None:
            if "approve" not in asked.rights:
                raise AuthorityError(f"{asked.principal.name} may not give leave")
            await decided(self._gateway, approval, asked.principal.name, Word(said))
        return Place(approval.conversation, approval.call_id)

    async def _again(self, wanted: Wanted) -> Place | None:
        """Where calls need leave and have no name, what is asked again is the same call for as long as it waits."""
        tool = self._governed.tool(wanted.name, wanted.principal)
        needs_leave = tool.side_effects and self._gateway.config.tools.tools_require_confirmation_for_side_effects
        if wanted.call_id or not needs_leave:
            return None
        return await place_again(self._gateway.ledger, wanted.principal, tool.name, loads(wanted.arguments))

    async def _with_progress(self, asked: Asked, call: Call) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Progress | None] = asyncio.Queue()

        def tell(one: Progress) -> None:
            # A tool may be running in a thread.
            loop.call_soon_threadsafe(told.put_nowait, one)

        work = asyncio.ensure_future(self._reply(asked, call, tell))
        work.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (one := await told.get()) is not None:
                assert call.progress_token is not None
                yield encode(dumps(progress(call.progress_token, one.done, one.total, one.message)))
            reply = work.result()
            yield encode(dumps(reply.as_dict() if isinstance(reply, Fault) else reply))
        finally:
            work.cancel()


def _sent(reply: Reply) -> Whole:
    return Whole.of(reply.as_dict(), reply.status) if isinstance(reply, Fault) else Whole.of(reply)


def _text(arguments: object) -> str:
    try:
        return dumps(arguments)
    except (ValueError, RecursionError):
        # A number that no JSON has: the checker says so in its own words.
        return "nothing that is JSON"


def _key(call: Call) -> str:
    """What the client knows its call again by; one that is too long to be a name, by its hash."""
    given = call.meta.get(IDEMPOTENCY_KEY)
    if not isinstance(given, str) or not given:
        return ""
    return given if len(given) <= _LONGEST_NAME and given.isprintable() else digest(given)


def _hops(asked: Asked, call: Call) -> int:
    inside = call.meta.get(META_HOPS, DEFAULT_HOPS)
    held = inside if isinstance(inside, int) and not isinstance(inside, bool) else 0
    return min(max(held, 0), hops_in(asked.headers.get(HOPS)))


def _takes_events(asked: Asked) -> bool:
    accepted = asked.headers.get("accept", "")
    return EVENTS in accepted or "*/*" in accepted
