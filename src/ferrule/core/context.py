"""CallContext: what goes with a call besides its arguments: the principal, the deadline, the idempotency key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule.errors import AuthorityError, BudgetError

DEFAULT_HOPS = 6


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling. `scopes` are the capabilities that the principal may use; None means all.

    A capability is written `kind:name`, such as `model:smol`; that of a tool is only its name. `kind:*` means all of a
    kind, and `*` all tools. They are plain strings, so that they can be sent over a bus.
    """

    name: str = "local"
    tenant: str = "local"
    scopes: frozenset[str] | None = None

    def may_use(self, capability: str) -> bool:
        return self.scopes is None or capability in self.scopes or _wildcard(capability) in self.scopes

    def require(self, capability: str) -> None:
        if not self.may_use(capability):
            raise AuthorityError(
                f"{self.name} may not use {capability}", hint="Add this scope to the key, or use a key that has it."
            )


def _wildcard(capability: str) -> str:
    kind, colon, _ = capability.partition(":")
    return f"{kind}:*" if colon else "*"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running tool. `total` is None if it is unknown."""

    done: float
    total: float | None = None
    message: str = ""


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
