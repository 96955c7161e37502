"""CallContext: what travels with a call besides its arguments: who asks, until when, under which key, how deep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ferrule.errors import AuthorityError, BudgetError

DEFAULT_HOPS = 6


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling. `scopes` are the capabilities that he may use; None is all of them.

    A capability of a kind is written `kind:name`, such as `model:smol`; a tool's has no kind. `kind:*` stands for all
    of a kind, and `*` for all tools. They are plain texts, so that they travel on a bus like any other.
    """

    name: str = "local"
    tenant: str = "local"
    scopes: frozenset[str] | None = None

    def may_use(self, capability: str) -> bool:
        return self.scopes is None or capability in self.scopes or _all_of_its_kind(capability) in self.scopes

    def require(self, capability: str) -> None:
        if not self.may_use(capability):
            raise AuthorityError(
                f"{self.name} may not use {capability}", hint="Give the key this scope, or call with one that has it."
            )


def _all_of_its_kind(capability: str) -> str:
    kind, colon, _ = capability.partition(":")
    return f"{kind}:*" if colon else "*"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a tool has come. `total` is None where nobody knows."""

    done: float
    total: float | None = None
    message: str = ""


def _unheard(progress: Progress) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """`call_id` is the idempotency key: the same for every attempt at the same call. `deadline` is in Unix seconds."""

    call_id: str = ""
    conversation: str = ""
    principal: Principal = field(default_factory=Principal)
    deadline: float | None = None
    hops: int = DEFAULT_HOPS
    """How many calls deep tools may still call tools."""
    tell: Callable[[Progress], None] = field(default=_unheard, compare=False, repr=False)

    def deeper(self) -> CallContext:
        """The context for a call that a tool makes."""
        if self.hops <= 0:
            raise BudgetError(
                "tools have called tools as deep as they may", hint="Answer without another call, or raise the budget."
            )
        return replace(self, hops=self.hops - 1)

    def report(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell whoever waits how far the tool has come."""
        self.tell(Progress(done, total, message))
