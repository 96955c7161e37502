"""Which tools a model may call: deferred ones once loaded, those of dated types, and none that is forbidden."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import DefinitionError, ToolChoice
from ferrule.dialects.anthropic.request_decoder import read_request
from ferrule.schema.admission_cache import admit_tools
from ferrule.schema.checker import checker_for

HELLO = {"role": "user", "content": "Hello"}
SEARCH = {"name": "ToolSearch", "input_schema": {"type": "object"}}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}


def deferred(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "description": "x", "input_schema": OBJECT, "defer_loading": True} for name in names]


def body(tools: list[dict[str, Any]], *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "tools": tools, "messages": [HELLO, *messages], **fields}


def called(name: str, id: str = "t", **input: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}


def found(*names: str, text: str = "") -> dict[str, Any]:
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    content = [*([{"type": "text", "text": text}] if text else []), *references]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]}


def offered(request_body: dict[str, Any]) -> list[str]:
    return [tool.name for tool in read_request(request_body).tools]


def test_a_deferred_tool_is_offered_only_after_a_reference_to_it() -> None:
    tools = [*deferred("photo"), SEARCH, *deferred("total", "placeholder")]
    assert offered(body(tools)) == ["ToolSearch"]
    # Behind the others and in the order of loading: what stands before them in the prompt stays the same.
    search = called("ToolSearch", query="select:total,photo")
    assert offered(body(tools, search, found("total", "photo"))) == ["ToolSearch", "total", "photo"]


def test_the_model_reads_a_reference_as_a_sentence() -> None:
    tools = [SEARCH, *deferred("total", "photo")]
    read = read_request(body(tools, called("ToolSearch"), found("total", "gone", text="Found two.")))
    sentence = "These tools are now available: total. These tools are not available: gone."
    assert read.messages[-1].results[0].text == f"Found two.\n{sentence}"


def test_a_tool_that_was_called_before_stays_offered() -> None:
    assert offered(body([SEARCH, *deferred("total", "photo")], called("total"))) == ["ToolSearch", "total"]


def test_a_system_message_adds_and_removes_tools() -> None:
    def change(kind: str, tool: dict[str, Any]) -> dict[str, Any]:
        return {"role": "system", "content": [{"type": kind, "tool": tool}]}

    reference = {"type": "tool_reference", "name": "total"}
    added = change("tool_addition", reference)
    removed = change("tool_removal", reference)
    tools = [SEARCH, *deferred("total")]
    assert offered(body(tools, added)) == ["ToolSearch", "total"]
    assert offered(body(tools, added, removed)) == ["ToolSearch"]
    assert offered(body(tools, added, removed, added)) == ["ToolSearch", "total"]
    assert read_request(body(tools, added, removed)).messages[-1].content == (
        "These tools are no longer available: total."
    )
    inline = {"type": "tool_definition", "definition": {"name": "now", "input_schema": OBJECT}}
    assert offered(body(tools, change("tool_addition", inline))) == ["ToolSearch", "now"]


def test_a_choice_of_a_tool_that_is_not_loaded_is_refused_by_name() -> None:
    choice = {"type": "tool", "name": "total"}
    tools = [SEARCH, *deferred("total")]
    with pytest.raises(DefinitionError, match="'total', which is deferred") as refusal:
        read_request(body(tools, tool_choice=choice))
    assert refusal.value.param == "tool_choice"
    loaded = read_request(body(tools, called("ToolSearch"), found("total"), tool_choice=choice))
    assert loaded.tool_choice == ToolChoice.one("total")


def test_tools_that_are_all_deferred_are_refused() -> None:
    with pytest.raises(DefinitionError, match="every tool is deferred"):
        read_request(body(deferred("a", "b")))


@pytest.mark.parametrize("kind", ["tool_search_tool_bm25", "tool_search_tool_regex_20251119"])
def test_the_providers_own_search_is_for_the_deferred_tools(kind: str) -> None:
    name = kind.removesuffix("_20251119")
    read = read_request(body([{"type": kind, "name": name}, SEARCH, *deferred("a", "b")]))
    assert [tool.name for tool in read.tools] == ["ToolSearch", "a", "b"]
    assert read.tool_search is not None
    assert (read.tool_search.name, read.tool_search.deferred) == (name, {"a", "b"})
    assert not read.ignored


def test_of_two_searches_the_first_is_used_and_one_without_deferred_tools_is_left_out() -> None:
    bm25, regex = ({"type": f"tool_search_tool_{one}", "name": f"tool_search_tool_{one}"} for one in ("bm25", "regex"))
    both = read_request(body([regex, bm25, *deferred("a")]))
    assert both.tool_search is not None
    assert (both.tool_search.name, both.ignored) == ("tool_search_tool_regex", ("tools[]=tool_search_tool_bm25",))
    alone = read_request(body([bm25, SEARCH]))
    assert (alone.tool_search, alone.ignored) == (None, ("tools[]=tool_search_tool_bm25",))
    with pytest.raises(DefinitionError, match="the search itself cannot be deferred"):
        read_request(body([{**bm25, "defer_loading": True}, *deferred("a")]))


def test_what_the_client_itself_loads_or_removes_is_not_for_the_search() -> None:
    search = {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"}
    tools = [search, SEARCH, *deferred("a", "b", "c")]
    removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "c"}}
    read = read_request(body(tools, called("ToolSearch"), found("b"), {"role": "system", "content": [removal]}))
    assert [tool.name for tool in read.tools] == ["ToolSearch", "b", "a"]
    assert read.tool_search is not None
    assert read.tool_search.deferred == {"a"}


@pytest.mark.parametrize(
    "kind", ["web_search_20260318", "web_fetch_20250910", "code_execution_20260521", "advisor_20260301"]
)
def test_a_tool_that_the_provider_runs_is_left_out(kind: str) -> None:
    assert offered(body([{"type": kind, "name": kind[:-9]}, SEARCH])) == ["ToolSearch"]


@pytest.mark.parametrize(
    "kind", ["mcp_toolset", "computer_toolset_20260801", "browser_toolset_20260801", "bash_29991231", "web_search_x"]
)
def test_a_toolset_and_an_unknown_date_are_refused_by_name(kind: str) -> None:
    with pytest.raises(DefinitionError, match=f"'{kind}' is not a supported tool type"):
        read_request(body([{"type": kind, "mcp_server_name": "x"}]))


def test_a_tool_that_the_model_may_not_call_is_not_offered() -> None:
    code = {"name": "rows", "input_schema": OBJECT, "allowed_callers": ["code_execution_20260120"]}
    both = {**code, "name": "total", "allowed_callers": ["direct", "code_execution_20260120"]}
    assert offered(body([code, both])) == ["total"]
    with pytest.raises(DefinitionError, match="'rows', which the model cannot call"):
        read_request(body([code, both], tool_choice={"type": "tool", "name": "rows"}))


def test_examples_of_arguments_stand_in_the_description_as_far_as_they_fit() -> None:
    tool = {**deferred("total")[0], "defer_loading": False}
    (read,) = read_request(body([{**tool, "input_examples": [{"a": 1}, {"a": 2}]}])).tools
    assert read.description == 'x\n\nExamples of arguments:\n{"a": 1}\n{"a": 2}'
    (long,) = read_request(body([{**tool, "input_examples": [{"a": "x" * 9999}, {"a": 2}]}])).tools
    assert long.description == 'x\n\nExamples of arguments:\n{"a": 2}'
    with pytest.raises(DefinitionError, match="input_examples"):
        read_request(body([{**tool, "input_examples": ["1"]}]))


@pytest.mark.parametrize(
    "kind, name, arguments, wrong",
    [
        ("bash_20250124", "bash", {"command": "ls"}, {}),
        ("bash_20241022", "bash", {"restart": True}, {"command": 1}),
        (
            "text_editor_20250728",
            "str_replace_based_edit_tool",
            {"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x"},
            {"command": "undo_edit", "path": "/a"},
        ),
        ("text_editor_20250124", "str_replace_editor", {"command": "undo_edit", "path": "/a"}, {"command": "view"}),
        (
            "memory_20250818",
            "memory",
            {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
            {"command": "undo_edit", "path": "/memories/a"},
        ),
        ("computer_20250124", "computer", {"action": "left_click", "coordinate": [1, 2]}, {"action": "zoom"}),
        ("computer_20251124", "computer", {"action": "zoom", "region": [0, 0, 9, 9]}, {"action": "left_click", "x": 1}),
    ],
)
def test_a_tool_of_a_dated_type_has_its_published_schema(
    kind: str, name: str, arguments: dict[str, Any], wrong: dict[str, Any]
) -> None:
    fields = {"display_width_px": 800, "display_height_px": 600, "enable_zoom": True}
    entry = {"type": kind, "name": name, **(fields if name == "computer" else {})}
    (tool,) = admit_tools(read_request(body([entry])).tools)
    assert (tool.name, bool(tool.description)) == (name, True)
    checker = checker_for(tool.parameters)
    assert not checker.faults(arguments)
    assert checker.faults(wrong) or "x" in wrong
