"""Measure what clients with very many tools send, and what the engine gets: `scripts/long many-tools-clients`.

OpenAI's and Anthropic's SDKs with 2,000 functions, and Claude Code with its default tools and the tools of ten MCP
servers, which the gateway runs and offers at `/mcp`. Each client's task needs one certain tool. The model is scripted:
it searches if it is not offered that tool, and calls it. All runs in a network namespace with loopback only.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.agents.clients import AgentClient, Command, Setup, claude_code_environment, run_client
from lab.claude_code import program
from lab.clients.many_functions import QUESTION, RESULT, WANTED
from lab.environment import describe_environment, measured_environment
from lab.gateway_clients import clients
from lab.gateway_process import gateway_process
from lab.gateway_recorder import Exchange, start_recorder
from lab.gateway_verdicts import api_of
from lab.paths import CACHE, ROOT
from lab.results_page import publish
from live.scripted_model import Said, ScriptedModel, results_in, scripted_model

_SECTION: Final = "many-tools-clients"
_HEADING: Final = "Clients with very many tools"
_COMMAND: Final = "```sh\nscripts/setup-clients --npm\nscripts/long many-tools-clients\n```"
_ABOUT: Final = (
    "A task for which one tool is right; *done*: the client had it run, and showed the answer. *Tools*: what the "
    "client offers, for Claude Code what ten MCP servers of the gateway have beside its own tools. *Client*: the "
    "largest request that the client sends. *Engine, all*: the largest request to the engine when each tool is in it "
    "(tokens at four characters each). *Engine, searched*: the same with `tool_search_above_tokens = 8000`. Claude "
    "Code has a search of its own, which is on by default, and is shown without it too (`ENABLE_TOOL_SEARCH=false`)."
)
COUNT: Final = 2_000
NOUNS: Final = ("invoice", "ticket", "contract", "room", "vehicle", "lunch", "parcel", "badge", "course", "survey")
_OFFICE: Final = 40 * len(NOUNS)
_LOOKS: Final = 240
_DONE: Final = "It is booked."
_ENTER: Final = ("unshare", "--map-root-user", "--net", "--")
_SEARCHES: Final = ("find_tools", "search_tools", "tool_search", "ToolSearch")
_CONFIG: Final = """
[limits]
tools = 3000

[engines.all]
use = "openai:m"
url = "{url}"

