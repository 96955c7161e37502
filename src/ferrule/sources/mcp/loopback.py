"""Signing in to an MCP server with a browser on this machine: the redirect comes to a port on loopback (RFC 8252)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from ferrule.core.visible_text import visible
from ferrule.errors import FerruleError
from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.credentials import Credentials, CredentialStore, credential_id
from ferrule.sources.mcp.login import Person, Redirect
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.status import SourceState

Show = Callable[[str], Awaitable[None]]
_HOST, _PATH = "127.0.0.1", "/callback"
_MAX_REQUEST = 16_384
_READ_SECONDS = 10.0
_PAGE = (
    "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncache-control: no-store\r\n"
    "content-security-policy: default-src 'none'\r\nconnection: close\r\n\r\n"
    "<!doctype html><title>Ferrule</title><p>{text}</p>"
)


class LoginError(FerruleError):
    """Nobody is signed in after the attempt."""

    code = "login_failed"


@asynccontextmanager
async def loopback_person(show: Show, port: int = 0) -> AsyncGenerator[Person]:
    """Listen for a redirect on loopback. Port 0 takes a free one; a port that is taken raises OSError."""
    redirects: asyncio.Queue[Redirect | LoginError] = asyncio.Queue()
    states: set[str] = set()
    connections: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        try:
            # Browsers open connections in advance, and never use some of them.
            async with asyncio.timeout(_READ_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, text = _take(head.split(" ")[1] if head.startswith("GET ") else "", states, redirects)
            writer.write(_PAGE.format(status=status, text=text).encode())
            await writer.drain()
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            # Another program, or a browser that went away.
            pass
        finally:
            writer.close()
            connections.discard(writer)

    async def show_once(address: str) -> None:
        states.clear()
        states.update(parse_qs(urlsplit(address).query).get("state", ()))
        await show(address)

    async def answer() -> Redirect:
        redirect = await redirects.get()
        if isinstance(redirect, LoginError):
            raise redirect
        return redirect

    server = await asyncio.start_server(serve, _HOST, port, limit=_MAX_REQUEST)
    try:
        yield Person(f"http://{_HOST}:{server.sockets[0].getsockname()[1]}{_PATH}", show_once, answer)
    finally:
        # Not `wait_closed`: it waits for every connection, also for one that never sends anything.
        server.close()
        for writer in connections:
            writer.close()


def _take(target: str, states: set[str], redirects: asyncio.Queue[Redirect | LoginError]) -> tuple[str, str]:
    """Read a redirect; return the status and the text of the page that the browser shows.

    A redirect that belongs to no address which was shown is somebody else's: any page can send a browser here.
    """
    address = urlsplit(target)
    fields = {name: values[0] for name, values in parse_qs(address.query).items()}
    if address.path != _PATH or fields.get("state") not in states or not ("code" in fields or "error" in fields):
        return "404 Not Found", "There is nothing here."
    states.clear()
    if "error" in fields:
        # What a server writes is shown in the terminal, and never in the page.
        reason = visible(f"{fields['error']:.60} {fields.get('error_description', ''):.120}".strip())
        redirects.put_nowait(LoginError(f"the authorization server refused: {reason}"))
        return "200 OK", "You were not signed in. The terminal says why."
    redirects.put_nowait(Redirect(fields["code"], fields.get("state"), fields.get("iss")))
    return "200 OK", "You may close this page and go back to the terminal, which says whether you are signed in."


async def sign_in(server: Server, store: CredentialStore, show: Show, *, seconds: float = 300.0) -> tuple[str, ...]:
    """Sign in to a server, and return the names of its tools. `show` gets the address that a person has to open.

    A server that knows who you are asks for nothing. Raises `LoginError` if you are not signed in afterwards.
    """
    transport = _transport_of(server)
    async with _person(server, transport, store, show) as person:
        return await sign_in_as(server, store, person, seconds=seconds)


def _transport_of(server: Server) -> HttpTransport:
    if not isinstance(server.transport, HttpTransport):
        raise LoginError(f"{server.name} is a program on this machine; nobody signs in to it")
    if not server.transport.may_sign_in:
        raise LoginError(
            f"{server.name} has an Authorization header", hint="Remove the header from its entry to sign in instead."
        )
    return server.transport


async def sign_in_as(
    server: Server, store: CredentialStore, person: Person, *, seconds: float = 300.0
) -> tuple[str, ...]:
    """Sign in to a server as somebody who is here. See `sign_in`."""
    _transport_of(server)
    patient = replace(server, timeouts=replace(server.timeouts, connect=seconds))
    async with McpServers([patient], settle_seconds=seconds, credentials=store, person=person) as source:
        (status,) = source.statuses
        if status.state is not SourceState.READY:
            raise LoginError(f"{server.name}: {status.reason or status.state.value}", hint="Try again.")
        return status.tools or ()


@asynccontextmanager
async def _person(
    server: Server, transport: HttpTransport, store: CredentialStore, show: Show
) -> AsyncGenerator[Person]:
    """Listen where the client is registered; if that port is taken, register again with another one."""
    registered = _registered_port(await store.read(credential_id(server)))
    port = transport.oauth.callback_port or registered
    async with AsyncExitStack() as stack:
        try:
            person = await stack.enter_async_context(loopback_person(show, port))
        except OSError as error:
            if transport.oauth.callback_port or not port:
                raise LoginError(f"port {port} is taken", hint="Choose another callbackPort, or none.") from error
            person = await stack.enter_async_context(loopback_person(show))
        yield person


def _registered_port(kept: Credentials | None) -> int:
    addresses = (kept.client or {}).get("redirect_uris") if kept else None
    return urlsplit(str(addresses[0])).port or 0 if addresses else 0
