import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.command_line import run
from ferrule.core.message import Reasoning
from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render

HERMES = get_format("hermes")
TEXT = render(HERMES, Reply.of(Reasoning("where?"), "Let me look.", PARIS, ROME))
CUT_OFF = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro'


def without_ids(reply: dict) -> dict:
    return {**reply, "parts": [{k: v for k, v in part.items() if k != "id"} for part in reply["parts"]]}


def test_the_reply_comes_out_as_json_with_its_parts_in_order() -> None:
    ran = run("parse", "--format", "hermes", stdin=TEXT)
    assert ran.code == 0
    assert all(part["id"] for part in ran.json["parts"] if part["kind"] == "call")
    call = {"kind": "call", "name": "get_weather", "complete": True}
    assert without_ids(ran.json) == {
        "parts": [
            {"kind": "reasoning", "text": "where?"},
            {"kind": "text", "text": "Let me look."},
            {**call, "arguments": {"city": "Paris", "days": 2}},
            {**call, "arguments": {"city": "Rome"}},
        ],
        "finish_reason": "tool_calls",
        "diagnostics": [],
    }


@given(size=st.integers(1, len(TEXT) + 1))
def test_any_chunk_size_gives_the_same_reply(size: int) -> None:
    whole = run("parse", "-f", "hermes", stdin=TEXT).json
    assert without_ids(run("parse", "-f", "hermes", "--chunk", str(size), stdin=TEXT).json) == without_ids(whole)


def test_numbers_stay_as_the_model_wrote_them() -> None:
    arguments = '{"a": 1.0, "b": 1e3, "c": 123456789012345678901234567890}'
    ran = run("parse", "-f", "hermes", stdin=f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>')
    assert f'"arguments": {arguments}' in ran.out


def test_a_call_that_was_cut_off_is_not_complete_and_its_arguments_are_the_text_so_far() -> None:
    ran = run("parse", "-f", "hermes", stdin=CUT_OFF)
    assert ran.code == 0
    (call,) = ran.json["parts"]
    assert (call["arguments"], call["complete"]) == ('{"city": "Ro', False)
    assert [result["code"] for result in ran.json["diagnostics"]] == ["cut_off"]


def test_events_come_one_to_a_line_and_add_up() -> None:
    lines = run("parse", "-f", "hermes", "--events", "--chunk", "1", stdin=TEXT).out.splitlines()
    events = [json.loads(line) for line in lines]
    assert "".join(event["text"] for event in events if event["event"] == "text") == "Let me look."
    rendered = "".join(e["json"] for e in events if e["event"] == "arguments" and e["index"] == 0)
    assert json.loads(rendered) == PARIS.arguments
    assert [event["event"] for event in events].count("call_end") == 2


def test_the_prefix_is_read_before_the_text_and_not_printed() -> None:
    ran = run("parse", "-f", "hermes", "--prefix", "<think>\n", stdin="hm\n</think>\n\nyes")
    assert ran.json["parts"] == [{"kind": "reasoning", "text": "hm"}, {"kind": "text", "text": "yes"}]


def test_the_tools_type_what_the_wire_leaves_untyped(tools_file: str) -> None:
    text = "<tool_call>\n<function=get_weather>\n<parameter=city>\n7\n</parameter>\n</function>\n</tool_call>"
    ran = run("parse", "-f", "qwen_xml", "--tools", tools_file, stdin=text)
    assert ran.json["parts"][0]["arguments"] == {"city": "7"}


def test_several_formats_are_all_read() -> None:
    both = TEXT + "\n" + render(get_format("mistral_v13"), Reply.of(ROME))
    parts = run("parse", "-f", "hermes,mistral_v13", stdin=both).json["parts"]
    assert [part["kind"] for part in parts].count("call") == 3


@given(text=st.text() | st.binary())
def test_no_input_makes_it_fail_and_no_character_of_plain_text_is_lost(text: str | bytes) -> None:
    given_bytes = text.encode("utf-8") if isinstance(text, str) else text
    ran = run("parse", "-f", "generic_xml", "--chunk", "3", stdin=given_bytes)
    assert ran.code == 0
    answer = "".join(part["text"] for part in ran.json["parts"])
    if b"<" not in given_bytes and b"`" not in given_bytes:
        assert answer.encode("utf-8", "surrogateescape") == given_bytes


def test_on_a_terminal_a_reply_is_a_page_with_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = run("parse", "-f", "hermes", stdin=TEXT + "</think>" + CUT_OFF, on_terminal=True).out
    labels = [line.split()[0] for line in out.splitlines() if line[:1].strip()]
    assert labels == ["reasoning", "text", "call", "call", "call", "diagnostic", "diagnostic", "finish"]
    assert '{"city": "Paris", "days": 2}' in out
    assert out.count("never run it") == 1


def test_on_a_terminal_a_model_cannot_steer_the_cursor_or_the_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = run("parse", "-f", "hermes", stdin="\x1b[2J[bold]\x9b1A\u202e\x07 :smile:\r!", on_terminal=True).out
    assert "\\x1b[2J[bold]\\x9b1A\\u202e\\x07 :smile:\\r!" in out
