"""Budgets: quotas of a day that their keys ask for more of than there is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lab.operate.kinds import CHAT, PAY, Kind

MORNING, EFFECTS, NOON, EVENING = "morning", "effects", "noon", "evening"
TENANT: Final = "acme"
TOLERANCE: Final = 0.02
_ASKED_FOR: Final = 1.5
"""So many times as much as there is."""
_LEAST: Final = 40
_PART: Final = 0.12
"""How much of the day a budget is used for, if its steps take no longer."""
_MOST_SHARE: Final = 0.3
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Budget:
    """A quota, the key that uses it, and which part of all requests asks for it meanwhile.

    `is_exact` is false while the store is away: then each process has a part, and may refuse what another has left.
    """

    name: str
    kind: Kind
    most: int
    share: float
    is_exact: bool = True

    @property
    def asks(self) -> int:
        return round(_ASKED_FOR * self.most)

    @property
    def lines(self) -> str:
        """Its table in ferrule.toml."""
        counts = "effects" if self.kind.has_effect else "requests"
        return (
            f'[quotas.{self.name}]\ncounts = "{counts}"\nmost = {self.most}\nper = "day"\neach = "key"\n'
            f'keys = ["{self.name}"]\ntenants = ["{TENANT}"]\n'
        )


def budgets_of(rate: float, seconds: float) -> tuple[Budget, ...]:
    """The budgets of a day of that size."""

    def budget(name: str, kind: Kind, share: float, *, is_exact: bool = True) -> Budget:
        # Four processes have equal parts while the store is away.
        most = max(_LEAST, 4 * round(share * rate * seconds * _PART / _ASKED_FOR / 4))
        asked_share = min(_MOST_SHARE, _ASKED_FOR * most / (rate * seconds * _PART))
        return Budget(name, kind, most, asked_share, is_exact)

    return (
        budget(MORNING, CHAT, 0.1),
        budget(EFFECTS, PAY, 0.01),
        budget(NOON, CHAT, 0.04, is_exact=False),
        budget(EVENING, CHAT, 0.1),
    )


def lines_of(budgets: Iterable[Budget]) -> str:
    return "\n".join(one.lines for one in budgets)


def seconds_until_midnight(now: float | None = None) -> float:
    """Until the quotas of a day begin anew, which is at midnight of UTC."""
    return _DAY_SECONDS - (time.time() if now is None else now) % _DAY_SECONDS
