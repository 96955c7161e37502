"""The losses that the documentation permits: each with its page, its sentence, and the requests that it is about.

Everything else that ends without a whole answer is a breach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.operate.budgets import EVENING, MORNING, NOON
from lab.operate.client import Exchange
from lab.operate.day import GATEWAY_DRAINED, POSTGRES_STOPPED, WORKERS_ROLLED, Moment
from lab.operate.kinds import LEAVING_KEY
from lab.paths import ROOT

DOCS: Final = ROOT / "docs"
INTERRUPTING: Final = (POSTGRES_STOPPED, WORKERS_ROLLED, GATEWAY_DRAINED)
"""The steps that may interrupt a call."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """`codes` are those of the errors, and `steps` the steps during which they may come; none is the whole day."""

    name: str
    page: str
    sentence: str
    codes: tuple[str, ...]
    concerns: Callable[[Exchange], bool]
    steps: tuple[str, ...] = ()

    def permits(self, exchange: Exchange, moments: Sequence[Moment]) -> bool:
        failure = exchange.failure
        return (
            failure is not None
            and failure.code in self.codes
            and self.concerns(exchange)
            and (not self.steps or any(one.name in self.steps and overlaps(exchange, one) for one in moments))
        )


def allowance_of(exchange: Exchange, moments: Sequence[Moment]) -> Allowance | None:
    """Return what permits the loss of a request; None if nothing does."""
    return next((one for one in ALLOWANCES if one.permits(exchange, moments)), None)


def missing_sentences(docs: Path = DOCS) -> list[str]:
    """The sentences that the documentation no longer has."""
    return [
        f"{one.page}: {one.sentence}"
        for one in ALLOWANCES
        if " ".join(one.sentence.split()) not in " ".join((docs / one.page).read_text(encoding="utf-8").split())
    ]


def overlaps(exchange: Exchange, moment: Moment) -> bool:
    """Whether a request was open while a step was taken."""
    return exchange.began <= moment.ended and exchange.ended >= moment.began


ALLOWANCES: Final = (
    Allowance(
        "the key is revoked",
        "how-to/keys.md",
        "Within five seconds every process refuses the key with status 401 and the code `key_revoked`.",
        ("key_revoked",),
        lambda exchange: exchange.key == LEAVING_KEY,
    ),
    Allowance(
        "the budget is used up",
        "how-to/quotas.md",
        "429 with the code `quota_exceeded`, a message that names the quota, and `retry-after`.",
        ("quota_exceeded",),
        lambda exchange: exchange.key in (MORNING, NOON, EVENING),
    ),
    Allowance(
        "the ledger is away",
        "how-to/deploy.md",
        "Postgres is unreachable; requests that store nothing are still answered, others get 503 `ledger_unavailable` "
        "before anything runs",
        ("ledger_unavailable",),
        lambda exchange: exchange.kind.is_stored,
        (POSTGRES_STOPPED,),
    ),
    Allowance(
        "the answer broke off after an effect",
        "explanation/effects.md",
        "When an answer breaks off *after* a call with side effects was made, or after its approval was requested, the "
        "error is `interrupted_after_effect` with status 424",
        ("interrupted_after_effect",),
        lambda exchange: exchange.kind.has_effect,
        INTERRUPTING,
    ),
)
