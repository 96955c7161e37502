"""Figures and verdicts that pages state about private code are still true."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule import ToolCall
from ferrule.bench.bfcl.categories import Scoring
from ferrule.bench.bfcl.score import AnswerKey, PossibleCall, miss_of
from ferrule.engines.openai import openai
from ferrule.engines.profile import Finding, Profile, Verdict, save_profile

URL = "http://127.0.0.1:8080/v1"


def test_the_scorer_judges_as_the_page_about_benchmarks_says() -> None:
    properties = {"city": {"type": "string"}, "days": {"type": "integer"}}
    document = {"name": "weather.get", "parameters": {"properties": properties, "required": ["city"]}}
    answer = PossibleCall("weather.get", {"city": ["New York", "NYC"], "days": ["", 1]})
    key = AnswerKey(Scoring.SAME_CALLS, (document,), (answer,))
    assert miss_of(key, [ToolCall.of("weather.get", {"city": "new-york"})]) is None
    miss = miss_of(key, [ToolCall.of("weather.get", {"city": "NYC", "days": "1"})])
    assert miss is not None
    assert (miss.reason.value, miss.where) == ("type", "days")


def test_an_engine_uses_a_profile_as_the_page_about_the_doctor_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert openai("small", url=URL).api.honours == {"auto", "none", "required"}
    seen = Finding("named", Verdict.HONOURED, "3 of 3 calls were of the named tool")
    save_profile(Profile(URL, "small", "2026-01-31", (seen,)))
    assert openai("small", url=URL).api.honours == {"auto", "none", "required", "one"}
