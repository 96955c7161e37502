from __future__ import annotations

import asyncio

import pytest

from engines.endpoints import Endpoint, repeating_endpoint, serve_endpoint
from engines.providers import QUICK
from ferrule.engines.doctor import PROBES, TOTAL, examine
from ferrule.engines.doctor.elicitation import CALL_FORMATS
from ferrule.engines.doctor.keywords import KEYWORDS
from ferrule.engines.doctor.sample_tools import MAX_TOKENS
from ferrule.engines.http import HttpClient
from ferrule.engines.profile import Finding, Profile, Verdict, honoured_choices
from ferrule.errors import EngineError, EngineUnavailableError
from ferrule.wire.registry import get_format

ALL = [keyword.name for keyword in KEYWORDS]
IGNORED, REFUSED, UNKNOWN = Verdict.IGNORED, Verdict.REFUSED, Verdict.UNKNOWN


def examine_endpoint(endpoint: Endpoint, runs: int = 2, findings: list[Finding] | None = None) -> Profile:
    async def work(url: str) -> Profile:
        http = HttpClient(url, {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}, QUICK)
        collected = findings if findings is not None else []
        try:
            return await examine(http, "small", runs=runs, advance=collected.append)
        finally:
            await http.close()

    with serve_endpoint(endpoint) as url:
        return asyncio.run(work(url))


def not_honoured(profile: Profile) -> dict[str, Verdict]:
    """The findings whose verdict is not HONOURED."""
    return {finding.name: finding.verdict for finding in profile.findings if finding.verdict is not Verdict.HONOURED}


@pytest.mark.parametrize(
    "endpoint", [Endpoint(), repeating_endpoint()], ids=["follows an instruction", "repeats a call"]
)
def test_a_correct_endpoint_honours_everything(endpoint: Endpoint) -> None:
    findings: list[Finding] = []
    profile = examine_endpoint(endpoint, findings=findings)
    assert not_honoured(profile) == {}
    assert {finding.name for finding in profile.findings} == {"calls", *(probe.name for probe in PROBES)}
    assert sorted(map(str, findings)) == sorted(map(str, profile.findings))
    assert len(findings) == TOTAL
    assert honoured_choices(profile) == {"auto", "none", "required", "one", "allowed"}


@pytest.mark.parametrize(
    "fault, names",
    [
        ("ignores required", ["required"]),
        ("named is auto", ["named"]),
        ("allowed is auto", ["allowed"]),
        ("ignores none", ["none"]),
        ("ignores parallel", ["parallel off"]),
        ("required alone holds no schema", [f"schema: {name}" for name in ALL]),
        ("streams whole calls", ["stream: argument deltas"]),
        ("loses the end of a stream", ["stream: same as whole"]),
        ("no ids", ["stream: ids"]),
        ("new ids", ["stream: ids"]),
        ("one id for all", ["stream: ids"]),
        ("no usage", ["stream: usage"]),
        ("says stop", ["finish reason: auto", "finish reason: required", "finish reason: named"]),
        ("ignores answer schema", ["answer schema", "answer schema beside tools"]),
        ("takes any schema", ["bad schema refused"]),
        ("fails on a bad schema", ["bad schema refused"]),
    ],
)
def test_each_defect_is_found_and_nothing_else_is_reported(fault: str, names: list[str]) -> None:
    findings = not_honoured(examine_endpoint(Endpoint(frozenset({fault}))))
    if fault == "loses the end of a stream":
        # Calls that cannot be parsed are no evidence about deltas.
        assert findings.pop("stream: argument deltas") is UNKNOWN
    assert findings == dict.fromkeys(names, IGNORED)


@pytest.mark.parametrize("keyword", KEYWORDS, ids=lambda keyword: keyword.name)
def test_a_keyword_that_is_dropped_is_found_with_strict_and_without(keyword) -> None:
    findings = not_honoured(examine_endpoint(Endpoint(ignored_keywords=frozenset(keyword.keywords))))
    expected = {f"{how}: {keyword.name}" for how in ("schema", "strict")}
    # Without `type`, `required` or `additionalProperties` the nested object is not enforced either.
    inner = {f"{how}: nested object" for how in ("schema", "strict")}
    assert expected <= findings.keys()
    if keyword.name not in ("type", "nested object", "required", "additionalProperties"):
        assert findings.keys() - inner == expected
    assert all(findings[name] is IGNORED for name in expected)


