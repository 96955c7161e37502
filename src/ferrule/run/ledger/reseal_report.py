"""ResealReport: what became of stored credentials that were encrypted anew."""

from __future__ import annotations

from dataclasses import dataclass

CredentialKey = tuple[str, str, str]
"""The tenant, the principal and the id of a credential."""


@dataclass(frozen=True, slots=True)
class ResealReport:
    """How many credentials were encrypted anew, how many needed it not, and which could not be decrypted."""

    changed: int = 0
    unchanged: int = 0
    unreadable: tuple[CredentialKey, ...] = ()

    def __add__(self, other: ResealReport) -> ResealReport:
        return ResealReport(
            self.changed + other.changed, self.unchanged + other.unchanged, self.unreadable + other.unreadable
        )
