"""Login: what a connection needs to sign in, and whether a person has to. It knows neither OAuth's flow nor HTTP."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ferrule.errors import FerruleError
from ferrule.sources.mcp.credentials import CredentialStore

_LOOK_SECONDS = 1.0


def login_hint(server: str) -> str:
    """What a person has to do for a server that wants a sign-in."""
    return f"sign in with: ferrule mcp login {server}"


def account_hint(server: str, tenant: str, principal: str) -> str:
    """The same for the account of a tenant, or of one of its principals. The gateway's operator knows the ledger."""
    whose = [part for flag, name in (("--tenant", tenant), ("--principal", principal)) if name for part in (flag, name)]
    return f"{login_hint(shlex.quote(server))} {shlex.join(whose)}".rstrip() + (" --ledger LEDGER" if whose else "")


@dataclass(frozen=True, slots=True)
class Redirect:
    """What an authorization server sent to the redirect address."""

    code: str
    state: str | None
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who can sign in now: `show` gets the address to open, `answer` waits for the redirect."""

    redirect_url: str
    show: Callable[[str], Awaitable[None]]
    answer: Callable[[], Awaitable[Redirect]]


@dataclass(slots=True)
class Login:
    """The sign-in of one connection. `is_needed` is set when the server wants a person, and nobody is there."""

    store: CredentialStore
    id: str
    """Under which the credentials are stored: `credential_id`."""
    person: Person | None = None
    is_needed: bool = False
    _version: object = None

    def need(self) -> None:
        self.is_needed = True

    async def begin(self) -> None:
        """Begin an attempt to connect: what changes in the store from now on is news."""
        self.is_needed = False
        self._version = await self.store.version(self.id)

    async def changed(self) -> None:
        """Wait until somebody has signed in, perhaps in another process."""
        while not await self._has_changed():
            await asyncio.sleep(_LOOK_SECONDS)

    async def _has_changed(self) -> bool:
        try:
            return await self.store.version(self.id) != self._version
        except FerruleError:
            # A store that is away for a while says nothing.
            return False
