"""Agents at work: the scripted model does the task with the tools that it is offered, and the traffic is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import ToolDefinition
from ferrule.errors import EngineError
from lab.agents.__main__ import REAL, SCRIPTED, Run, real_table, save_requests, scripted_table
from lab.agents.capable_engine import Prompt, next_reply, read_prompt
from lab.agents.delivered_calls import call_faults, delivered, offered_tools
from lab.agents.task import DONE, make_repository, question, read_task, read_work
from lab.client_fixtures import fixture_of
from lab.gateway_recorder import Exchange

TEXT: dict[str, Any] = {"type": "string"}
WORK = Path("/scratch")


def tool(name: str, required: str, /, **properties: Any) -> ToolDefinition:
    return ToolDefinition(name, "", {"type": "object", "properties": properties, "required": required.split()})


def arguments_of(results: int, *tools: ToolDefinition) -> dict[str, Any]:
    (call,) = next_reply(Prompt({one.name: one for one in tools}, question(WORK), results)).calls
    return dict(call.arguments)


SHELL = tool("Bash", "command", command=TEXT, timeout={"type": "number"})
EDITORS: list[tuple[ToolDefinition, dict[str, Any]]] = [
    (
        tool("Edit", "file_path old_string new_string", file_path=TEXT, old_string=TEXT, new_string=TEXT),
        {"file_path": "/scratch/settings.txt", "old_string": "red", "new_string": "green"},
    ),
    (
        tool(
            "edit",
            "path edits",
            path=TEXT,
            edits={"type": "array", "items": {"type": "object", "properties": {"oldText": TEXT, "newText": TEXT}}},
        ),
        {"path": "/scratch/settings.txt", "edits": [{"oldText": "red", "newText": "green"}]},
    ),
    (
        tool("editor", "path new_text", path=TEXT, old_text={"anyOf": [TEXT, {"type": "null"}]}, new_text=TEXT),
        {"path": "/scratch/settings.txt", "old_text": "red", "new_text": "green"},
    ),
]


@pytest.mark.parametrize("editor, expected", EDITORS, ids=lambda value: getattr(value, "name", ""))
def test_the_model_edits_with_the_tool_that_the_agent_offers(editor: ToolDefinition, expected: dict[str, Any]) -> None:
    assert arguments_of(1, SHELL, editor) == expected


def test_the_model_fills_lists_and_what_else_is_required() -> None:
    shell = tool("run_commands", "commands why", commands={"type": "array", "items": TEXT}, why=TEXT)
    assert arguments_of(2, shell) == {"commands": ["sh /scratch/check.sh"], "why": "A step of the task"}


def test_the_model_edits_in_the_shell_where_there_is_no_editor() -> None:
    assert arguments_of(1, SHELL) == {"command": "sed -i s/red/green/ /scratch/settings.txt"}


def test_the_model_writes_a_patch_of_the_line_that_it_read_or_a_script_where_a_tool_takes_a_text() -> None:
    patch, script = tool("apply_patch", "input", input=TEXT), tool("functions__exec", "input", input=TEXT)
    prompt = Prompt({"apply_patch": patch}, f"{question(WORK)}\n# A red lamp is\ncolour = red\n", 1)
    (call,) = next_reply(prompt).calls
    assert call.arguments["input"].splitlines()[1:5] == [
        "*** Update File: settings.txt",
        "@@",
        "-colour = red",
        "+colour = green",
    ]
    assert '{"cmd": "sh /scratch/check.sh"}' in arguments_of(2, script)["input"]


def test_the_model_answers_when_it_has_every_result_and_where_there_is_no_task() -> None:
    assert next_reply(Prompt({"Bash": SHELL}, question(WORK), 3)).text == DONE
    assert next_reply(Prompt({"Bash": SHELL}, "Make a title.", 0)).calls == ()
    assert next_reply(Prompt({}, question(WORK), 0)).calls == ()


def test_the_model_says_that_it_has_no_tool() -> None:
    with pytest.raises(EngineError, match="no tool for"):
        next_reply(Prompt({"Skill": tool("Skill", "", skill=TEXT)}, question(WORK), 0))


def test_a_prompt_is_read_from_its_last_task_on() -> None:
    function = {"type": "function", "function": {"name": "Bash", "description": "", "parameters": SHELL.parameters}}
    result = "<tool_response>\nx\n</tool_response>"
    prompt = f"<tools>\n{json.dumps(function)}\n</tools>\n{result}{question(WORK)}{result}"
    read = read_prompt(prompt)
    assert [*read.tools] == ["Bash"]
    assert read.results == 1


def test_the_work_is_judged_by_the_files(tmp_path: Path) -> None:
    make_repository(tmp_path)
    assert not read_work(tmp_path).is_edited
    task = read_task(question(tmp_path))
    assert task is not None
    Path(tmp_path, "checked.txt").write_text("before the edit", encoding="utf-8")
    file = Path(task.path)
    file.write_text(file.read_text(encoding="utf-8").replace(task.old, task.new), encoding="utf-8")
    work = read_work(tmp_path)
    assert (work.is_edited, work.is_run, work.is_shown) == (True, True, False)


def exchange(path: str, request: dict[str, Any], events: list[dict[str, Any]], status: int = 200) -> Exchange:
    content = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return Exchange("POST", path, {}, request, status, "text/event-stream", content.encode())


COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def chat_call(arguments: str, name: str = "count") -> Exchange:
    call = {"index": 0, "id": "c", "function": {"name": name, "arguments": arguments}}
    tools = [{"type": "function", "function": {"name": "count", "parameters": COUNT}}]
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    return exchange("/v1/chat/completions", {"tools": tools}, [{"choices": [choice]}])


def test_a_call_that_fits_has_no_fault_and_others_have() -> None:
    assert call_faults(chat_call('{"n": 1}')) == []
    assert call_faults(chat_call('{"n": "1"}')) == ["count: '1' is not of type 'integer'"]
    assert call_faults(chat_call('{"n": 1}', "other")) == ["other is not offered"]
    (fault,) = call_faults(chat_call('{"n": '))
    assert fault.startswith("a call is not JSON")


def test_calls_of_responses_are_read_with_their_namespace_and_custom_ones_as_text() -> None:
    tools = [
        {"type": "namespace", "name": "team", "tools": [{"type": "function", "name": "count", "parameters": COUNT}]},
        {"type": "custom", "name": "patch"},
    ]
    request = {"input": [{"type": "additional_tools", "tools": tools}]}
    items = [
        {"type": "function_call", "namespace": "team", "name": "count", "arguments": '{"n": 1}'},
        {"type": "custom_tool_call", "name": "patch", "input": "a text"},
    ]
    events = [{"type": "response.output_item.done", "item": item} for item in items]
    done = exchange("/v1/responses", request, [*events, {"type": "response.completed", "response": {}}])
    assert [name for name, _ in delivered(done).calls] == ["team.count", "patch"]
    assert call_faults(done) == []
    assert [name for name, _ in offered_tools(request)] == ["team.count", "patch"]


def run(engine: str = SCRIPTED, **changes: Any) -> Run:
    fields: dict[str, Any] = {
        **{"agent": "pi, chat", "engine": engine, "is_edited": True, "is_run": True, "is_shown": True},
        **{"is_answered": True, "code": 0, "requests": 4, "refused": [], "errors": [], "calls": ["read", "edit"]},
        **{"invalid": [], "cut": 0, "tools": 4, "prompt": 1000, "printed": DONE},
    }
    return Run(**{**fields, **changes})


def test_a_run_that_is_not_done_says_whether_the_gateway_or_the_model_was_why() -> None:
    assert run().reason == "done"
    assert run(code=1, refused=["400"]).reason == "gateway: 400"
    assert run(code=1, invalid=["other is not offered"]).reason == "gateway: other is not offered"
    assert run(is_shown=False, calls=[]).reason == "model: no call"
    assert run(is_shown=False, calls=[], cut=1).reason == "model: cut off"
    assert run(is_shown=False, is_edited=False, is_run=False).reason == "model: other calls"
    assert run(is_shown=False).reason == "model: stopped early"


def test_the_tables_count_runs_requests_and_calls() -> None:
    assert scripted_table([run(), run(code=1)]).rows == [
        ("pi, chat", "4", "1,000", "1 of 2", "8", "0", "4", "0"),
    ]
    real = run(REAL, is_shown=False, is_run=False)
    assert real_table([real, run()]).rows == [
        ("pi, chat", "1", "1", "0", "1", "4", "0", "2", "0", "model: stopped early 1"),
    ]


def test_captured_requests_become_a_fixture_without_the_clients_texts(tmp_path: Path) -> None:
    body = {"model": "local", "messages": [{"role": "system", "content": "A long prompt of a vendor."}]}
    sent = [Exchange("POST", "/v1/chat/completions", {}, body, 200, "", b"")] * 2
    save_requests(sent, tmp_path / "one-work")
    fixture = fixture_of(tmp_path / "one-work")
    assert [(one["case"], one["path"]) for one in fixture["requests"]] == [
        ("work-01", "/v1/chat/completions"),
        ("work-02", "/v1/chat/completions"),
    ]
    assert "vendor" not in json.dumps(fixture)