[engines.searched]
use = "openai:m"
url = "{url}"
tool_search_above_tokens = 8000
"""
_SDKS: Final = (
    ("OpenAI SDK, chat", "openai", "live_search_openai.chat"),
    ("OpenAI SDK, Responses", "openai", "live_search_openai.responses"),
    ("Anthropic SDK", "anthropic", "live_search_anthropic.messages"),
)
Row = dict[str, Any]


def _reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
    """Search if the right tool is not offered, call it, and answer with its result."""
    if any(RESULT in result for result in results_in(messages)):
        return Said(_DONE)
    wanted = next((name for name in names if name.endswith(WANTED)), None)
    if wanted is not None:
        return Said("", [(wanted, {"subject": "invoice reviews"})])
    search = next((name for name in names if name.startswith(_SEARCHES)), None)
    # A client also asks for other things than the task, such as a title.
    more = {"max_results": 5} if search == "ToolSearch" else {}
    return Said("Now. ", [(search, {"query": "book invoice lisbon", **more})]) if search else Said("A title")


def _largest(model: ScriptedModel) -> int:
    return max((len(json.dumps(one, ensure_ascii=False)) for one in model.requests), default=0)


def _offered(model: ScriptedModel) -> int:
    return max((len(one.get("tools", [])) for one in model.requests), default=0)


def _sent(exchanges: Sequence[Exchange]) -> int:
    return max((len(json.dumps(one.request, ensure_ascii=False)) for one in exchanges if api_of(one)), default=0)


def _row(label: str, tools: int, engine: str, model: ScriptedModel, exchanges: list[Exchange], is_done: bool) -> Row:
    refused = [f"{one.status}: {one.content[:200]!r}" for one in exchanges if api_of(one) and one.status != 200]
    row: Row = {"label": label, "tools": tools, "engine": engine, "done": is_done, "refused": refused}
    return {**row, "client": _sent(exchanges), "sent": _largest(model), "offered": _offered(model)}


def sdk_rows(count: int = COUNT) -> Generator[Row]:
    """Each SDK once on each engine. What the SDKs defer themselves, the gateway searches on both."""
    with tempfile.TemporaryDirectory() as folder, scripted_model(_reply) as model, clients() as started:
        config = Path(folder, "ferrule.toml")
        config.write_text(_CONFIG.format(url=model.url), encoding="utf-8")
        with (
            gateway_process(("--config", str(config)), engine=None) as gateway,
            start_recorder(gateway.url) as recorder,
        ):
            for label, venv, op in _SDKS:
                for engine in ("all", "searched") if op.endswith("chat") else ("searched",):
                    model.requests.clear()
                    options = {"url": recorder.url, "key": "none", "count": count, "model": engine}
                    told = started.ask(venv, op, options)
                    is_done = told["error"] is None and told["text"] == _DONE
                    yield _row(label, count, engine, model, recorder.take(), is_done)


def claude_code_rows() -> Generator[Row]:
    """Claude Code once on each engine, with the tools of ten MCP servers that the gateway runs."""
    with tempfile.TemporaryDirectory() as name, scripted_model(_reply) as model:
        folder = Path(name)
        config, servers = folder / "ferrule.toml", folder / "mcp.json"
        config.write_text(_CONFIG.format(url=model.url), encoding="utf-8")
        servers.write_text(json.dumps({"mcpServers": {noun: _server(noun) for noun in NOUNS}}), encoding="utf-8")
        arguments = ("--config", str(config), "--mcp-config", str(servers))
        with (
            gateway_process(arguments, engine=None, environment={"PYTHONPATH": f"{ROOT / 'src'}"}) as gateway,
            start_recorder(gateway.url) as recorder,
        ):
            _await_tools(gateway.url)
            for search in ("false", ""):
                for engine in ("all", "searched") if search else ("searched",):
                    model.requests.clear()
                    client = _claude_code(recorder.url, {"ENABLE_TOOL_SEARCH": search} if search else {})
                    ended = run_client(client, recorder.url, engine, QUESTION, folder / f"{engine}{search}")
                    is_done = ended.code == 0 and _DONE in ended.output
                    label = "Claude Code, all tools" if search else "Claude Code, its own search"
                    row = _row(label, _OFFICE, engine, model, recorder.take(), is_done)
                    yield {**row, "printed": "" if is_done else (ended.output + ended.errors)[-1_500:]}


def _await_tools(url: str) -> None:
    """Wait until the gateway has the tools of all servers: it serves while they start."""
    for _ in range(_LOOKS):
        with urllib.request.urlopen(f"{url}/v1/tools?limit=1000") as answer:
            if len(json.load(answer)["data"]) == _OFFICE:
                return
        time.sleep(0.5)
    raise TimeoutError(f"the gateway has not the {_OFFICE} tools of its MCP servers")


def _server(noun: str) -> dict[str, Any]:
    command = {"command": sys.executable, "args": ["-m", "lab.clients.office_server", noun]}
    return {**command, "env": {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}, "trusted": True}


def _claude_code(url: str, more: Mapping[str, str]) -> AgentClient:
    def command(setup: Setup) -> Command:
        setup.write("mcp.json", json.dumps({"mcpServers": {"office": {"type": "http", "url": f"{url}/mcp"}}}))
        environment = {**claude_code_environment(setup), **more}
        allowed = ("--mcp-config", str(setup.home / "mcp.json"), "--allowedTools", "mcp__office")
        return Command([str(program()), "-p", setup.question, *allowed], environment)

    return AgentClient("Claude Code", "Messages", CACHE / "claude-code", command)


@contextmanager
def _inside(words: Sequence[str]) -> "Generator[subprocess.Popen[str]]":
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{ROOT / 'tests'}"}
    command = [*_ENTER, sys.executable, "-m", "lab.many_tools_clients", "--inside", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", cwd=ROOT, env=environment) as process:
        yield process


def rows_in_namespace(*words: str) -> Generator[Row]:
    """Yield the rows as they are measured, in a network namespace of their own."""
    with _inside(words) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)


def table_of(rows: Sequence[Row]) -> Table:
    """One line for each client; its rows on both engines side by side."""
    labels = list(dict.fromkeys(row["label"] for row in rows))
    lines: list[tuple[str, ...]] = []
    for label in labels:
        own = {row["engine"]: row for row in rows if row["label"] == label}
        every, searched = own.get("all"), own["searched"]
        whole = f"{every['sent'] / 1e3:,.0f} kB, {every['sent'] // 4:,} tokens" if every else ""
        cells = (f"{searched['client'] / 1e3:,.0f} kB", whole)
        found = f"{searched['sent'] / 1e3:,.0f} kB, {searched['sent'] // 4:,} tokens"
        done = f"{sum(row['done'] for row in own.values())} of {len(own)}"
        lines.append((label, f"{searched['tools']:,}", *cells, found, str(searched["offered"]), done))
    columns = ("client", "tools", "client", "engine, all", "engine, searched", "tools offered", "done")
    return Table("Sizes of requests", _ABOUT, columns, tuple(lines))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long many-tools-clients")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=("sdks", "claude-code"), help="only these clients; implies --print")
    parser.add_argument("--print", action="store_true", help="print only; the page stays unchanged")
    arguments = parser.parse_args()
    if arguments.inside:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
        for part, measured in {"sdks": sdk_rows, "claude-code": claude_code_rows}.items():
            for row in measured() if arguments.only in (None, part) else ():
                print(json.dumps(row), flush=True)
        return
    console = Console(width=None if Console().is_terminal else 150)
    rows: list[Row] = []
    for row in rows_in_namespace(*(("--only", arguments.only) if arguments.only else ())):
        console.print({key: value for key, value in row.items() if value not in ("", [])}, markup=False)
        rows.append(row)
    table = table_of(rows)
    print_table(table, console)
    if not (arguments.print or arguments.only):
        publish(_SECTION, _HEADING, [_COMMAND, describe_environment(measured_environment()), markdown(table)])


if __name__ == "__main__":
    main()
