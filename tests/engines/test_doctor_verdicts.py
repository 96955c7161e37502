from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.engines.doctor.verdicts import Mark, Sight, broken, concluded, is_kept, kept, loose, nothing
from ferrule.engines.profile import Verdict

GOOD, BAD, CUT, BLANK = kept("did"), broken("strayed"), loose("wrote text until the limit"), nothing("made no call")
NO = Sight(Mark.REFUSED, "400, no")
SIGHTS = st.lists(st.sampled_from([GOOD, BAD, CUT, BLANK, NO]), min_size=1, max_size=6)


@pytest.mark.parametrize(
    "sights, without, verdict",
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
def test_runs_come_to_a_verdict(sights: list[Sight], without: list[Sight] | None, verdict: Verdict) -> None:
    assert concluded("a probe", sights, 3, without).verdict is verdict


@given(SIGHTS, st.none() | SIGHTS, st.integers(1, 3))
def test_no_verdict_is_better_than_its_runs(sights: list[Sight], without: list[Sight] | None, runs: int) -> None:
    finding = concluded("a probe", sights, runs, without)
    assert finding.evidence.strip()
    assert "\n" not in finding.evidence
    if finding.verdict is Verdict.HONOURED:
        assert {sight.mark for sight in sights} <= {Mark.KEPT, Mark.NOTHING}
        assert is_kept(sights, runs)
        assert without is None or {BAD, CUT} & {*without}
    if finding.verdict is Verdict.IGNORED:
        assert BAD in sights
        assert GOOD not in sights


def test_one_lucky_answer_is_not_believed() -> None:
    assert not is_kept([GOOD, BLANK, BLANK, BLANK], 3)
    assert not is_kept([GOOD, BLANK], 2)
    assert is_kept([GOOD], 1)
