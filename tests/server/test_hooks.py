"""Hooks in a gateway's configuration: loaded by name, and run in every API and after an approval."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import DefinitionError
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.run.executor import ToolSettings
from ferrule.server.config.config import Config, EngineConfig
from ferrule.server.config.loader import load_config
from ferrule.server.config.validation import find_errors
from ferrule.server.hook_names import load_hooks
from server.keys import bearer
from server.tool_world import World, run_story
from waiting import PATIENCE

LOOK = Reply.of(ToolCall.of("look", {"place": "attic"}, id="c1"))
PAY = Reply.of(ToolCall.of("pay", {"amount": 3}, id="c1"))
ECHOED = json.dumps({"place": "attic", "seen": True})
USER = [{"role": "user", "content": "Go."}]
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": USER}),
    "chat, streamed": ("/v1/chat/completions", {"messages": USER, "stream": True}),
    "messages": ("/v1/messages", {"messages": USER, "max_tokens": 100}),
    "messages, streamed": ("/v1/messages", {"messages": USER, "max_tokens": 100, "stream": True}),
    "responses": (
        "/v1/responses",
        {"input": "Go.", "tools": [{"type": "mcp", "server_label": "ferrule", "require_approval": "never"}]},
    ),
}
OWN = """
from ferrule import ToolCall
from ferrule.hooks import Hook, HookContext, before_call

@before_call
def at_most_two(call: ToolCall, context: HookContext) -> dict[str, int] | None:
    return {"amount": min(call.arguments["amount"], 2)} if call.name == "pay" else None

def broken(reply, context):
    raise ValueError("the password is hunter2")

BROKEN = Hook(name="broken", after_model=broken)
BOTH = [at_most_two, BROKEN]
number = 5
"""


def tools_with(*hooks: str) -> ToolSettings:
    return ToolSettings(hooks=hooks)


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own_hooks.py"
    path.write_text(OWN, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("path, body", [pytest.param(*one, id=name) for name, one in REQUESTS.items()])
def test_no_api_sends_an_echo_that_a_hook_has_found(path: str, body: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        response = await world.client.post(path, body, bearer("ann"))
        assert response.status == 200
        text = response.body.decode()
        if path == "/v1/responses":
            # The result itself is an item beside the answer.
            text = json.dumps([item for item in response.json()["output"] if item["type"] == "message"])
        assert "It is dusty." in text
        assert json.dumps(ECHOED)[1:-1] not in text
        assert world.done["look"] == 1

    run_story(story, replies=[LOOK, ECHOED, "It is dusty."], tools=tools_with("echo"))


def test_an_approval_shows_the_arguments_that_a_hook_put_in_place_and_these_run_after_it(own: str) -> None:
    async def story(world: World) -> None:
        body = {"messages": USER, "ferrule": {"tools": ["pay"]}}
        await world.client.post("/v1/chat/completions", body, bearer("ann"))
        (approval,) = (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]
        assert json.loads(approval["arguments"]) == {"amount": 2}
        assert (await world.decide(approval["id"], approve=True)).status == 200
        async with asyncio.timeout(PATIENCE):
            while not world.done["pay"]:
                await asyncio.sleep(0.01)
        (call,) = await world.client.gateway.ledger.calls(approval["conversation"])
        assert json.loads(call.arguments) == {"amount": 2}
        assert world.done["pay"] == 1

    run_story(story, replies=[PAY, "Paid."], tools=tools_with(f"{own}:at_most_two"))


def test_a_hook_that_fails_is_an_error_with_its_name_and_without_its_words(own: str) -> None:
    async def story(world: World) -> None:
        response = await world.client.post("/v1/chat/completions", {"messages": USER}, bearer("ann"))
        error = response.json()["error"]
        assert (response.status, error["code"]) == (500, "hook_failed")
        assert "broken" in error["message"]
        assert "hunter2" not in response.body.decode()

    run_story(story, replies=["hello"], tools=tools_with(f"{own}:BROKEN"))


def test_hooks_are_loaded_in_their_order_also_from_a_list(own: str) -> None:
    hooks = load_hooks(["repetition", f"{own}:BOTH", "echo"])
    assert [hook.name for hook in hooks] == ["repetition", "at_most_two", "broken", "echo"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("ecco", "unknown hook 'ecco'"),
        (":echo", "unknown hook"),
        ("no_such_module_at_all:x", "no_such_module_at_all cannot be loaded"),
        ("{own}:missing", "has no 'missing'"),
        ("{own}:number", "number is not a hook"),
        ("{own}:broken", "broken is not a hook"),
    ],
)
def test_a_name_without_a_hook_prevents_the_start_and_says_what_to_write(own: str, name: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message) as failure:
        load_hooks([name.format(own=own)])
    assert failure.value.hint


def test_a_misspelt_hook_is_found_when_the_configuration_is_checked() -> None:
    config = Config(engines=(EngineConfig(name="e", use="fake:hi"),), tools=tools_with("echo", "repetitoin", "my:own"))
    (problem,) = find_errors(config)
    assert "unknown hook 'repetitoin'" in str(problem)
    assert "Did you mean repetition" in str(problem)


def test_hooks_are_read_from_the_file_and_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "ferrule.toml"
    path.write_text('[engines.e]\nuse = "fake:hi"\n[tools]\nhooks = ["echo", "repetition"]\n', encoding="utf-8")
    assert load_config(str(path), {}).config.tools.hooks == ("echo", "repetition")
    environment = {"FERRULE_TOOLS_HOOKS": "empty_arguments"}
    assert load_config(str(path), environment).config.tools.hooks == ("empty_arguments",)
