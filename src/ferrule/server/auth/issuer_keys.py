"""IssuerKeys: the public keys of one identity provider, fetched and kept.

A key that is not known causes one fetch, however many requests come with it, and at most one every ten seconds: so
nobody makes this gateway flood the provider. Known keys are used while they are renewed, and for a day if the provider
does not answer. What is fetched is limited in size and time, follows no redirect, and comes by https or from this
machine. Must not know tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ferrule.core.json_text import loads
from ferrule.errors import IdentityUnavailableError
from ferrule.server.auth.host import is_loopback
from ferrule.server.config.identity import IdentityConfig

if TYPE_CHECKING:
    from aiohttp import ClientSession

Jwk = dict[str, Any]

MAX_BYTES = 256 * 1024
MAX_KEYS = 100
FETCH_SECONDS = 5.0
REFETCH_SECONDS = 10.0
RENEW_SECONDS = 600.0
"""How old keys may be before they are fetched again. A key that the provider has withdrawn is refused after that."""
MAX_AGE_SECONDS = 86_400.0
_OK = 200
_CHUNK_BYTES = 65_536
_DISCOVERY = "/.well-known/openid-configuration"


def is_secure_url(url: str) -> bool:
    """Whether a URL can be trusted to bring keys: https, or http on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    has_credentials = "@" in parts.netloc
    return bool(host) and not has_credentials and (parts.scheme == "https" or is_loopback_http(url))


def is_loopback_http(url: str) -> bool:
    """Whether a URL is http on this machine, where nobody can change what is sent."""
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


class FetchError(Exception):
    """The keys did not come; the text says why."""


async def fetch_keys(identity: IdentityConfig) -> tuple[Jwk, ...]:
    """Fetch the public keys of a provider."""
    import aiohttp

    try:
        async with asyncio.timeout(FETCH_SECONDS), aiohttp.ClientSession(auto_decompress=False) as session:
            uri = identity.jwks_uri or await _discover(session, identity.issuer)
            found = (await _get_object(session, uri)).get("keys")
    except TimeoutError as failure:
        raise FetchError(f"no answer within {FETCH_SECONDS:g} seconds") from failure
    except aiohttp.ClientError as failure:
        raise FetchError(f"{type(failure).__name__}: {failure}") from failure
    if not isinstance(found, list) or len(cast("list[object]", found)) > MAX_KEYS:
        raise FetchError(f"{uri} has no list of at most {MAX_KEYS} keys")
    return tuple(cast("Jwk", key) for key in cast("list[object]", found) if isinstance(key, dict))


async def _discover(session: ClientSession, issuer: str) -> str:
    """Return where the discovery document of an issuer says that its keys are."""
    address = issuer.removesuffix("/") + _DISCOVERY
    document = await _get_object(session, address)
    if document.get("issuer") != issuer:
        # OpenID Connect Discovery, section 4.3: else one provider could pass for another one.
        raise FetchError(f"{address} is of another issuer; write `issuer` exactly as it is there")
    uri = document.get("jwks_uri")
    if not isinstance(uri, str) or not is_secure_url(uri):
        raise FetchError(f"{address} has no jwks_uri with https")
    if is_loopback_http(uri) and not is_loopback_http(issuer):
        raise FetchError(f"{address} has a jwks_uri on this machine")
    return uri


async def _get_object(session: ClientSession, url: str) -> dict[str, Any]:
    """Fetch a JSON object. Compressed answers are not asked for: their size is known only afterwards."""
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        if response.status != _OK:
            raise FetchError(f"{url} answered with status {response.status}")
        content = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            content += chunk
            if len(content) > MAX_BYTES:
                raise FetchError(f"{url} sent more than {MAX_BYTES} bytes")
    try:
        value = loads(content.decode())
    except (ValueError, RecursionError) as damage:
        raise FetchError(f"{url} did not answer with JSON") from damage
    if not isinstance(value, dict):
        raise FetchError(f"{url} did not answer with a JSON object")
    return cast("dict[str, Any]", value)


Fetch = Callable[[IdentityConfig], Awaitable[tuple[Jwk, ...]]]


@dataclass(slots=True)
class IssuerKeys:
    """The keys of one provider. `find` returns those that may have signed a token."""

    identity: IdentityConfig
    fetch: Fetch
    on_change: Callable[[], None] = lambda: None
    """Called when other keys came than before."""
    on_failure: Callable[[str, str], None] = lambda name, reason: None
    """Called with the name of the provider and the reason when a fetch failed."""
    clock: Callable[[], float] = time.monotonic
    _keys: tuple[Jwk, ...] = ()
    _fetched_at: float | None = None
    _tried_at: float | None = None
    _fetching: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None) -> tuple[Jwk, ...]:
        """Return the keys with this id; without one, all. Empty if there is none, also after a fetch."""
        if self._is_too_old() or not self._matching(key_id):
            await self._fetch_soon()
        if self._is_too_old():
            raise IdentityUnavailableError(
                f"the keys of the identity provider {self.identity.name!r} cannot be fetched", hint="Try again later."
            )
        return self._matching(key_id)

    def renew(self) -> None:
        """Begin to fetch keys that are due for it. Call it from time to time."""
        is_due = self._fetched_at is None or self.clock() - self._fetched_at >= RENEW_SECONDS
        if is_due and self._may_fetch():
            self._begin_fetch()

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _matching(self, key_id: str | None) -> tuple[Jwk, ...]:
        return tuple(key for key in self._keys if key_id is None or key.get("kid") == key_id)

    def _is_too_old(self) -> bool:
        return self._fetched_at is None or self.clock() - self._fetched_at >= MAX_AGE_SECONDS

    def _may_fetch(self) -> bool:
        return self._tried_at is None or self.clock() - self._tried_at >= REFETCH_SECONDS

    async def _fetch_soon(self) -> None:
        """Fetch, unless that was tried just now. All requests that wait share one fetch, and none can end it."""
        if self._fetching is None and self._may_fetch():
            self._begin_fetch()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)

    def _begin_fetch(self) -> None:
        if self._fetching is None:
            self._tried_at = self.clock()
            self._fetching = asyncio.ensure_future(self._fetch())

    async def _fetch(self) -> None:
        try:
            keys = await self.fetch(self.identity)
        except FetchError as failure:
            # Requests say only that the provider is away; the operator reads why.
            self.on_failure(self.identity.name, str(failure))
            return
        finally:
            self._fetching = None
        is_changed = keys != self._keys
        self._keys, self._fetched_at = keys, self.clock()
        if is_changed:
            self.on_change()
