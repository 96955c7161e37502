"""Profile: what an endpoint was found to honour, as values. Must not know how it was found, nor where it is kept.

A profile is made by `engines.doctor`, kept by `engines.profile_file`, and read by whoever must know what to believe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from ferrule.errors import DefinitionError


class Verdict(Enum):
    """What the probes saw of one demand."""

    HONOURED = "honoured"
    """Kept every time, and shown not to be kept where it was not demanded."""
    IGNORED = "ignored"
    PARTLY = "partly"
    """Kept sometimes, or with something that should not be there."""
    REFUSED = "refused"
    """The engine says that it does not take it: safe, for nobody is deceived."""
    UNKNOWN = "unknown"
    """The model could not be brought to show it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One probe's outcome; `evidence` is a sentence that says what was seen."""

    name: str
    verdict: Verdict
    evidence: str

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "verdict": self.verdict.value, "evidence": self.evidence}


@dataclass(frozen=True, slots=True)
class Profile:
    """An endpoint's findings. `date` is the day of the examination, as in 2026-01-31.

    `going_on` is what one more request on a text that was just read costs, in tokens; None where nobody could tell.
    """

    url: str
    model: str
    date: str
    findings: tuple[Finding, ...] = ()
    going_on: float | None = None

    def honours(self, name: str) -> bool:
        """Whether the probe of that name was made and showed that the demand is kept."""
        return any(finding.name == name and finding.verdict is Verdict.HONOURED for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        listed = [finding.as_dict() for finding in self.findings]
        return {
            "url": self.url,
            "model": self.model,
            "date": self.date,
            "findings": listed,
            "going_on": self.going_on,
        }

    @staticmethod
    def from_dict(value: object) -> Profile:
        """`DefinitionError` where it is not what `as_dict` gives."""
        body = _object(value)
        listed = body.get("findings")
        if not isinstance(listed, list):
            raise _damage("it has no list of findings")
        findings = tuple(_finding(_object(entry)) for entry in cast("list[object]", listed))
        price = body.get("going_on")
        if price is not None and (isinstance(price, bool) or not isinstance(price, int | float)):
            raise _damage("the price of going on is no number")
        return Profile(_text(body, "url"), _text(body, "model"), _text(body, "date"), findings, price)


# The choices of `Traits.honours`, and the probe that shows each.
_CHOICES = {"none": "none", "required": "required", "one": "named", "allowed": "allowed"}


def honoured_choices(profile: Profile, believed: frozenset[str] = frozenset()) -> frozenset[str]:
    """The choices that the endpoint keeps by itself, in the words of `Traits.honours`; "auto" demands nothing.

    Where the probes could not tell, what is believed of it stands.
    """
    seen = {finding.name: finding.verdict for finding in profile.findings}
    kept = {
        choice
        for choice, probe in _CHOICES.items()
        if profile.honours(probe) or (choice in believed and seen.get(probe, Verdict.UNKNOWN) is Verdict.UNKNOWN)
    }
    return frozenset({"auto", *kept})


def _finding(body: Mapping[str, object]) -> Finding:
    word = _text(body, "verdict")
    verdict = next((verdict for verdict in Verdict if verdict.value == word), None)
    if verdict is None:
        raise _damage(f"{word!r:.40} is no verdict")
    return Finding(_text(body, "name"), verdict, _text(body, "evidence"))


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _damage(f"{value!r:.40} is no object")
    return cast("dict[str, object]", value)


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise _damage(f"{name!r} is not a text")
    return value


def _damage(told: str) -> DefinitionError:
    return DefinitionError(f"this is not a profile: {told}", code="bad_profile", hint="Run ferrule doctor again.")
