from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.engines.doctor.verdicts import (
    Observation,
    RunOutcome,
    conclude,
    cutoff,
    is_honoured,
    no_evidence,
    success,
    violation,
)
from ferrule.engines.profile import Verdict

GOOD, BAD, CUT, BLANK = (
    success("did"),
    violation("strayed"),
    cutoff("wrote text until the limit"),
    no_evidence("made no call"),
)
NO = Observation(RunOutcome.REFUSAL, "400, no")
OBSERVATIONS = st.lists(st.sampled_from([GOOD, BAD, CUT, BLANK, NO]), min_size=1, max_size=6)


@pytest.mark.parametrize(
    "observations, control, verdict",
    [
        ([GOOD, GOOD, GOOD], [BAD, GOOD, GOOD], Verdict.HONOURED),
        ([GOOD, GOOD, GOOD], [GOOD, GOOD, GOOD], Verdict.UNKNOWN),
        ([GOOD, GOOD, GOOD], [BLANK, BLANK, BLANK], Verdict.UNKNOWN),
        ([GOOD, GOOD, GOOD], None, Verdict.HONOURED),
        ([GOOD, GOOD, BLANK], None, Verdict.HONOURED),
        ([GOOD, BLANK, BLANK], None, Verdict.UNKNOWN),
        ([GOOD, GOOD, BAD], None, Verdict.PARTLY),
        ([GOOD, GOOD, CUT], None, Verdict.PARTLY),
        ([BAD, BAD, BLANK], None, Verdict.IGNORED),
        ([BAD, CUT, CUT], None, Verdict.IGNORED),
        ([CUT, CUT, CUT], [BAD, BAD, BAD], Verdict.PARTLY),
        ([CUT, CUT, CUT], [BAD, CUT, BAD], Verdict.UNKNOWN),
        ([NO, NO, NO], None, Verdict.REFUSED),
        ([BLANK, BLANK, BLANK], None, Verdict.UNKNOWN),
    ],
)
def test_runs_come_to_a_verdict(
    observations: list[Observation], control: list[Observation] | None, verdict: Verdict
) -> None:
    assert conclude("a probe", observations, 3, control).verdict is verdict


@given(OBSERVATIONS, st.none() | OBSERVATIONS, st.integers(1, 3))
def test_no_verdict_is_better_than_its_runs(
    observations: list[Observation], control: list[Observation] | None, runs: int
) -> None:
    finding = conclude("a probe", observations, runs, control)
    assert finding.evidence.strip()
    assert "\n" not in finding.evidence
    if finding.verdict is Verdict.HONOURED:
        assert {observation.outcome for observation in observations} <= {RunOutcome.SUCCESS, RunOutcome.NO_EVIDENCE}
        assert is_honoured(observations, runs)
        assert control is None or {BAD, CUT} & {*control}
    if finding.verdict is Verdict.IGNORED:
        assert BAD in observations
        assert GOOD not in observations


def test_one_lucky_answer_is_not_believed() -> None:
    assert not is_honoured([GOOD, BLANK, BLANK, BLANK], 3)
    assert not is_honoured([GOOD, BLANK], 2)
    assert is_honoured([GOOD], 1)
