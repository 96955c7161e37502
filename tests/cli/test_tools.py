"""`ferrule tools`: finds tools of files, functions and servers, and shows their usage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import TOOLS, run
from ferrule.cli.tools import GATEWAY_KEY
from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import FakeEngine
from ferrule.run.conversation import ToolConversation
from ferrule.run.ledger.address import open_ledger
from ferrule.sources.fake import FakeSource
from server.gateway_process import ANN, EVE, gateway_process

FUNCTIONS = '''
from ferrule import tool

@tool(side_effects=True)
def send_letter(to: str) -> str:
    """Sends a letter to a person."""
    return ""
'''


def test_the_best_tool_comes_first_with_its_source(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    (tmp_path / "some_letters.py").write_text(FUNCTIONS)
    places = ["--file", str(tmp_path / "tools.json"), "--tools", f"{tmp_path}/some_letters.py"]
    (weather,) = json.loads(run("tools", "search", "weather in Rome", *places, "--json").out)
    assert (weather["name"], weather["source"]) == ("get_weather", "file")
    (letter,) = json.loads(run("tools", "search", "write a letter", *places, "--json").out)
    assert (letter["name"], letter["side_effects"]) == ("send_letter", True)
    assert "send_letter" in run("tools", "search", "letter", *places).out


def test_a_text_that_fits_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    ran = run("tools", "search", "xyzzy", "--file", str(tmp_path / "tools.json"))
    assert (ran.code, ran.out) == (0, "none of 1 tools has a word of this text\n")


def test_without_a_source_the_error_names_the_options() -> None:
    ran = run("tools", "search", "weather")
    assert ran.code == 1
    assert "--mcp-config" in ran.err


LOOK, PAY = ToolDefinition("look", "Looks."), ToolDefinition("pay", "Pays.")


def _answer(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Answered("no", is_error=True) if arguments.get("fails") else Answered("yes")


def _write_calls(path: Path, tenant: str) -> None:
    """Three calls of `look`, one of which fails; `pay` is loaded twice and never called."""

    async def story() -> None:
        async with await open_ledger(str(path)) as ledger:
            calls = [ToolCall.of("look", {"n": n, "fails": n == 2}, id=f"c{n}") for n in range(3)]
            talk = await ToolConversation.open(
                ledger,
                f"talk-{tenant}",
                FakeEngine([Reply.of(*calls), Reply.of("Done.")]),
                FakeSource((LOOK, PAY), _answer),
                context=CallContext(principal=Principal(tenant, tenant)),
                request=ToolCallRequest(messages=()),
            )
            await talk.send_message("go")
            await talk.close()

    asyncio.run(story())


def test_stats_of_a_ledger_count_what_was_loaded_called_and_failed_and_how_long_it_took(tmp_path: Path) -> None:
    _write_calls(tmp_path / "ledger.db", "acme")
    place = ["--ledger", str(tmp_path / "ledger.db")]
    look, pay = json.loads(run("tools", "stats", *place, "--json").out)
    assert (look["tool"], look["loaded"], look["called"], look["failed"]) == ("look", 2, 3, 1)
    assert 0 <= look["seconds_p50"] < 60
    assert (pay["tool"], pay["loaded"], pay["called"], pay["seconds_p50"]) == ("pay", 2, 0, None)
    text = run("tools", "stats", *place).out
    assert text.index("look") < text.index("pay")
    assert "p50" in text
    assert json.loads(run("tools", "stats", *place, "--tool", "pay", "--json").out) == [pay]
    assert json.loads(run("tools", "stats", *place, "--tenant", "evil", "--json").out) == []
    assert run("tools", "stats", *place, "--tenant", "evil").out == "no tools have been offered to a model\n"


def test_stats_of_a_gateway_are_those_of_the_key_with_the_size_of_each_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looks.py").write_text(FUNCTIONS.replace("send_letter", "look"))
    _write_calls(tmp_path / "ledger.db", ANN)
    with gateway_process(tmp_path, tmp_path / "looks.py") as gateway:
        monkeypatch.setenv(GATEWAY_KEY, ANN)
        look, pay = json.loads(run("tools", "stats", "--gateway", gateway.url, "--json").out)
        assert (look["tool"], look["loaded"], look["called"], look["failed"]) == ("look", 2, 3, 1)
        assert look["definition_tokens"] > 10
        assert pay["definition_tokens"] is None, "the gateway does not offer this tool"
        assert "look" in run("tools", "stats", "--gateway", f"{gateway.url}/").out
        monkeypatch.setenv(GATEWAY_KEY, EVE)
        assert json.loads(run("tools", "stats", "--gateway", gateway.url, "--json").out) == []
        monkeypatch.setenv(GATEWAY_KEY, "nobody")
        refused = run("tools", "stats", "--gateway", gateway.url)
        assert refused.code == 1
        assert "nobody" not in refused.out + refused.err
        assert run("tools", "stats", "--gateway", gateway.url, "--tenant", "acme").code == 1
