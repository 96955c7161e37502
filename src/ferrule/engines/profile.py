"""Profile: which features an endpoint honours, as data. Must not know how that was measured or where it is stored.

`engines.doctor` makes profiles, `engines.profile_file` stores them, and engines read them to decide what to rely on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from ferrule.errors import DefinitionError


class Verdict(Enum):
    """What the probes showed about one feature."""

    HONOURED = "honoured"
    """Followed in every run, and not followed in runs that did not request it."""
    IGNORED = "ignored"
    PARTLY = "partly"
    """Followed only sometimes, or together with output that should not be there."""
    REFUSED = "refused"
    """The endpoint rejects the request. That is safe: the caller learns about it."""
    UNKNOWN = "unknown"
    """The model's answers did not show it either way."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One probe's outcome; `evidence` is a sentence that says what was observed."""

    name: str
    verdict: Verdict
    evidence: str

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "verdict": self.verdict.value, "evidence": self.evidence}


@dataclass(frozen=True, slots=True)
class Profile:
    """An endpoint's findings. `date` is the day of the examination, as in 2026-01-31.

    `continuation_cost` is the cost of one more request on a prompt that was just read, in tokens; None if unknown.
    """

    url: str
    model: str
    date: str
    findings: tuple[Finding, ...] = ()
    continuation_cost: float | None = None

    def honours(self, name: str) -> bool:
        """Whether the probe of that name ran and found that the endpoint honours the feature."""
        return any(finding.name == name and finding.verdict is Verdict.HONOURED for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        findings = [finding.as_dict() for finding in self.findings]
        return {
            "url": self.url,
            "model": self.model,
            "date": self.date,
            "findings": findings,
            "continuation_cost": self.continuation_cost,
        }

    @staticmethod
    def from_dict(value: object) -> Profile:
        """Parse what `as_dict` returns; `DefinitionError` if the value is anything else."""
        body = _object(value)
        listed = body.get("findings")
        if not isinstance(listed, list):
            raise _profile_error("findings is not a list")
        findings = tuple(_parse_finding(_object(entry)) for entry in cast("list[object]", listed))
        cost = body.get("continuation_cost")
        if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
            raise _profile_error("continuation_cost is not a number")
        return Profile(_text(body, "url"), _text(body, "model"), _text(body, "date"), findings, cost)


# The kinds of choice in `Traits.honours`, and the probe that tests each.
_CHOICE_PROBES = {"none": "none", "required": "required", "one": "named", "allowed": "allowed"}


def honoured_choices(profile: Profile, default: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the kinds of choice that the endpoint honours, as in `Traits.honours`; "auto" demands nothing.

    Where the verdict is "unknown", `default` decides.
    """
    verdicts = {finding.name: finding.verdict for finding in profile.findings}
    choices = {
        choice
        for choice, probe in _CHOICE_PROBES.items()
        if profile.honours(probe) or (choice in default and verdicts.get(probe, Verdict.UNKNOWN) is Verdict.UNKNOWN)
    }
    return frozenset({"auto", *choices})


def _parse_finding(body: Mapping[str, object]) -> Finding:
    word = _text(body, "verdict")
    verdict = next((verdict for verdict in Verdict if verdict.value == word), None)
    if verdict is None:
        raise _profile_error(f"{word!r:.40} is not a verdict")
    return Finding(_text(body, "name"), verdict, _text(body, "evidence"))


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _profile_error(f"{value!r:.40} is not an object")
    return cast("dict[str, object]", value)


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise _profile_error(f"{name!r} is not a string")
    return value


def _profile_error(problem: str) -> DefinitionError:
    return DefinitionError(f"not a valid profile: {problem}", code="bad_profile", hint="Run ferrule doctor again.")
