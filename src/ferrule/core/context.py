"""CallContext: what goes with a call besides its arguments: the principal, the deadline, the idempotency key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.errors import AuthorityError, BudgetError

DEFAULT_HOPS = 6


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling. `scopes` are the capabilities that the principal may use; None means all.

    A capability is written `kind:name`, such as `model:smol`; that of a tool is only its name. In a scope `*` stands
    for any text: `kind:*` means all of a kind, `*` all tools, `get_*` some. They are plain strings, so that they can be
    sent over a bus.
    """

    name: str = "local"
    tenant: str = "local"
    scopes: frozenset[str] | None = None

    def may_use(self, capability: str) -> bool:
        if self.scopes is None or capability in self.scopes or _wildcard(capability) in self.scopes:
            return True
        return any("*" in scope and matches(capability, scope) for scope in self.scopes)

    def may_use_source(self, source: str) -> bool:
        """Whether the principal may use the tools of a source. Without a scope of this kind it may use all."""
        restricts = self.scopes is not None and any(scope.startswith(_SOURCE) for scope in self.scopes)
        return not restricts or self.may_use(f"{_SOURCE}{source}")

    def require(self, capability: str) -> None:
        if not self.may_use(capability):
            raise AuthorityError(
                f"{self.name} may not use {capability}", hint="Add this scope to the key, or use a key that has it."
            )


_SOURCE = "source:"


def matches(capability: str, scope: str) -> bool:
    """Whether a scope covers a capability of the same kind. `*` stands for any text; nothing else is special.

    Example:
        matches("model:smol-2", "model:smol*")
    """
    kind, name = _split(capability)
    scope_kind, pattern = _split(scope)
    if kind != scope_kind:
        return False
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    # The first place that fits leaves the most for the parts behind it, so nothing has to be tried twice.
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _split(capability: str) -> tuple[str, str]:
    kind, colon, name = capability.partition(":")
    return (kind, name) if colon else ("", kind)


def _wildcard(capability: str) -> str:
    kind, colon, _ = capability.partition(":")
    return f"{kind}:*" if colon else "*"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running tool. `total` is None if it is unknown."""

    done: float
    total: float | None = None
    message: str = ""
    approval: str = ""
    """The id of the approval that the call waits for while it runs: a question of its server to a person."""


@dataclass(slots=True)
class TaskRecord:
    """The record of a task that a server works at for a call: written before anything else is done with the task.

    `handle` is what was recorded; empty if the call has no task yet. With one, the task is resumed and not begun again.
    `write` records a handle, and raises if this process does not own the call any more; None records nothing.
    """

    handle: str = ""
    write: Callable[[str], Awaitable[None]] | None = None

    async def keep(self, handle: str) -> None:
        """Record the handle of the call's task."""
        if self.write is not None:
            await self.write(handle)
        self.handle = handle


def _is_running() -> bool:
    """The default: nobody would resume a call."""
    return False


def _do_nothing() -> None:
    """The default: there is no time limit."""


def _ignore_progress(progress: Progress) -> None:
    """The default: progress is not reported to anyone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The context of one call. A tool gets it by declaring a parameter of this type.

    `call_id` is the idempotency key: it is the same for every attempt at the same call. `deadline` is in Unix seconds.

    Example:
        @tool(side_effects=True)
        def pay(amount: int, context: CallContext) -> str:
            context.report(0, 1, "contacting the bank")
            return bank.pay(amount, idempotency_key=context.call_id)
    """

    call_id: str = ""
    conversation: str = ""
    principal: Principal = field(default_factory=Principal)
    deadline: float | None = None
    hops: int = DEFAULT_HOPS
    """How many levels deep tools may still call other tools."""
    on_progress: Callable[[Progress], None] = field(default=_ignore_progress, compare=False, repr=False)
    on_item: Callable[[Any], Awaitable[None]] | None = field(default=None, compare=False, repr=False)
    """Receives the answer piece by piece; None if the caller wants it whole."""
    pause: Callable[[], AbstractContextManager[None]] = field(default=nullcontext, compare=False, repr=False)
    """Enter it while the call waits for a person: its time limit does not run meanwhile."""
    renew: Callable[[], None] = field(default=_do_nothing, compare=False, repr=False)
    """Call it when a long call shows that it still runs: its time limit begins again."""
    task: TaskRecord = field(default_factory=TaskRecord, compare=False, repr=False)
    is_stopping: Callable[[], bool] = field(default=_is_running, compare=False, repr=False)
    """Whether this process stops: the task of a call that is cancelled now is left to another process."""

    def nested(self) -> CallContext:
        """Return the context for a call that a tool makes itself."""
        if self.hops <= 0:
            raise BudgetError(
                "the limit for nested tool calls is reached", hint="Answer without another call, or raise `hops`."
            )
        return replace(self, hops=self.hops - 1)

    def report(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report the progress of the tool to its caller."""
        self.on_progress(Progress(done, total, message))

    async def emit(self, item: Any) -> None:
        """Send a piece of the answer, as JSON, if the caller reads it piece by piece."""
        if self.on_item is not None:
            await self.on_item(item)
