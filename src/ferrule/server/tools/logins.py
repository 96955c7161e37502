"""Logins: people sign in to MCP servers with a browser, and the gateway takes the redirect.

A login belongs to who began it. The browser that began it gets a cookie, and only the browser that has it can finish
the login: otherwise somebody could send you the address of their login, and use the account that you sign in with.
The redirect may reach another worker than the one that waits for it, so what is known of a login is in the ledger,
encrypted like the tokens. The verifier of the code (PKCE) never leaves the process that waits.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from ferrule.core.context import Principal
from ferrule.errors import AuthorityError, DefinitionError, FerruleError, NotFoundError
from ferrule.server.http import ADMIN, OPERATOR
from ferrule.sources.mcp.account_connections import Account, account_of
from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.login import Person, Redirect
from ferrule.sources.mcp.loopback import LoginError, sign_in_as
from ferrule.sources.mcp.sealed_credentials import SealedCredentials

SECONDS = 600.0
"""How long somebody has for a login."""
_POLL_SECONDS = 0.3
_MAX_OPEN = 64
_MAX_FIELD = 4096


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login that waits for its redirect. `url` is empty if the server needs nobody: the account is signed in."""

    url: str
    cookie: str
    expires_at: float


@dataclass(slots=True)
class Logins:
    """The logins of a gateway. `servers` returns the MCP servers that it has."""

    servers: Callable[[], Iterable[Server]]
    store: SealedCredentials
    clock: Callable[[], float] = time.time
    seconds: float = SECONDS
    _open: dict[tuple[str, tuple[str, str]], asyncio.Task[Any]] = field(
        default_factory=dict[tuple[str, tuple[str, str]], "asyncio.Task[Any]"]
    )

    async def close(self) -> None:
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def begin(self, name: str, principal: Principal, redirect_url: str, *, rights: frozenset[str]) -> BegunLogin:
        """Begin a login to a server, as the account that the calls of this principal use."""
        server = self._server(name)
        account = account_of(server, principal.tenant, principal.name)
        needed = _right_to_change(account)
        if needed and needed not in rights:
            raise AuthorityError(
                f"{principal.name} may not sign in for others", hint=f"Use a key with the {needed} right."
            )
        if len(self._open) >= _MAX_OPEN:
            raise LoginError("too many logins are open", hint="Finish or abandon one first.")
        cookie, expires_at = secrets.token_urlsafe(32), self.clock() + self.seconds
        shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        person = self._person(redirect_url, cookie, expires_at, shown)
        signing_in = sign_in_as(server, self.store.of_account(*account), person, seconds=self.seconds)
        task = asyncio.ensure_future(signing_in)
        self._replace((name, account), task)
        await asyncio.wait({task, shown}, return_when=asyncio.FIRST_COMPLETED)
        if not shown.done():
            shown.cancel()
            # It raises what went wrong; otherwise the account was signed in already.
            await task
            return BegunLogin("", "", expires_at)
        return BegunLogin(shown.result(), cookie, expires_at)

    async def finish(self, fields: Mapping[str, str], cookie: str) -> bool:
        """Take a redirect. False if no login waits for it, or another browser began it."""
        state = fields.get("state", "")
        login = await self._store_of_logins.read_value(_id_of(state)) if state else None
        is_open = login is not None and "redirect" not in login and login["until"] > self.clock()
        if login is None or not is_open or not hmac.compare_digest(login["cookie"], _hash(cookie)):
            return False
        redirect = {name: fields.get(name, "")[:_MAX_FIELD] for name in ("code", "state", "iss", "error")}
        await self._store_of_logins.write_value(_id_of(state), {**login, "redirect": redirect})
        return True

    @property
    def _store_of_logins(self) -> SealedCredentials:
        return self.store.of_account("", "login")

    def _replace(self, key: tuple[str, tuple[str, str]], task: asyncio.Task[Any]) -> None:
        """Keep one login for each account: an earlier one that nobody has finished ends."""
        earlier = self._open.get(key)
        if earlier is not None:
            earlier.cancel()
        self._open[key] = task

        def forget(done: asyncio.Task[Any]) -> None:
            if self._open.get(key) is done:
                del self._open[key]
            if not done.cancelled():
                # Its caller may be gone: the status of the source says how it ended.
                done.exception()

        task.add_done_callback(forget)

    def _server(self, name: str) -> Server:
        server = next((one for one in self.servers() if one.name == name), None)
        if server is None:
            raise missing_server(name)
        transport = server.transport
        if not isinstance(transport, HttpTransport) or not transport.may_sign_in or transport.oauth.signs_in_itself:
            raise DefinitionError(f"nobody signs in to {name}", hint="Its entry in mcp.json says how it is reached.")
        return server

    def _person(self, redirect_url: str, cookie: str, expires_at: float, shown: asyncio.Future[str]) -> Person:
        ids: list[str] = []
        logins = self._store_of_logins

        async def show(address: str) -> None:
            (state,) = parse_qs(urlsplit(address).query).get("state", [""])
            ids.append(_id_of(state))
            await logins.write_value(ids[-1], {"cookie": _hash(cookie), "until": expires_at})
            if not shown.done():
                shown.set_result(address)

        async def answer() -> Redirect:
            try:
                while True:
                    login = await logins.read_value(ids[-1])
                    if login is None or self.clock() >= expires_at:
                        raise LoginError("nobody finished the login in time")
                    if "redirect" in login:
                        return _redirect_of(cast("dict[str, str]", login["redirect"]))
                    await asyncio.sleep(_POLL_SECONDS)
            finally:
                # A redirect is used once. Without the ledger it ends with its time.
                with suppress(FerruleError):
                    await logins.remove(ids[-1])

        return Person(redirect_url, show, answer)


def missing_server(name: str) -> NotFoundError:
    return NotFoundError(f"there is no MCP server {name!r:.80}", hint="See /v1/sources.")


def _right_to_change(account: Account) -> str:
    """The right that a login needs; none for a person's own account. That of all callers is no single tenant's."""
    tenant, person = account
    if person:
        return ""
    return ADMIN if tenant else OPERATOR


def _redirect_of(fields: Mapping[str, str]) -> Redirect:
    if fields["error"] or not fields["code"]:
        raise LoginError("the authorization server refused")
    return Redirect(fields["code"], fields["state"], fields["iss"] or None)


def _id_of(state: str) -> str:
    return f"login:{_hash(state)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
