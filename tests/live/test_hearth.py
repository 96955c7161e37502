"""The specification's integration tests on a real bus: real workers and tools, with scripted replies."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ferrule import Reply, ToolCall, ToolResult
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered
from ferrule.run.loop import Loop
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.subject import Capability
from ferrule.sources.default_tools import DEFAULT_TOOLS
from live.hearth_house import EXAMPLES, ROOT, Hearth, hearth_at
from live.model_endpoint import DESCRIPTION, WORDS, model_endpoint

pytestmark = pytest.mark.live
RELAY = Capability.read("llm.tools.call")


@pytest.fixture(scope="module")
def hearth(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hearth]:
    with hearth_at(tmp_path_factory.mktemp("hearth")) as house:
        yield house


def said(loop: Loop) -> list[Any]:
    return [result for message in loop.new_messages for result in message.results]


def test_the_seven_default_tools_are_served_as_they_are_defined(hearth: Hearth) -> None:
    async def looked(bus: Bus) -> dict[str, Any]:
        return {tool.name: tool for tool in await bus.tools()}

    served = hearth.on_bus(looked)
    assert len(DEFAULT_TOOLS) == 7
    for tool in DEFAULT_TOOLS:
        result = served[tool.name]
        assert (result.bound_capability, result.bound_version) == (tool.bound_capability, tool.bound_version)
        assert set(result.properties) == set(tool.properties)
        assert set(result.required) == set(tool.required)
        assert not result.side_effects
    assert served["post_to_market"].side_effects


def test_an_answer_is_grounded_by_a_search_over_real_files(hearth: Hearth) -> None:
    loop = hearth.chat(
        [
            Reply.of(ToolCall.of("search_corpus", {"query": "boiler pressure", "limit": 1}, id="c1")),
            Reply.of("Between 1.2 and 1.8 bar."),
        ]
    )
    (result,) = said(loop)
    assert not result.is_error
    (passage,) = result.content
    assert (passage["corpus"], passage["file"]) == ("house", "heating.md")
    page = EXAMPLES / "hearth" / "corpora" / "house" / "heating.md"
    assert passage["text"] in page.read_text(encoding="utf-8")
    assert "1.2 and 1.8 bar" in passage["text"]
    assert loop.reply.text == "Between 1.2 and 1.8 bar."


def test_a_chain_of_tools_ends_in_a_translation(hearth: Hearth) -> None:
    requests = {"capability": "trans.text@1.0", "input": {"text": "apples keeps until March", "to": "fr"}}
    loop = hearth.chat(
        [
            Reply.of(ToolCall.of("search_corpus", {"query": "Boskoop keeps", "corpus": "garden"}, id="c1")),
            Reply.of(ToolCall.of("translate", {"text": "apples keeps until March", "to": "de"}, id="c2")),
            Reply.of(ToolCall.of("call_tool", requests, id="c3")),
            Reply.of("Äpfel hält bis März."),
        ]
    )
    search, german, french = said(loop)
    assert "keeps until March" in json.dumps(search.content)
    assert german.content == {"text": "Äpfel hält bis März", "not_in_the_table": []}
    assert french.content == {"text": "pommes se garde jusqu'en mars", "not_in_the_table": []}
    line = hearth.lines()[-1]
    assert (line["call"], line["capability"], line["outcome"]) == ("c3", "trans.text@1.0", "answered")
    assert (line["principal"], line["hops"]) == ("local", 6)


def test_a_market_post_needs_approval_and_is_posted_once(hearth: Hearth) -> None:
    posting = [
        Reply.of(ToolCall.of("post_to_market", {"title": "a blue bicycle", "kind": "offer"}, id="p1")),
        Reply.of("Done."),
    ]
    refused = hearth.chat(posting, allows=False)
    assert said(refused)[0].is_error
    assert hearth.call("list_marketplace", {"about": "bicycle"}) == Answered([])
    allowed = hearth.chat(posting)
    assert said(allowed)[0].content["title"] == "a blue bicycle"
    listed = hearth.call("list_marketplace", {"about": "Bicycle"})
    assert isinstance(listed, Answered)
    assert [notice["kind"] for notice in listed.content] == ["offer"]


def test_a_relay_does_not_replace_approval(hearth: Hearth) -> None:
    body = {"capability": "market.post@1.0", "input": {"title": "stolen", "kind": "offer"}}
    outcome = hearth.call("call_tool", body)
    assert isinstance(outcome, Answered)
    assert (outcome.is_error, outcome.code) == (True, "requires_confirmation")
    assert hearth.call("list_marketplace", {"about": "stolen"}) == Answered([])


def test_tools_that_call_tools_are_stopped_by_the_budget(hearth: Hearth) -> None:
    body: dict[str, Any] = {"capability": "rag.list_corpora@1.0", "input": {}}
    for _ in range(20):
        body = {"capability": "llm.tools.call@1.0", "input": body}
    before = len(hearth.lines()) if hearth.audit.exists() else 0
    outcome = hearth.call("call_tool", body, CallContext(call_id="deep"))
    assert isinstance(outcome, Answered)
    assert (outcome.is_error, outcome.code) == (True, "budget_exhausted")
    lines = hearth.lines()[before:]
    assert sorted(line["hops"] for line in lines) == list(range(7))
    assert {line["call"] for line in lines} == {"deep"}


def test_a_chain_within_the_budget_reaches_its_end(hearth: Hearth) -> None:
    body: dict[str, Any] = {"capability": "rag.list_corpora@1.0", "input": {}}
    for _ in range(4):
        body = {"capability": "llm.tools.call@1.0", "input": body}
    outcome = hearth.call("call_tool", body)
    assert isinstance(outcome, Answered)
    assert [entry["corpus"] for entry in outcome.content] == ["garden", "house"]


def test_a_tool_that_calls_has_no_more_rights_than_who_called_it(hearth: Hearth) -> None:
    ann = CallContext(principal=Principal("ann", scopes=frozenset({"llm.tools.call", "rag.list_corpora"})))
    allowed = hearth.call("call_tool", {"capability": "rag.list_corpora@1.0", "input": {}}, ann)
    assert isinstance(allowed, Answered)
    assert not allowed.is_error
    refused = hearth.call("call_tool", {"capability": "market.list@1.0", "input": {}}, ann)
    assert isinstance(refused, Answered)
    assert (refused.is_error, refused.code) == (True, "token_scope_insufficient")
    assert hearth.lines()[-1]["code"] == "token_scope_insufficient"


@pytest.mark.parametrize(
    "body, code",
    [
        ({"capability": "trans.text@1.0", "input": {"text": "x"}}, "bad_request"),
        ({"capability": "trans.text@7.0", "input": {"text": "x", "to": "de"}}, "bad_request"),
        ({"capability": "nonsense", "input": {}}, "bad_request"),
    ],
)
def test_a_relay_checks_against_the_targets_own_schema(hearth: Hearth, body: dict[str, Any], code: str) -> None:
    outcome = hearth.call("call_tool", body)
    assert isinstance(outcome, Answered)
    assert (outcome.is_error, outcome.code) == (True, code)


def test_neighbours_are_found_by_discovery(hearth: Hearth) -> None:
    result = hearth.call("find_neighbour", {"can": "trans.text"})
    assert result == Answered([{"neighbour": "kitchen", "can": ["trans.text@1.0"]}])
    everybody = hearth.call("find_neighbour", {})
    assert isinstance(everybody, Answered)
    assert [entry["neighbour"] for entry in everybody.content] == ["kitchen", "relay"]


def test_the_words_of_a_spoken_sentence_are_transcribed(hearth: Hearth) -> None:
    result = hearth.dispatch(ToolCall.of("transcribe_audio", {"file": "note.wav"}, id="s1"))
    assert not result.is_error, result.content
    assert result.content["text"] == "the boiler pressure should be between one and two bar"
    assert result.content["recogniser"] == "pocketsphinx, English"
    assert result.content["seconds"] > 0


@pytest.mark.parametrize(
    "sentence",
    ["We need bread, milk and butter from the market.", "The children are playing in the park."],
)
def test_other_sentences_have_words_of_their_own(hearth: Hearth, sentence: str) -> None:
    path = Path(hearth.environment["HEARTH_FILES"]) / "sentence.wav"
    subprocess.run(["flite", "-voice", "rms", "-t", sentence, "-o", str(path)], check=True)
    result = hearth.dispatch(ToolCall.of("transcribe_audio", {"file": path.name}, id="s2"))
    assert result.content["text"].split() == re.findall(r"\w+", sentence.lower())


def test_a_recording_without_speech_has_no_words(hearth: Hearth) -> None:
    result = hearth.dispatch(ToolCall.of("transcribe_audio", {"file": "bell.wav"}, id="s3"))
    assert result.content["text"] == ""
    assert result.content["seconds"] == 2.5
    assert result.content["silences"] == [{"from": 1.0, "to": 1.5}]
    assert result.content["peak_dbfs"] == -6.0


def test_the_text_in_a_picture_is_read(hearth: Hearth) -> None:
    result = hearth.dispatch(ToolCall.of("describe_image", {"file": "sign.png"}, id="i1"))
    assert not result.is_error, result.content
    assert result.content["text"] == ["FRESH EGGS"]
    assert "FRESH EGGS" in result.content["description"]


def test_a_picture_without_text_is_described_by_its_colours(hearth: Hearth) -> None:
    result = hearth.dispatch(ToolCall.of("describe_image", {"file": "sunset.png"}, id="i2"))
    assert result.content["text"] == []
    assert "mostly orange and blue" in result.content["description"]
    assert (result.content["width"], result.content["height"]) == (120, 80)
    assert [entry["colour"] for entry in result.content["colours"]] == ["orange", "blue"]


@pytest.mark.parametrize("tool", ["describe_image", "transcribe_audio"])
@pytest.mark.parametrize("content", [b"", b"hello", b"RIFF\0\0\0\0WAVE", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\0"])
def test_a_file_that_is_neither_is_refused(hearth: Hearth, tool: str, content: bytes) -> None:
    path = Path(hearth.environment["HEARTH_FILES"]) / "broken"
    path.write_bytes(content)
    result = hearth.dispatch(ToolCall.of(tool, {"file": "broken"}, id="b1"))
    assert result.is_error
    assert "picture" in result.text or "recording" in result.text


def test_endpoints_come_first_and_get_the_files_byte_for_byte(tmp_path: Path) -> None:
    with model_endpoint() as endpoint:
        settings = {
            **{"HEARTH_VISION_URL": endpoint.url, "HEARTH_VISION_MODEL": "seer", "HEARTH_VISION_KEY": "k1"},
            **{"HEARTH_SPEECH_URL": f"{endpoint.url}/", "HEARTH_SPEECH_MODEL": "listener"},
            "no_proxy": "127.0.0.1",
        }
        with hearth_at(tmp_path, settings) as hearth:
            (tmp_path / "talk.mp3").write_bytes(b"\r\n--not a WAV\0\xff\r\n")
            picture = hearth.dispatch(ToolCall.of("describe_image", {"file": "sunset.png"}, id="e1"))
            note = hearth.dispatch(ToolCall.of("transcribe_audio", {"file": "note.wav"}, id="e2"))
            talk = hearth.dispatch(ToolCall.of("transcribe_audio", {"file": "talk.mp3"}, id="e3"))
    assert (picture.content["description"], picture.content["model"]) == (DESCRIPTION, "seer")
    assert picture.content["width"] == 120
    assert (note.content["text"], note.content["recogniser"]) == (WORDS, "listener")
    assert note.content["format"].startswith("WAV")
    assert talk.content == {"text": WORDS, "recogniser": "listener"}
    seen, heard, talked = endpoint.requests
    assert (seen.path, seen.headers["authorization"]) == ("/v1/chat/completions", "Bearer k1")
    body = json.loads(seen.body)
    (message,) = body["messages"]
    question, image = message["content"]
    assert (body["model"], question["type"], image["type"]) == ("seer", "text", "image_url")
    beginning, data = image["image_url"]["url"].split(",")
    assert beginning == "data:image/png;base64"
    assert base64.b64decode(data, validate=True) == (tmp_path / "sunset.png").read_bytes()
    for request, name in ((heard, "note.wav"), (talked, "talk.mp3")):
        assert (request.path, "authorization" in request.headers) == ("/v1/audio/transcriptions", False)
        form = request.form()
        assert (form["model"].content, form["response_format"].content) == (b"listener", b"json")
        assert (form["file"].name, form["file"].content) == (name, (tmp_path / name).read_bytes())


def test_an_endpoint_that_fails_is_an_error_without_its_address(tmp_path: Path) -> None:
    results: list[ToolResult] = []
    answers: list[tuple[int, Any]] = [(500, {}), (302, {}), (200, {}), (200, []), (200, None)]
    with model_endpoint() as endpoint:
        settings = {"HEARTH_VISION_URL": endpoint.url, "HEARTH_VISION_MODEL": "seer", "HEARTH_SPEECH_URL": endpoint.url}
        with hearth_at(tmp_path, {**settings, "no_proxy": "127.0.0.1"}) as hearth:
            for endpoint.status, endpoint.answer in answers:
                results.append(hearth.dispatch(ToolCall.of("describe_image", {"file": "sunset.png"}, id="f1")))
                results.append(hearth.dispatch(ToolCall.of("transcribe_audio", {"file": "note.wav"}, id="f2")))
    # A redirect is not followed: the file is for this address only.
    assert len(endpoint.requests) == len(results) == 2 * len(answers)
    assert all(result.is_error and "127.0.0.1" not in result.text for result in results)


def test_a_tool_without_its_model_is_not_served_and_the_others_are(tmp_path: Path) -> None:
    # Packages that cannot be imported, found before the installed ones.
    for package in ("pocketsphinx", "rapidocr"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('it is broken')", encoding="utf-8")
    paths = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    with hearth_at(tmp_path, {**paths, "HEARTH_VISION_URL": "", "HEARTH_SPEECH_URL": ""}) as hearth:
        served = {tool.name for tool in hearth.on_bus(lambda bus: bus.tools())}
        notices = hearth.notices.read_text(encoding="utf-8").splitlines()
        listed = hearth.dispatch(ToolCall.of("list_corpora", {}, id="m1"))
    assert {tool.name for tool in DEFAULT_TOOLS} - served == {"describe_image", "transcribe_audio"}
    assert notices == [
        "describe_image is not served: set HEARTH_VISION_URL, or install rapidocr and onnxruntime (it is broken)",
        "transcribe_audio is not served: set HEARTH_SPEECH_URL, or install pocketsphinx (it is broken)",
    ]
    assert not listed.is_error


@pytest.mark.parametrize("name", ["../market.db", "relay.jsonl/../../etc/passwd", "/etc/passwd", "missing.png", "a\0b"])
def test_no_name_leads_out_of_the_folder(hearth: Hearth, name: str) -> None:
    for tool in ("describe_image", "transcribe_audio"):
        outcome = hearth.call(tool, {"file": name})
        assert isinstance(outcome, Answered)
        assert outcome.is_error


def test_the_commands_of_the_readme_work_as_they_are_printed(hearth: Hearth) -> None:
    page = (EXAMPLES / "hearth" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    looks = [line for line in commands if "hearth.call" in line or line.endswith("capabilities")]
    assert len(looks) == 5
    printed = ""
    for line in looks:
        shell = ["bash", "-c", line]
        ran = subprocess.run(shell, cwd=EXAMPLES, env=hearth.environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr}"
        printed += ran.stdout
    for expected in ("rag.query@1.0", "1.2 and 1.8 bar", "FRESH EGGS", "between one and two bar", "guten Morgen"):
        assert expected in printed
