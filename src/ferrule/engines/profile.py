"""Profile: which features an endpoint honours, as data. Must not know how that was measured or where it is stored.

`engines.doctor` makes profiles, `engines.profile` stores them, and engines read them to decide what to rely on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

from ferrule.core.json_text import dumps, fingerprint, loads
from ferrule.engines.cache_folder import cache_folder
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


def endpoint(url: str) -> str:
    """Return the address without a trailing slash or version, so that equal endpoints compare equal."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def profile_path(url: str, model: str) -> Path:
    """Return the file of a profile."""
    return cache_folder("doctor") / f"{fingerprint([endpoint(url), model])}.json"


def save_profile(profile: Profile) -> Path:
    """Write the profile to a temporary file and move it into place, so that no reader sees half of it."""
    path = profile_path(profile.url, profile.model)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(dumps(profile.as_dict()) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as failure:
        raise DefinitionError(
            f"cannot save the profile: {failure}", code="not_saved", hint="Set XDG_CACHE_HOME, or pass --no-save."
        ) from failure
    return path


def find_profile(url: str, model: str = "") -> Profile | None:
    """Return the last profile of the model at the address; without a model, the newest profile of the address."""
    if model:
        return load_profile(url, model)
    profiles = filter(None, map(_read, sorted(profile_path(url, model).parent.glob("*.json"))))
    return max(
        (profile for profile in profiles if endpoint(profile.url) == endpoint(url)),
        key=lambda profile: profile.date,
        default=None,
    )


def continuation_cost_at(url: str, model: str, default: float | None) -> float | None:
    """Return the cost of one more request at the address, in tokens: the measured cost, or else the default."""
    profile = find_profile(url, model)
    return default if profile is None or profile.continuation_cost is None else profile.continuation_cost


def load_profile(url: str, model: str) -> Profile | None:
    """Return the last profile of the model at the address; None if there is none or it cannot be read."""
    return _read(profile_path(url, model))


def _read(path: Path) -> Profile | None:
    try:
        return Profile.from_dict(loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, DefinitionError):
        # This is a cache: a damaged file counts as missing, and the next examination replaces it.
        return None
