"""KeyStore: the keys that a gateway knows, of its configuration and of the ledger, and the callers with tokens.

Requests read nothing: a known key is in memory, and a task behind them asks the ledger every second whether any key has
changed. A key that was created, rotated or revoked anywhere is known here after that second. While the ledger does not
answer, the keys stay as they were.

Once there is a key in the ledger every request needs one, also when that key has ended: the end of the last key must
not open the gateway to everyone.

Callers with tokens of an identity provider are remembered while their tokens are valid, for their limits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from ferrule.core.context import Principal
from ferrule.errors import AuthorityError, FerruleError, LedgerUnavailableError
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.auth.keys import Key, Keyring, expired_error, revoked_error, token_expired_error
from ferrule.server.auth.tokens import TokenVerifier
from ferrule.server.config.config import Config, KeyConfig, is_one_tenant
from ferrule.server.http import ADMIN, OPERATOR
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.secret_mask import mask_text

_EVERY_SECONDS = 1.0
_FIRST_SECONDS = 5.0
"""How long the first read may keep a gateway from serving."""
_ENDED_SECONDS = 86_400.0
"""How long after its end an error says that a key has ended. Later it is an unknown one."""
_USES_SECONDS = 10.0
"""How often the last use of keys is written."""
_MAX_CALLERS = 10_000
"""How many callers with tokens are remembered."""


@dataclass(slots=True)
class KeyStore:
    """Create it with `open_gateway`, or from a configuration alone, without a ledger."""

    config: Config
    ledger: Ledger | None = None
    telemetry: Telemetry | None = None
    every_seconds: float = _EVERY_SECONDS
    on_change: list[Callable[[Mapping[str, KeyConfig]], None]] = field(
        default_factory=list[Callable[[Mapping[str, KeyConfig]], None]]
    )
    """Called with the keys that may be used, by the name under which their requests are counted."""
    tokens: TokenVerifier | None = None
    """Verifies the tokens of identity providers; None if none is configured."""
    _callers: dict[tuple[str, str], Key] = field(default_factory=dict[tuple[str, str], Key])
    """Callers with tokens, by name and tenant, the newest last."""
    _ring: Keyring = field(init=False)
    _keys: tuple[Key, ...] = ()
    _file_keys: tuple[Key, ...] = ()
    _by_id: dict[str, Key] = field(default_factory=dict[str, Key])
    _has_one_tenant: bool = False
    _ledger_tenants: tuple[str, ...] = ()
    """Tenants that have or had keys in the ledger; two at most."""
    _number: int | None = None
    """The number of the last change that is known here; None before the first read."""
    _uses: dict[str, float] = field(default_factory=dict[str, float])
    _uses_written_at: float = 0.0
    _has_failed: bool = False
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._file_keys = self._keys = tuple(map(Key.of, self.config.keys))
        self._ring = Keyring(self._keys)
        self.tokens = self._verifier_of(self.config)
        self._count_tenants()

    @property
    def is_required(self) -> bool:
        """Whether a request needs a key."""
        return self.config.requires_keys or bool(self._number)

    @property
    def in_ledger(self) -> int:
        """How many keys of the ledger may be used."""
        return sum(1 for key in self._by_id.values() if not key.is_revoked)

    def find(self, text: str) -> Key | None:
        """Return the key of a text, if there is one. Raises if it has ended."""
        key = self._ring.find(text)
        if key is not None and key.id:
            now = time.time()
            key.check(now)
            self._uses[key.id] = now
        return key

    def rights_of(self, key: Key) -> frozenset[str]:
        """The rights of a key. While there is one tenant, its admins operate the gateway too.

        A tenant whose keys have all ended counts: what it has done is still in the metrics. Before the ledger could be
        read, nobody knows how many there are.
        """
        if ADMIN not in key.rights or OPERATOR in key.rights or not self._has_one_tenant or not self._is_loaded:
            return key.rights
        return key.rights | {OPERATOR}

    async def find_token_caller(self, token: str) -> Key:
        """Return the caller who sends a token. Raises if the token is not valid."""
        assert self.tokens is not None
        caller = await self.tokens.find(token)
        owner = (caller.config.name, caller.config.tenant)
        if self._callers.get(owner) is not caller:
            self._callers.pop(owner, None)
            if len(self._callers) >= _MAX_CALLERS:
                del self._callers[next(iter(self._callers))]
            self._callers[owner] = caller
        return caller

    def check_loaded(self) -> None:
        """Raise if an unknown key may be one of the ledger, which could not be read yet."""
        if not self._is_loaded:
            raise LedgerUnavailableError("the keys could not be read yet", hint="Try again.")

    @property
    def _is_loaded(self) -> bool:
        return self.ledger is None or self._number is not None

    def check(self, key: Key) -> None:
        """Raise if a key has ended since its connection was opened."""
        if key.is_token:
            key.check(time.time())
        elif key.id:
            # One that is not known any more ended long ago.
            now_known = self._by_id.get(key.id)
            (now_known or replace(key, is_revoked=True)).check(time.time())

    def of_principal(self, principal: Principal) -> list[KeyConfig]:
        """The keys of a principal that may be used."""
        owner, now = (principal.name, principal.tenant), time.time()
        caller = self._callers.get(owner)
        if caller is not None and now < caller.expires_at:
            return [caller.config]
        return [
            key.config
            for key in self._keys
            if (key.config.name, key.config.tenant) == owner and not key.is_revoked and now < key.expires_at
        ]

    def current_principal(
        self, name: str, tenant: str, recorded_scopes: frozenset[str] | None = frozenset()
    ) -> Principal:
        """Return the owner of a stored request with their current rights. Raises if the owner has no key any more.

        Nobody has the token of a caller later, so `recorded_scopes` are kept with the request: what it granted then.
        """
        if not self.is_required:
            return Principal(name, tenant)
        has_key = any((key.config.name, key.config.tenant) == (name, tenant) for key in self._keys)
        if self.tokens is not None and self.tokens.names(name) and not has_key:
            return Principal(name, tenant, recorded_scopes)
        keys = self.of_principal(Principal(name, tenant))
        if not keys:
            raise AuthorityError(f"{name} no longer has a key", hint="Send the request again with another key.")
        # The newest one: of a rotated key, the one that stays.
        return Key.of(keys[-1]).principal

    async def start(self) -> Callable[[], Awaitable[None]]:
        """Read the keys, and follow them from now on. Returns a function that stops it."""
        first = asyncio.Event()
        task = asyncio.ensure_future(self._run(first))
        waiting = asyncio.ensure_future(first.wait())
        await asyncio.wait({waiting}, timeout=_FIRST_SECONDS)
        waiting.cancel()

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if self.tokens is not None:
                await self.tokens.close()
            try:
                await self._write_uses()
            except FerruleError as failure:
                self._note_failure(failure)

        return stop

    async def refresh(self) -> None:
        """Take up what has changed in the ledger, and end what runs for revoked keys."""
        if self.ledger is None:
            return
        async with self._lock:
            number = await self.ledger.key_number()
            if number != self._number:
                records = await self.ledger.usable_keys(ended_after=time.time() - _ENDED_SECONDS)
                tenants = await self.ledger.key_tenants()
                stored = [Key.of_record(record) for record in records]
                keys = _joined(self._file_keys, stored)
                # In a thread: ten thousand keys take tens of milliseconds.
                ring = await asyncio.to_thread(Keyring, keys)
                self._by_id, self._number = {key.id: key for key in stored}, number
                self._ledger_tenants = tenants
                self._take(ring, keys)
        self._end_requests()

    async def set_config(self, config: Config) -> None:
        """Take up the keys of another configuration. Raises, and changes nothing, if two of them are the same."""
        async with self._lock:
            file_keys = tuple(map(Key.of, config.keys))
            keys = _joined(file_keys, self._by_id.values())
            ring, tokens = Keyring(keys), self._verifier_of(config)
            self.tokens = tokens
            self.config, self._file_keys = config, file_keys
            self._take(ring, keys)

    def _verifier_of(self, config: Config) -> TokenVerifier | None:
        return TokenVerifier(config, self._note_fetch_failure, self.tokens) if config.identity else None

    def _take(self, ring: Keyring, keys: tuple[Key, ...]) -> None:
        self._ring, self._keys = ring, keys
        self._count_tenants()
        # Of several keys with one name, the newest counts.
        limits = {key.limit_name: key.config for key in (*keys, *self._callers.values()) if not key.is_revoked}
        for callback in self.on_change:
            callback(limits)

    def _count_tenants(self) -> None:
        self._has_one_tenant = is_one_tenant(self.config.tenants | {*self._ledger_tenants})

    def _end_requests(self) -> None:
        """End what runs for keys that were revoked, and connections of those that have expired."""
        if self.telemetry is None:
            return
        now = time.time()
        self.telemetry.end_idle_sockets(now, token_expired_error)
        revoked = {key.id: partial(revoked_error, key.config.name) for key in self._keys if key.is_revoked}
        expired = {key.id: partial(expired_error, key.config.name) for key in self._keys if now >= key.expires_at}
        if revoked or expired:
            self.telemetry.end_requests_of(revoked, expired)

    async def _write_uses(self) -> None:
        if self._uses and self.ledger is not None:
            uses, self._uses = self._uses, {}
            try:
                await self.ledger.note_key_uses(uses)
            except FerruleError:
                self._uses = {**uses, **self._uses}
                raise
        self._uses_written_at = time.monotonic()

    async def _run(self, first: asyncio.Event) -> None:
        while True:
            try:
                if self.tokens is not None:
                    self.tokens.renew_keys()
                await self.refresh()
                if time.monotonic() - self._uses_written_at >= _USES_SECONDS:
                    await self._write_uses()
                self._has_failed = False
            except FerruleError as failure:
                self._note_failure(failure)
            # It must outlive every mistake in it: without it, a revoked key stays valid.
            except Exception as error:
                if self.telemetry is not None:
                    self.telemetry.handle_unexpected(error, "")
            first.set()
            await asyncio.sleep(self.every_seconds)

    def _note_fetch_failure(self, identity: str, reason: str) -> None:
        if self.telemetry is not None:
            self.telemetry.log.emit("identity_failed", place=identity, detail=mask_text(reason))

    def _note_failure(self, failure: FerruleError) -> None:
        """Report it once for each time that the ledger is away, and not every second."""
        if self.telemetry is not None and not self._has_failed:
            self.telemetry.record_error(failure)
        self._has_failed = True


def _joined(file_keys: Iterable[Key], stored: Iterable[Key]) -> tuple[Key, ...]:
    """All keys. One that is in the configuration too stays what it is there."""
    first = tuple(file_keys)
    hashes = {key.config.sha256 for key in first}
    return (*first, *(key for key in stored if key.config.sha256 not in hashes))
