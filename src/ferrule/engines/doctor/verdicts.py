"""Verdicts: turns the observations of all runs into a finding. Must not know any probe.

That a feature works in every run proves something only if the model behaves differently without it. So the same
requests are sent without the feature as a control, and if the outcome stays the same, the verdict is "unknown".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ferrule.engines.profile import Finding, Verdict

_MAX_DETAIL = 160


class RunOutcome(Enum):
    """What one run showed about a feature."""

    SUCCESS = "kept"
    VIOLATION = "broken"
    CUTOFF = "loose"
    """Not what was requested, but the token limit cut the response off before it could be."""
    REFUSAL = "refused"
    NO_EVIDENCE = "nothing"
    """The run showed nothing, for example because there was no call whose arguments could be checked."""


@dataclass(frozen=True, slots=True)
class Observation:
    """`detail` continues a sentence that begins with "it", as in "called send_note instead"."""

    outcome: RunOutcome
    detail: str = ""


def success(detail: str = "") -> Observation:
    return Observation(RunOutcome.SUCCESS, detail)


def violation(detail: str) -> Observation:
    return Observation(RunOutcome.VIOLATION, detail)


def cutoff(detail: str) -> Observation:
    return Observation(RunOutcome.CUTOFF, detail)


def no_evidence(detail: str) -> Observation:
    return Observation(RunOutcome.NO_EVIDENCE, detail)


def has_enough_evidence(observations: Sequence[Observation], runs: int) -> bool:
    """Whether at least `runs` runs showed something."""
    return len(observations) - len(_with_outcome(observations, RunOutcome.NO_EVIDENCE)) >= runs


def is_honoured(observations: Sequence[Observation], runs: int) -> bool:
    """Whether no run contradicts the feature and enough confirm it: half of the runs, and at least two of several."""
    successes = len(_with_outcome(observations, RunOutcome.SUCCESS))
    return successes + len(_with_outcome(observations, RunOutcome.NO_EVIDENCE)) == len(
        observations
    ) and successes >= max(min(2, runs), (runs + 1) // 2)


def is_cut_off(observations: Sequence[Observation]) -> bool:
    """Whether every response that showed something was cut off by the token limit."""
    outcomes = {observation.outcome for observation in observations} - {RunOutcome.NO_EVIDENCE, RunOutcome.REFUSAL}
    return outcomes == {RunOutcome.CUTOFF}


def conclude(
    name: str, observations: Sequence[Observation], runs: int, control: Sequence[Observation] | None
) -> Finding:
    """Make the finding. `control` are the runs of the same requests without the feature; None if there are none."""
    if is_honoured(observations, runs):
        return _conclude_honoured(name, observations, control)
    if is_cut_off(observations):
        return _conclude_cut_off(name, observations, control)
    successes, violations = (
        _with_outcome(observations, RunOutcome.SUCCESS),
        _with_outcome(observations, RunOutcome.VIOLATION) or _with_outcome(observations, RunOutcome.CUTOFF),
    )
    refusals, total = _with_outcome(observations, RunOutcome.REFUSAL), len(observations)
    if violations and successes:
        evidence = f"Honoured in {len(successes)} of {total} runs only: otherwise it {_first_detail(violations)}."
        return Finding(name, Verdict.PARTLY, evidence)
    if violations:
        return Finding(
            name, Verdict.IGNORED, f"Not honoured in {len(violations)} of {total} runs: it {_first_detail(violations)}."
        )
    if refusals and not successes:
        return Finding(name, Verdict.REFUSED, f"Refused: {_first_detail(refusals)}")
    inconclusive = _with_outcome(observations, RunOutcome.NO_EVIDENCE)
    why = f"it {_first_detail(inconclusive)}" if inconclusive else "the other runs were refused"
    return Finding(name, Verdict.UNKNOWN, f"Not enough evidence, {len(successes)} of {total} runs: {why}.")


def _conclude_honoured(
    name: str, observations: Sequence[Observation], control: Sequence[Observation] | None
) -> Finding:
    successes = _with_outcome(observations, RunOutcome.SUCCESS)
    count = f"Honoured in {len(successes)} of {len(observations)} runs"
    how = f": it {successes[0].detail}" if successes[0].detail else ""
    if control is None:
        return Finding(name, Verdict.HONOURED, f"{count}{how}.")
    violations = _with_outcome(control, RunOutcome.VIOLATION) or _with_outcome(control, RunOutcome.CUTOFF)
    if violations:
        return Finding(name, Verdict.HONOURED, f"{count}; when not requested, it {_first_detail(violations)}.")
    if control and len(_with_outcome(control, RunOutcome.REFUSAL)) == len(control):
        return Finding(
            name, Verdict.UNKNOWN, f"{count}, but the request without it is refused: {_first_detail(control)}"
        )
    return Finding(name, Verdict.UNKNOWN, f"{count}, but the model did the same when it was not requested.")


def _conclude_cut_off(name: str, observations: Sequence[Observation], control: Sequence[Observation] | None) -> Finding:
    cut_off = _with_outcome(observations, RunOutcome.CUTOFF)
    count = f"In {len(cut_off)} of {len(observations)} runs it {_first_detail(cut_off)}"
    if control and all(observation.outcome is RunOutcome.VIOLATION for observation in control):
        evidence = (
            f"{count}; when not requested, the answer ended by itself, so it has an effect, but text can delay it."
        )
        return Finding(name, Verdict.PARTLY, evidence)
    return Finding(name, Verdict.UNKNOWN, f"{count}.")


def _with_outcome(observations: Sequence[Observation], outcome: RunOutcome) -> list[Observation]:
    return [observation for observation in observations if observation.outcome is outcome]


def _first_detail(observations: Sequence[Observation]) -> str:
    detail = " ".join(observations[0].detail.split())
    return detail if len(detail) <= _MAX_DETAIL else detail[: _MAX_DETAIL - 1].rstrip() + "…"
