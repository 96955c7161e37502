"""The SDKs of OpenAI and Anthropic, unmodified, with very many tools against `ferrule serve`.

Their own tool searches are carried out by the gateway, and what it sends is read with their own types.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.clients.many_functions import RESULT, WANTED
from lab.gateway_clients import Clients, clients
from lab.gateway_process import gateway_process
from lab.gateway_recorder import Exchange, Recorder, start_recorder
from live.scripted_model import Said, ScriptedModel, results_in, scripted_model

pytestmark = pytest.mark.live

COUNT = 600
"""More than a request may have without deferral."""
_CONFIG = """
[engines.m]
use = "openai:m"
url = "{url}"

[engines.searched]
use = "openai:m"
url = "{url}"
tool_search_above_tokens = 8000
"""


def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
    """Search, then call what was found, then answer."""
    results = results_in(messages)
    if RESULT in results:
        return Said("It is booked.")
    wanted = next((name for name in names if name.endswith(WANTED)), None)
    if wanted is not None:
        return Said("Now. ", [(wanted, {"subject": "invoice reviews"})])
    search = next(name for name in names if name.startswith(("tool_search", "find_tools")))
    query = WANTED.replace("_", ".*") if search.endswith("regex") else "book invoice lisbon"
    return Said("Let me look. ", [(search, {"query": query})])


RUNS: list[tuple[str, str, dict[str, Any]]] = [
    ("openai", "live_search_openai.responses", {"stream": False}),
    ("openai", "live_search_openai.responses", {"stream": True}),
    # The chat API cannot defer tools: the gateway does it.
    ("openai", "live_search_openai.chat", {"model": "searched"}),
    ("anthropic", "live_search_anthropic.messages", {"stream": False}),
    ("anthropic", "live_search_anthropic.messages", {"stream": True}),
    ("anthropic", "live_search_anthropic.messages", {"stream": True, "search": "tool_search_tool_regex"}),
]
_FAR_CONFIG = """
[engines.responses]
use = "openai:m?api=responses&tool_search=true"
url = "{url}/v1"

[engines.messages]
use = "anthropic:m?tool_search=true"
url = "{url}"
"""
FAR_RUNS: list[tuple[str, str, dict[str, Any]]] = [
    ("openai", "live_search_openai.responses", {"model": "responses", "stream": True, "count": 40}),
    ("openai", "live_search_openai.responses", {"model": "messages", "count": 40}),
    ("anthropic", "live_search_anthropic.messages", {"model": "messages", "stream": True, "count": 40}),
    ("anthropic", "live_search_anthropic.messages", {"model": "responses", "count": 40}),
]
KINDS = {
    "openai": [["message", "tool_search_call", "tool_search_output", "message", "function_call"], ["message"]],
    "anthropic": [["text", "server_tool_use", "tool_search_tool_result", "text", "tool_use"], ["text"]],
}


def check(run: tuple[str, str, dict[str, Any]], model: ScriptedModel, recorder: Recorder, started: Clients) -> None:
    """Run a client once: it books with the right tool, and the model could call no other than what was found."""
    venv, op, options = run
    model.requests.clear()
    told = started.ask(venv, op, {"url": recorder.url, "key": "none", "count": COUNT, **options})
    faults = started.check_exchanges(recorder.take()).faults
    assert (told["error"], faults) == (None, ()), run
    calls = [call.rpartition(".")[2] for call in told["calls"]]
    assert (told["text"], calls) == ("It is booked.", [WANTED]), run
    if "kinds" in told:
        assert told["kinds"] == KINDS[venv], run
        assert WANTED in told["loaded"]
        # The search alone, then what was found beside it, and so it stays.
        sizes = [len(model.tool_names(at)) for at in range(len(model.requests))]
        assert sizes == [1, 1 + len(told["loaded"]), 1 + len(told["loaded"])]


@contextmanager
def gateway_with(folder: Path, config: str) -> Generator[Recorder]:
    file = folder / "ferrule.toml"
    file.write_text(config)
    with gateway_process(("--config", str(file)), engine=None) as gateway, start_recorder(gateway.url) as recorder:
        yield recorder


def test_six_hundred_tools_of_an_sdk_are_searched_called_and_replayed(tmp_path: Path) -> None:
    with (
        scripted_model(reply) as model,
        clients() as started,
        gateway_with(tmp_path, _CONFIG.format(url=model.url)) as recorder,
    ):
        for run in RUNS:
            check(run, model, recorder, started)
        # Engines that carry out the search themselves get it as it is, in their own API and in the other one.
        with gateway_with(tmp_path, _FAR_CONFIG.format(url=recorder.url)) as near:
            for run in FAR_RUNS:
                recorder.take()
                check(run, model, near, started)
                declared = [tool.get("type", "") for one in recorder.take() for tool in sent_tools(one)]
                assert any(kind.startswith("tool_search") for kind in declared), run


def sent_tools(exchange: Exchange) -> list[dict[str, Any]]:
    return exchange.request["tools"]
