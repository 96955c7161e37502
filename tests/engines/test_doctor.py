from __future__ import annotations

import asyncio

import pytest

from engines.endpoints import Endpoint, repeating, serving
from engines.providers import QUICK
from ferrule.engines.doctor import PROBES, TOTAL, examine
from ferrule.engines.doctor.elicitation import SPELLINGS
from ferrule.engines.doctor.keywords import KEYWORDS
from ferrule.engines.doctor.sample_tools import MAX_TOKENS
from ferrule.engines.http import Http
from ferrule.engines.profile import Finding, Profile, Verdict, honoured_choices
from ferrule.errors import EngineError, EngineUnavailableError
from ferrule.wire.registry import get_format

ALL = [keyword.name for keyword in KEYWORDS]
IGNORED, REFUSED, UNKNOWN = Verdict.IGNORED, Verdict.REFUSED, Verdict.UNKNOWN


def examined(endpoint: Endpoint, runs: int = 2, found: list[Finding] | None = None) -> Profile:
    async def work(url: str) -> Profile:
        http = Http(url, {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}, QUICK)
        seen = found if found is not None else []
        try:
            return await examine(http, "small", runs=runs, advance=seen.append)
        finally:
            await http.close()

    with serving(endpoint) as url:
        return asyncio.run(work(url))


def wanting(profile: Profile) -> dict[str, Verdict]:
    """What is not honoured."""
    return {finding.name: finding.verdict for finding in profile.findings if finding.verdict is not Verdict.HONOURED}


@pytest.mark.parametrize("endpoint", [Endpoint(), repeating()], ids=["asked in words", "given a call to repeat"])
def test_of_an_endpoint_that_behaves_everything_is_found_to_be_honoured(endpoint: Endpoint) -> None:
    found: list[Finding] = []
    profile = examined(endpoint, found=found)
    assert wanting(profile) == {}
    assert {finding.name for finding in profile.findings} == {"calls", *(probe.name for probe in PROBES)}
    assert sorted(map(str, found)) == sorted(map(str, profile.findings))
    assert len(found) == TOTAL
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
def test_each_bad_habit_is_found_and_nothing_else_is_held_against_the_endpoint(fault: str, names: list[str]) -> None:
    found = wanting(examined(Endpoint(frozenset({fault}))))
    if fault == "loses the end of a stream":
        # Calls that cannot be read show nothing of how they come in pieces.
        assert found.pop("stream: argument deltas") is UNKNOWN
    assert found == dict.fromkeys(names, IGNORED)


@pytest.mark.parametrize("keyword", KEYWORDS, ids=lambda keyword: keyword.name)
def test_a_keyword_that_is_dropped_is_found_with_strict_and_without(keyword) -> None:
    found = wanting(examined(Endpoint(drops=frozenset(keyword.keywords))))
    expected = {f"{how}: {keyword.name}" for how in ("schema", "strict")}
    # Dropping `type`, `required` or `additionalProperties` lets go of the inner object too.
    inner = {f"{how}: nested object" for how in ("schema", "strict")}
    assert expected <= found.keys()
    if keyword.name not in ("type", "nested object", "required", "additionalProperties"):
        assert found.keys() - inner == expected
    assert all(found[name] is IGNORED for name in expected)


def test_what_the_endpoint_refuses_is_told_as_refused_with_its_words() -> None:
    profile = examined(Endpoint(frozenset({"no objects"})))
    assert wanting(profile) == dict.fromkeys(["named", "allowed", "finish reason: named"], REFUSED)
    assert all("422" in finding.evidence for finding in profile.findings if finding.verdict is REFUSED)
    assert honoured_choices(profile) == {"auto", "none", "required"}


def test_a_demand_that_can_be_put_off_with_text_is_partly_honoured() -> None:
    profile = examined(Endpoint(frozenset({"text before the call"})))
    assert wanting(profile) == {"required": Verdict.PARTLY}
    assert "required" not in honoured_choices(profile)


def test_of_a_model_that_cannot_be_brought_to_call_nothing_is_guessed() -> None:
    profile = examined(Endpoint(frozenset({"ignores required"}), reads=None))
    verdicts = {finding.name: finding.verdict for finding in profile.findings}
    assert verdicts["calls"] is UNKNOWN
    assert verdicts["required"] is IGNORED
    assert verdicts["answer schema"] is Verdict.HONOURED
    needs_call = {probe.name for probe in PROBES if probe.needs_call}
    assert {verdicts[name] for name in needs_call} == {UNKNOWN}
    assert honoured_choices(profile) == {"auto"}


def test_every_request_is_small_and_has_a_seed_and_none_is_sent_twice() -> None:
    endpoint = Endpoint()
    examined(endpoint, runs=3)
    assert all(body["max_tokens"] <= MAX_TOKENS and body["seed"] >= 1 for body in endpoint.asked)
    assert {body["temperature"] for body in endpoint.asked} == {0, 1}
    asked = [str(body) for body in endpoint.asked if body["temperature"] == 1 and len(body["messages"]) > 1]
    assert len(asked) == len(set(asked))
    assert len(endpoint.asked) < 300


def test_an_endpoint_that_knows_only_the_newer_limit_is_asked_with_it() -> None:
    endpoint = Endpoint(frozenset({"new limit"}))
    assert wanting(examined(endpoint)) == {}
    assert all("max_completion_tokens" in body for body in endpoint.asked[1:])


def test_an_endpoint_that_does_not_say_hello_is_an_error_and_no_profile() -> None:
    with serving(Endpoint(key="right")) as url, pytest.raises(EngineError, match="401"):
        asyncio.run(_closing(url))
    with pytest.raises(EngineUnavailableError):
        asyncio.run(_closing(url))


async def _closing(url: str) -> Profile:
    http = Http(url, {}, QUICK)
    try:
        return await examine(http, "small", advance=lambda _: None)
    finally:
        await http.close()


def test_the_spellings_that_are_tried_are_formats() -> None:
    assert [get_format(name).name for name in SPELLINGS] == list(SPELLINGS)
