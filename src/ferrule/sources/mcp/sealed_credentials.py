"""SealedCredentials: the credentials of one principal, encrypted, in the ledger that all processes share.

The ledger stores texts that it cannot read. A text names whose it is and for which server: one that somebody has moved
to another principal's row, or to another server's, is refused.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any, Protocol

from ferrule.errors import DefinitionError, FerruleError
from ferrule.sources.mcp.credentials import KEY_FILE_VARIABLE, KEY_VARIABLE, Cipher, Credentials, CredentialsError

_LEASE_SECONDS = 60.0
"""How long others wait for a process that died while it renewed a token."""
_RENEWALS = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class CredentialRows(Protocol):
    """The part of a ledger that stores sealed texts."""

    async def credential(self, tenant: str, principal: str, id: str) -> str | None: ...

    async def credential_revision(self, tenant: str, principal: str, id: str) -> str: ...

    async def store_credential(
        self, tenant: str, principal: str, id: str, sealed: str, revision: str, *, now: float
    ) -> None: ...

    async def remove_credential(self, tenant: str, principal: str, id: str) -> bool: ...

    async def lease_credential(
        self, tenant: str, principal: str, id: str, holder: str, until: float, *, now: float
    ) -> bool: ...

    async def release_credential(self, tenant: str, principal: str, id: str, holder: str) -> None: ...

    async def credential_owners(self, id: str, limit: int) -> tuple[tuple[str, str], ...]: ...


def require_key(keys: tuple[str, ...]) -> None:
    """Raise a `DefinitionError` if there is no key to encrypt with."""
    if not keys:
        raise DefinitionError(
            "tokens in a ledger are encrypted, and there is no key",
            hint=f"Put the output of `openssl rand -hex 32` into {KEY_VARIABLE}, "
            f"or into a file that {KEY_FILE_VARIABLE} names.",
        )


class SealedCredentials:
    """Credentials of one principal of a tenant; without names, those that all callers of a gateway share.

    Example:
        SealedCredentials(ledger, read_keys())
    """

    def __init__(
        self,
        rows: CredentialRows,
        keys: tuple[str, ...],
        tenant: str = "",
        principal: str = "",
        *,
        clock: Callable[[], float] = time.time,
        lease_seconds: float = _LEASE_SECONDS,
    ) -> None:
        require_key(keys)
        self._rows = rows
        self._keys, self._cipher = keys, Cipher(keys)
        self._whose = (tenant, principal)
        self._clock = clock
        self._lease_seconds = lease_seconds

    def of_account(self, tenant: str, principal: str) -> SealedCredentials:
        """Return the credentials of another account, with the same keys."""
        return SealedCredentials(
            self._rows, self._keys, tenant, principal, clock=self._clock, lease_seconds=self._lease_seconds
        )

    async def accounts(self, id: str, limit: int) -> tuple[tuple[str, str], ...]:
        """Return the tenants and principals that have credentials under this id, the newest first."""
        return await self._rows.credential_owners(id, limit)

    async def read(self, id: str) -> Credentials | None:
        content = await self.read_value(id)
        return None if content is None else Credentials(**content["credentials"])

    async def write(self, id: str, credentials: Credentials) -> None:
        await self.write_value(id, {"credentials": asdict(credentials)})

    async def read_value(self, id: str) -> dict[str, Any] | None:
        """Return the JSON object that is stored under an id that is no server's."""
        text = await self._rows.credential(*self._whose, id)
        if text is None:
            return None
        content = self._cipher.open(text, "the ledger's entry")
        if content.get("for") != [*self._whose, id]:
            raise CredentialsError(
                "the ledger's entry belongs to another principal or server", hint="Sign in again: it was moved."
            )
        return content

    async def write_value(self, id: str, value: Mapping[str, Any]) -> None:
        sealed = self._cipher.seal({**value, "for": [*self._whose, id]})
        revision = secrets.token_hex(8)
        await self._rows.store_credential(*self._whose, id, sealed, revision, now=self._clock())

    async def remove(self, id: str) -> bool:
        return await self._rows.remove_credential(*self._whose, id)

    async def version(self, id: str) -> object:
        return await self._rows.credential_revision(*self._whose, id)

    @asynccontextmanager
    async def lock(self, id: str) -> AsyncGenerator[None]:
        holder = secrets.token_hex(16)
        pause = _FIRST_PAUSE
        while not await self._lease(id, holder):
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        renewing = asyncio.ensure_future(self._renew(id, holder))
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            # Without the ledger it ends by itself, and what was done under it is done.
            with suppress(FerruleError):
                await self._rows.release_credential(*self._whose, id, holder)

    async def _lease(self, id: str, holder: str) -> bool:
        now = self._clock()
        return await self._rows.lease_credential(*self._whose, id, holder, now + self._lease_seconds, now=now)

    async def _renew(self, id: str, holder: str) -> Any:
        while True:
            await asyncio.sleep(self._lease_seconds / _RENEWALS)
            # The next try comes before the lease ends.
            with suppress(FerruleError):
                await self._lease(id, holder)
