"""What a client sends and nobody reads is taken, refused by name, or reported: never left out in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.request import ToolCallRequest
from ferrule.dialects.anthropic.request_decoder import read_request as read_messages
from ferrule.dialects.field import Field
from ferrule.dialects.field_reads import FieldReads
from ferrule.dialects.ignored_fields import TABLES, metric_label
from ferrule.dialects.openai_chat.request_decoder import read_request as read_chat
from ferrule.dialects.openai_responses.request_decoder import read_request as read_responses
from ferrule.errors import DefinitionError

Read = Callable[[dict[str, Any]], ToolCallRequest]
USER = [{"role": "user", "content": "hi"}]
FUNCTION = {"name": "add", "parameters": {"type": "object"}}
READERS: dict[str, tuple[Read, dict[str, Any]]] = {
    "chat": (read_chat, {"messages": USER, "tools": [{"type": "function", "function": FUNCTION}]}),
    "responses": (read_responses, {"input": USER, "tools": [{"type": "function", **FUNCTION}]}),
    "messages": (read_messages, {"messages": USER, "tools": [{"name": "add", "input_schema": {"type": "object"}}]}),
}


def read(api: str, **fields: Any) -> tuple[str, ...]:
    reader, body = READERS[api]
    return reader({**body, **fields}).ignored


def with_tool(api: str, **fields: Any) -> tuple[str, ...]:
    return read(api, tools=[{**READERS[api][1]["tools"][0], **fields}])


@pytest.mark.parametrize("api", READERS)
def test_a_plain_request_reports_nothing(api: str) -> None:
    assert read(api) == ()


@pytest.mark.parametrize(
    "api, fields, path",
    [
        ("chat", {"logprobs": True}, "logprobs"),
        ("chat", {"logit_bias": {"1": 5}}, "logit_bias"),
        ("chat", {"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ("chat", {"verbosity": "low"}, "verbosity"),
        ("chat", {"messages": [{"role": "user", "name": "ann", "content": "hi"}]}, "messages[].name"),
        ("responses", {"text": {"verbosity": "low"}}, "text.verbosity"),
        ("responses", {"include": ["message.output_text.logprobs"]}, "include[]=message.output_text.logprobs"),
        ("responses", {"input": [{**USER[0], "phase": "commentary"}]}, "input[].phase"),
        ("messages", {"thinking": {"type": "adaptive"}}, "thinking"),
        ("messages", {"context_management": {"edits": [{"type": "clear_tool_uses"}]}}, "context_management"),
        ("messages", {"container": "c1"}, "container"),
    ],
)
def test_a_field_that_nobody_carries_out_is_reported_by_its_path(api: str, fields: Any, path: str) -> None:
    assert read(api, **fields) == (path,)


@pytest.mark.parametrize("api", READERS)
@pytest.mark.parametrize("field", ["async", "output_schema"])
def test_a_field_of_a_tool_that_nobody_reads_is_reported(api: str, field: str) -> None:
    assert with_tool(api, **{field: [{"a": 1}]}) == (f"tools[].{field}",)


@pytest.mark.parametrize("api", [api for api in READERS if api != "messages"])
def test_a_tool_that_must_not_be_called_directly_is_refused(api: str) -> None:
    with pytest.raises(DefinitionError, match="allowed_callers") as refusal:
        with_tool(api, allowed_callers=["code_execution_20260120"])
    assert refusal.value.param == "tools[0].allowed_callers"
    assert with_tool(api, allowed_callers=["direct", "code_execution_20260120"]) == ()


def test_what_the_messages_api_cannot_offer_is_left_out_and_reported_by_name() -> None:
    tools = READERS["messages"][1]["tools"]
    code = {"name": "rows", "input_schema": {}, "allowed_callers": ["code_execution_20260120"], "zz": 1}
    search = {"type": "web_search_20260318", "name": "web_search", "max_uses": 5}
    examples = {**tools[0], "input_examples": [{"a": 1}] * 4}
    redacted = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}
    assert set(read("messages", tools=[examples, code, search], messages=[*USER, redacted])) == {
        "tools[].zz",
        "tools[].allowed_callers=rows",
        "tools[]=web_search",
        "tools[].input_examples=1-of-4",
        "messages[].content[].type=redacted_thinking",
    }


def test_sound_and_servers_of_the_client_are_refused_because_the_answer_would_lack_them() -> None:
    with pytest.raises(DefinitionError, match="modalities"):
        read("chat", modalities=["text", "audio"])
    with pytest.raises(DefinitionError, match="mcp_servers"):
        read("messages", mcp_servers=[{"type": "url", "url": "https://example.org", "name": "x"}])
    assert read("chat", modalities=["text"]) == read("messages", mcp_servers=[]) == ()


@pytest.mark.parametrize(
    "api, fields",
    [
        ("chat", {"logprobs": False, "frequency_penalty": 0, "logit_bias": {}, "n": 1, "seed": None}),
        ("chat", {"store": False, "user": "u", "stream_options": {"include_usage": True}, "prompt_cache_key": "k"}),
        ("responses", {"include": ["reasoning.encrypted_content"], "client_metadata": {"a": "b"}, "store": False}),
        ("messages", {"metadata": {"user_id": "u"}, "system": [{"type": "text", "text": "s", "cache_control": {}}]}),
        ("messages", {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}),
    ],
)
def test_what_changes_nothing_is_not_reported(api: str, fields: dict[str, Any]) -> None:
    if api == "responses":
        fields = {name: value for name, value in fields.items() if name != "store"}
    assert read(api, **fields) == ()


@given(st.sampled_from(sorted(READERS)), st.from_regex(r"zz_[a-z]{1,12}", fullmatch=True), st.integers())
def test_a_field_that_nobody_has_heard_of_is_reported_wherever_it_stands(api: str, name: str, value: int) -> None:
    field: dict[str, Any] = {name: value}
    list_name = "input" if api == "responses" else "messages"
    assert read(api, **field) == (name,)
    assert with_tool(api, **field) == (f"tools[].{name}",)
    assert read(api, **{list_name: [{**USER[0], **field}]}) == (f"{list_name}[].{name}",)
    part = {"type": "input_text" if api == "responses" else "text", "text": "hi", **field}
    assert read(api, **{list_name: [{"role": "user", "content": [part]}]}) == (f"{list_name}[].content[].{name}",)
    assert metric_label(name) == "other"


@pytest.mark.parametrize("api", READERS)
def test_the_report_is_bounded_and_fits_into_a_header(api: str) -> None:
    assert len(ignored := read(api, **{f"zz{at}": 1 for at in range(100)})) == 16
    assert ignored[-1] == "85-more"
    assert read(api, **{"a\r\nset-cookie: b": 1, "é": 2, "x" * 500: 3}) == ("other",)


@pytest.mark.parametrize("api", READERS)
def test_a_misspelled_field_of_the_extension_is_reported(api: str) -> None:
    assert read(api, ferrule={"wire": False, "resum": "conv_1"}) == ("ferrule.resum",)


def test_what_a_reader_leaves_out_by_hand_is_reported_once_with_its_name() -> None:
    include = ["message.output_text.logprobs", "reasoning.encrypted_content", "message.output_text.logprobs"]
    assert read("responses", include=include) == ("include[]=message.output_text.logprobs",)


def test_a_value_that_is_read_as_a_whole_is_not_looked_into() -> None:
    root = Field({"a": {"x": 1, "y": {"z": 2}}, "b": {"c": 1, "d": 2}}, reads=FieldReads())
    assert root["a"].object()
    assert root["b"]["c"].integer() == 1
    assert root.reads is not None
    assert [path for path, _, _ in root.reads.unread()] == ["b.d"]


def test_every_entry_of_a_table_says_why() -> None:
    for table in TABLES.values():
        assert all(table.harmless.values())
        assert all(table.reported.values())
        assert not table.harmless.keys() & table.reported.keys()
