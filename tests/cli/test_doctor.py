from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import run
from engines.endpoints import Endpoint, serve_endpoint
from ferrule.cli.doctor import ADVICE, advice_on
from ferrule.engines.doctor import PROBES, TOOLS
from ferrule.engines.profile import Finding, Profile, Verdict, honoured_choices, load_profile

BAD = frozenset({"named is auto", "required alone holds no schema"})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_profile_is_printed_as_json_and_kept_for_the_engines() -> None:
    with serve_endpoint(Endpoint(BAD)) as url:
        ran = run("doctor", f"{url}/v1", "--runs", "1", "--json")
        saved = load_profile(url, "small")
    assert ran.code == 0
    assert Profile.from_dict(ran.json) == saved
    assert saved is not None
    assert honoured_choices(saved) == {"auto", "none", "required", "allowed"}


def test_nothing_is_kept_where_that_is_not_wanted(cache: Path) -> None:
    with serve_endpoint(Endpoint()) as url:
        assert run("doctor", url, "--runs", "1", "--no-save").code == 0
    assert list(cache.iterdir()) == []


def test_a_pipe_gets_the_table_alone_and_what_ferrule_does_goes_beside_it() -> None:
    with serve_endpoint(Endpoint(BAD)) as url:
        ran = run("doctor", url, "--runs", "1")
    rows = [line.split("\t") for line in ran.out.splitlines()]
    assert rows[0] == ["probe", "verdict", "evidence"]
    assert {len(row) for row in rows} == {3}
    assert ["named", "ignored"] in [row[:2] for row in rows]
    lines = ran.err.splitlines()
    assert any(line.startswith("named (ignored)") and "only that tool is offered" in line for line in lines)
    assert sum("schema: " in line for line in lines) == 1
    assert "Reliable choices: honours=allowed,auto,none,required" in lines


def test_a_terminal_gets_table_and_closing_lines() -> None:
    with serve_endpoint(Endpoint(BAD)) as url:
        ran = run("doctor", url, "--runs", "1", on_terminal=True)
    assert ran.code == 0
    assert "\t" not in ran.out
    assert "ignored" in ran.out
    assert "Reliable choices" in ran.out


def test_the_model_and_the_key_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    endpoint = Endpoint(key="secret")
    with serve_endpoint(endpoint) as url:
        ran = run("doctor", url, "--model", "large", "--key-env", "MY_KEY", "--runs", "1", "--json")
    assert ran.code == 0
    assert {body["model"] for body in endpoint.requests} == {"large"}
    assert "secret" not in ran.out + ran.err


@pytest.mark.parametrize(
    "options, code, expected",
    [
        (["--key-env", "NOT_SET_ANYWHERE"], 1, "NOT_SET_ANYWHERE is not set"),
        (["--runs", "0"], 2, "not a number of runs"),
        ([], 1, "cannot be reached"),
    ],
)
def test_an_impossible_request_is_reported(options: list[str], code: int, expected: str) -> None:
    ran = run("doctor", "http://127.0.0.1:9", *options)
    assert ran.code == code
    assert expected in ran.err


@pytest.mark.parametrize(
    "target, code, expected",
    [
        ("llama:", 1, "engine 'llama' needs a model path: llama:PATH"),
        ("llama:missing.gguf", 1, "there is no model file missing.gguf"),
        ("missing.gguf", 1, "Write llama:missing.gguf."),
        ("no-such-engine:x", 1, "'no-such-engine:x' is neither a URL nor an engine"),
        ("openai:m?colour=red", 1, "openai has no option 'colour'"),
        ("127.0.0.1:9", 1, "cannot be reached"),
    ],
)
def test_a_target_that_cannot_be_tested_says_what_to_write(target: str, code: int, expected: str) -> None:
    ran = run("doctor", target)
    assert ran.code == code
    assert expected in ran.out + ran.err


def test_an_engine_is_asked_for_an_answer_and_a_call_and_its_receipt_is_shown() -> None:
    with serve_endpoint(Endpoint()) as url:
        ran = run("doctor", f"openai:small?url={url}/v1&key=sk-secret-key", "--json")
        assert ran.code == 0, ran.err
        assert [(one["name"], one["verdict"]) for one in ran.json["findings"]] == [
            ("loads", "works"),
            ("answer", "works"),
            ("call", "works"),
        ]
        assert "validated by openai" in ran.json["findings"][-1]["evidence"]
        shown = run("doctor", f"openai:small?url={url}/v1&key=sk-secret-key")
    assert "Nothing to change." in shown.err
    assert f"ferrule doctor {url}" in shown.err
    assert "sk-secret-key" not in shown.out + shown.err


def test_an_engine_that_makes_no_call_fails_with_what_to_change() -> None:
    ran = run("doctor", "fake:Hello.")
    assert ran.code == 1
    assert "call\tfailed" in ran.out
    assert "an engine with a grammar" in ran.err


def test_a_server_that_refuses_tools_is_not_reported_as_keeping_auto() -> None:
    with serve_endpoint(Endpoint(frozenset({"refuses auto"}))) as url:
        ran = run("doctor", url, "--runs", "1", "--no-save")
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in ran.out.splitlines()}
    assert rows["tools accepted"][0] == "refused"
    assert "400" in rows["tools accepted"][1]
    assert "honours=auto" not in ran.err
    assert "--enable-auto-tool-choice" in ran.err


def test_there_is_advice_for_every_probe() -> None:
    findings = tuple(Finding(probe.name, Verdict.UNKNOWN, "") for probe in PROBES)
    lines = advice_on(
        Profile("u", "m", "d", (Finding("calls", Verdict.UNKNOWN, ""), Finding(TOOLS, Verdict.UNKNOWN, ""), *findings))
    )
    assert all(any(f"{finding.name} (unknown)" in line for line in lines) for finding in findings)
    assert len(lines) == len(set(ADVICE.values())) + 1
    assert advice_on(Profile("u", "m", "d"))[0] == "All tested options are honoured."