def test_what_the_endpoint_refuses_is_reported_as_refused_with_its_message() -> None:
    profile = examine_endpoint(Endpoint(frozenset({"no objects"})))
    assert not_honoured(profile) == dict.fromkeys(["named", "allowed", "finish reason: named"], REFUSED)
    assert all("422" in finding.evidence for finding in profile.findings if finding.verdict is REFUSED)
    assert honoured_choices(profile) == {"auto", "none", "required"}


def test_a_server_that_refuses_every_tool_has_a_finding_for_it_and_honours_nothing_of_tools() -> None:
    profile = examine_endpoint(Endpoint(frozenset({"refuses tools"})))
    verdicts = {finding.name: finding.verdict for finding in profile.findings}
    assert verdicts["tools accepted"] is REFUSED
    assert verdicts["bad schema refused"] is UNKNOWN
    assert honoured_choices(profile) == {"auto"}
    honoured = {name for name, verdict in verdicts.items() if verdict is Verdict.HONOURED}
    assert honoured == {"stream: usage", "answer schema"}


def test_a_server_that_refuses_auto_is_examined_for_the_choices_that_it_takes() -> None:
    profile = examine_endpoint(Endpoint(frozenset({"refuses auto"})))
    findings = {finding.name: finding for finding in profile.findings}
    assert findings["tools accepted"].verdict is REFUSED
    assert findings["bad schema refused"].verdict is Verdict.HONOURED
    assert findings["required"].verdict is UNKNOWN
    assert "the request without it is refused: 400" in findings["required"].evidence


def test_a_choice_that_text_can_delay_is_partly_honoured() -> None:
    profile = examine_endpoint(Endpoint(frozenset({"text before the call"})))
    assert not_honoured(profile) == {"required": Verdict.PARTLY}
    assert "required" not in honoured_choices(profile)


def test_a_model_whose_calls_come_back_as_text_is_found_with_its_spelling() -> None:
    profile = examine_endpoint(Endpoint(frozenset({"prints its calls"})))
    finding = next(finding for finding in profile.findings if finding.name == "calls are read")
    assert finding.verdict is IGNORED
    assert "fenced_json" in finding.evidence


def test_for_a_model_that_makes_no_calls_nothing_is_guessed() -> None:
    profile = examine_endpoint(Endpoint(frozenset({"ignores required"}), prompt_pattern=None))
    verdicts = {finding.name: finding.verdict for finding in profile.findings}
    assert verdicts["calls"] is UNKNOWN
    assert verdicts["required"] is IGNORED
    assert verdicts["answer schema"] is Verdict.HONOURED
    needs_call = {probe.name for probe in PROBES if probe.needs_call}
    assert {verdicts[name] for name in needs_call} == {UNKNOWN}
    assert honoured_choices(profile) == {"auto"}


def test_every_request_is_small_and_has_a_seed_and_none_is_sent_twice() -> None:
    endpoint = Endpoint()
    examine_endpoint(endpoint, runs=3)
    assert all(body["max_tokens"] <= MAX_TOKENS and body["seed"] >= 1 for body in endpoint.requests)
    assert {body["temperature"] for body in endpoint.requests} == {0, 1}
    bodies = [str(body) for body in endpoint.requests if body["temperature"] == 1 and len(body["messages"]) > 1]
    assert len(bodies) == len(set(bodies))
    assert len(endpoint.requests) < 300


def test_an_endpoint_that_knows_only_the_newer_limit_gets_it() -> None:
    endpoint = Endpoint(frozenset({"new limit"}))
    assert not_honoured(examine_endpoint(endpoint)) == {}
    assert all("max_completion_tokens" in body for body in endpoint.requests[1:])


def test_an_endpoint_that_does_not_answer_is_an_error_and_no_profile() -> None:
    with serve_endpoint(Endpoint(key="right")) as url, pytest.raises(EngineError, match="401"):
        asyncio.run(_examine_and_close(url))
    with pytest.raises(EngineUnavailableError):
        asyncio.run(_examine_and_close(url))


async def _examine_and_close(url: str) -> Profile:
    http = HttpClient(url, {}, QUICK)
    try:
        return await examine(http, "small", advance=lambda _: None)
    finally:
        await http.close()


def test_the_call_formats_that_are_tried_exist() -> None:
    assert [get_format(name).name for name in CALL_FORMATS] == list(CALL_FORMATS)
