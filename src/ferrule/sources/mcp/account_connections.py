"""AccountConnections: one MCP server to which each person, or each tenant, signs in for itself.

Every account has a connection of its own, which is opened when its first call comes: so the server knows who calls, and
a token is only ever sent for the principal that it was given to. The list of tools is that of one account, because a
model is offered tools before anyone calls them. A call is refused if its account does not have the tool as it was
offered.

Nobody is signed in by anybody else. A call of an account that is not signed in waits for its login, as for an approval.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.outcome import NotDelivered, Outcome, Unknown
from ferrule.errors import FerruleError
from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.credentials import CredentialStore, credential_id
from ferrule.sources.mcp.elicitation import Elicit
from ferrule.sources.mcp.login import Login, account_hint
from ferrule.sources.mcp.sampling import Sampler, refuse
from ferrule.sources.mcp.server_connection import ConnectionOptions, ServerConnection
from ferrule.sources.mcp.tasks import TaskHandle
from ferrule.sources.mcp.tool_list import ListedTool
from ferrule.sources.status import SourceState

Account = tuple[str, str]
"""A tenant, and one of its principals; the second is empty where a whole tenant has one account."""
_MAX_OPEN = 256
_LISTERS = 3
"""How many accounts are tried at a start for one that can still list the tools."""
_LOOK_SECONDS, _POLL_SECONDS, _REMIND_SECONDS = 2.0, 0.1, 15.0


class AccountStore(Protocol):
    """Where the credentials of all accounts are."""

    def of_account(self, tenant: str, principal: str) -> CredentialStore: ...

    async def accounts(self, id: str, limit: int) -> tuple[Account, ...]:
        """Return who has credentials under this id, the newest first."""
        ...


def account_of(server: Server, tenant: str, principal: str) -> Account:
    """Return whose credentials a call of this principal uses; empty names are the account that all callers share."""
    kind = server.transport.oauth.account if isinstance(server.transport, HttpTransport) else "shared"
    return {"shared": ("", ""), "tenant": (tenant, ""), "principal": (tenant, principal)}[kind]


def has_own_accounts(server: Server) -> bool:
    """Whether people or tenants sign in to a server for themselves."""
    return account_of(server, "tenant", "principal") != ("", "")


@dataclass(slots=True)
class AccountConnections:
    """The connections of all accounts. To others it looks like one `ServerConnection`.

    It is ready as soon as one account has listed the tools, and stays so: whether a caller is signed in is known, and
    said, at its call.
    """

    server: Server
    elicit: Elicit
    on_change: Callable[[], None]
    accounts: AccountStore
    options: ConnectionOptions
    sampler: Sampler = refuse
    state: SourceState = SourceState.CONNECTING
    protocol_version: str = ""
    failure: str = ""
    tools: tuple[ListedTool, ...] = ()
    faults: tuple[str, ...] = ()
    revision: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    max_open: int = _MAX_OPEN
    _open: OrderedDict[Account, ServerConnection] = field(default_factory=OrderedDict[Account, ServerConnection])
    _running: dict[Account, int] = field(default_factory=dict[Account, int])
    _closing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _lister: ServerConnection | None = None
    _task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.ensure_future(self._find_lister())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        connections = list(self._open.values())
        self._open.clear()
        tasks = [self._task] if self._task is not None else []
        await asyncio.gather(*tasks, *self._closing, *(one.close() for one in connections), return_exceptions=True)
        self._set_state(SourceState.CLOSED, "")

    async def call(self, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        if not (context.principal.tenant and context.principal.name):
            # Empty names are those of the account that all callers of another server share.
            return NotDelivered(f"{self.server.name} needs to know who calls it", code="needs_login")
        account = account_of(self.server, context.principal.tenant, context.principal.name)
        with self._in_use(account):
            return await self._call(account, tool, arguments, context)

    async def resume(self, handle: TaskHandle, context: CallContext) -> Outcome:
        """Wait for the end of a task that an earlier process began, with the account of the same caller."""
        if not (context.principal.tenant and context.principal.name):
            return Unknown(f"{self.server.name} needs to know whose task it is", code="needs_login")
        account = account_of(self.server, context.principal.tenant, context.principal.name)
        with self._in_use(account):
            return await self._connection(account).resume(handle, context)

    @contextmanager
    def _in_use(self, account: Account) -> Generator[None]:
        self._running[account] = self._running.get(account, 0) + 1
        try:
            yield
        finally:
            self._running[account] -= 1
            if not self._running[account]:
                del self._running[account]

    async def _call(
        self, account: Account, tool: ListedTool, arguments: Mapping[str, Any], context: CallContext
    ) -> Outcome:
        connection = self._connection(account)
        # It ends by itself: connecting has a time limit.
        await connection.settled.wait()
        while True:
            await self._wait_for_login(connection, context)
            refusal = self._refusal(connection, tool, context.principal)
            if refusal is not None:
                return refusal
            outcome = await connection.call(tool, arguments, context)
            # Not delivered is certainly not run. The grant may have ended since the last call.
            if not (isinstance(outcome, NotDelivered) and _needs_login(connection) and self._patience > 0):
                return outcome

    def _refusal(self, connection: ServerConnection, tool: ListedTool, principal: Principal) -> NotDelivered | None:
        if _needs_login(connection):
            message = f"{self.server.name} wants {principal.name} to sign in: {self._hint(principal)}"
            return NotDelivered(message, code="needs_login")
        if connection.state is not SourceState.READY:
            return NotDelivered(f"{self.server.name} is not connected: {connection.failure or connection.state.value}")
        if tool not in connection.tools:
            return NotDelivered(
                f"{self.server.name} does not offer {tool.name!r} to {principal.name} as it was offered here",
                code="quarantined",
            )
        return None

    def _hint(self, principal: Principal) -> str:
        return account_hint(self.server.name, *account_of(self.server, principal.tenant, principal.name))

    @property
    def _patience(self) -> float:
        return self.options.login_patience

    async def _wait_for_login(self, connection: ServerConnection, context: CallContext) -> None:
        """Wait until the account is signed in, but not for ever. The time limit of the call does not run meanwhile."""
        if not _needs_login(connection) or self._patience <= 0:
            return
        hint = self._hint(context.principal)
        end, next_report = time.monotonic() + self._patience, 0.0
        with context.pause():
            while _needs_login(connection) and time.monotonic() < end:
                if context.deadline is not None and time.time() >= context.deadline:
                    return
                if time.monotonic() >= next_report:
                    message = f"{self.server.name} waits for {context.principal.name} to sign in: {hint}"
                    context.on_progress(Progress(0, None, message))
                    next_report = time.monotonic() + _REMIND_SECONDS
                await asyncio.sleep(_POLL_SECONDS)

    def _connection(self, account: Account) -> ServerConnection:
        connection = self._open.get(account)
        if connection is None:
            store = self.accounts.of_account(*account)
            connection = ServerConnection(
                self.server,
                self.elicit,
                self._on_change,
                self.options,
                sampler=self.sampler,
                login=Login(store, credential_id(self.server)),
            )
            self._open[account] = connection
            connection.open()
            self._close_idle()
        self._open.move_to_end(account)
        return connection

    def _close_idle(self) -> None:
        """Close the connections that were not used for the longest time, if there are too many."""
        idle = [account for account in list(self._open)[:-1] if account not in self._running]
        for account in idle[: max(0, len(self._open) - self.max_open)]:
            task = asyncio.ensure_future(self._open.pop(account).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _on_change(self) -> None:
        ready = [one for one in self._open.values() if one.state is SourceState.READY]
        if ready and self._lister not in ready:
            self._lister = ready[0]
        if self._lister is None or self._lister not in ready:
            if self.state is not SourceState.READY and self._open:
                last = next(reversed(self._open.values()))
                hint = account_hint(self.server.name, *_anyone(self.server))
                self._set_state(last.state, hint if last.state is SourceState.NEEDS_LOGIN else last.failure)
            return
        is_news = (self._lister.tools, self._lister.faults) != (self.tools, self.faults)
        self.tools, self.faults = self._lister.tools, self._lister.faults
        self.protocol_version = self._lister.protocol_version
        self._set_state(SourceState.READY, "", is_news=is_news)

    def _set_state(self, state: SourceState, failure: str, *, is_news: bool = False) -> None:
        is_news = is_news or (state, failure) != (self.state, self.failure)
        self.state, self.failure = state, failure
        self.settled.set()
        if is_news:
            self.revision += 1
            self.on_change()

    async def _find_lister(self) -> None:
        """Connect accounts that have signed in, until one of them has listed the tools."""
        while self.state is not SourceState.READY:
            known: tuple[Account, ...] = ()
            # A ledger that is away for a while says nothing.
            with suppress(FerruleError):
                known = await self.accounts.accounts(credential_id(self.server), _LISTERS)
            connections = [self._connection(account) for account in known]
            if not connections:
                self._set_state(SourceState.NEEDS_LOGIN, account_hint(self.server.name, *_anyone(self.server)))
            for connection in connections:
                await connection.settled.wait()
            await asyncio.sleep(_LOOK_SECONDS)


def _anyone(server: Server) -> Account:
    return account_of(server, "TENANT", "NAME")


def _needs_login(connection: ServerConnection) -> bool:
    is_marked = connection.login is not None and connection.login.is_needed
    return is_marked or connection.state is SourceState.NEEDS_LOGIN
