"""Tasks that take ten minutes while their gateway is killed three times: `scripts/long mcp-task`.

One gateway and one task server of the MCP SDK on each database. Four calls run at the same time: a stored response
whose tool is a task of the server, the same tool called through the gateway's `/mcp` as a task by clients of both
generations of the protocol, and a tool of the gateway's own whose approval comes after the last kill. Each call waits
for an approval before it begins, and each task of the server asks something in the middle.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from rich.console import Console

import ferrule.ledger
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.context import CallContext, Progress, TaskRecord
from ferrule.core.outcome import Answered, Outcome
from ferrule.sources.mcp.config import HttpTransport, Server, Timeouts
from ferrule.sources.mcp.servers import McpServers
from lab.environment import describe_environment, measured_environment
from lab.ledger_storm.processes import end_on_sigterm
from lab.postgres_server import postgres_server
from lab.results_page import publish
from lab.served_gateway import ServedGateway
from lab.servers import free_port
from live.scripted_model import Said, results_in, scripted_model
from live.task_world import TaskServer, on_http

DATABASES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_COMMAND: Final = "```sh\nscripts/long mcp-task\n```"
_CALLER, _APPROVER = "ann-of-acme", "boss-of-acme"
_RESEARCH, _SEND, _QUESTION = "tasks_research", "send", "tasks asks"
_RESPONSE, _MODERN, _OLDER = "response", "2026-07-28", "2025-11-25"
TOPICS: Final = (_RESPONSE, _MODERN, _OLDER)
"""What each task is about, by who called it."""
_STEPS: Final = 40
_INTERVAL_MS: Final = 2000
"""How often the server wants to be asked for the state of a task."""
_SILENT_SECONDS: Final = 180.0
"""How long a task may show no progress. Less than the run takes, and more than a step or an answer does."""
_PATIENCE: Final = 120.0
_PAUSE: Final = 1.0
_KILLS: Final = (0.25, 0.5, 0.75)
_APPROVED, _ASKED, _ANSWERED, _SEND_APPROVED, _SEND_SHARE = 0.02, 0.45, 0.6, 0.8, 0.1
"""The moments of the run, and how long the tool of the gateway's own works, as shares of the whole."""
_CONFIG: Final = """
[engines.m]
use = "openai:m"
url = "{model}"
key = "x"

[server]
port = {port}
ledger = "{ledger}"
approval_patience_seconds = {seconds}
drain_seconds = 1

[tools]
tools_per_tool_timeout_seconds = {tool_seconds}

[sources]
mcp_config = "{folder}/mcp.json"
mcp_question_seconds = {seconds}
functions = ["{folder}/tools.py:TOOLS"]

[keys.{caller}]
sha256 = "{caller_hash}"
tenant = "acme"
tools = ["*"]

[keys.{approver}]
sha256 = "{approver_hash}"
tenant = "acme"
approve = true
"""
_TOOLS: Final = '''
import asyncio
from pathlib import Path

from ferrule import tool


@tool(side_effects=True)
async def send() -> str:
    """Sends something, once."""
    with Path({effects!r}).open("a") as file:
        file.write("sent\\n")
    await asyncio.sleep({seconds})
    return "sent it"


TOOLS = [send]
'''
_ABOUT: Final = (
    "Four calls at the same time: a stored response (`background`) whose tool is a task of an MCP server, the same "
    "tool called through the gateway's `/mcp` as a task by a client of each generation of the protocol, and a tool of "
    "the gateway's own. Each waits for an approval before it begins; the gateway's own tool gets it after the last "
    "kill. The server's tasks report a step now and then, and each asks a person something in the middle. The gateway "
    "is killed with SIGKILL while the tasks work, while their questions wait, and while they work again. *Asked "
    "again*: questions that a gateway put to people a second time, because the process that had asked was dead. "
    "*Polls refused*: requests of the client of 2025-11-25 while no gateway served. *Away*: the longest time from a "
    "kill until the gateway served again."
)


@dataclass(slots=True)
class TaskRun:
    """A run on one database: what was counted, and what must not have happened."""

    database: str
    seconds: float
    gateway: ServedGateway
    server: TaskServer
    session: aiohttp.ClientSession
    counts: Counter[str] = field(default_factory=Counter[str])
    breaches: list[str] = field(default_factory=list[str])
    handles: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    began: float = 0.0

    def require(self, claim: bool, breach: str) -> None:
        if not claim:
            self.breaches.append(breach)

    async def run(self) -> None:
        await self.gateway.start()
        self.began = time.monotonic()
        response = await self._request("POST", "/v1/responses", {"input": "go", "background": True})
        async with self._client() as source:
            modern = self._call(source, _RESEARCH, {"topic": _MODERN})
            send = self._call(source, _SEND, {})
            older = asyncio.ensure_future(self._call_of_2025())
            await self._at(_APPROVED)
            await self._approve(_RESEARCH, len(TOPICS))
            steps = asyncio.ensure_future(self._step())
            story = asyncio.ensure_future(self._kill_and_answer())
            try:
                await story
                await self._at(_SEND_APPROVED)
                await self._approve(_SEND, 1)
                await self._at(1.0)
            finally:
                steps.cancel()
                story.cancel()
            self.server.make("finish")
            async with asyncio.timeout(_PATIENCE):
                results = {_MODERN: _text_of(await modern), _OLDER: await older, _SEND: _text_of(await send)}
                results[_RESPONSE] = await self._output_of(response["id"])
        self._check(results)

    async def _kill_and_answer(self) -> None:
        for number, share in enumerate(_KILLS):
            if number == 1:
                await self._at(_ASKED)
                self.server.make("ask")
                await self._questions(len(TOPICS))
            await self._at(share)
            asked = len(await self._pending(_QUESTION))
            await self.gateway.restart()
            self.counts["kills"] += 1
            if asked:
                # The next gateway asks again; what the dead one asked waits for nobody.
                await self._questions(asked + len(TOPICS))
                self.counts["asked again"] = len(TOPICS)
                await self._at(_ANSWERED)
                await self._approve(_QUESTION, len(TOPICS), {"colour": "blue"})
                await self._until(lambda: len(list(self.server.folder.glob("answer-*"))) == len(TOPICS))
            await self._polled_again()

    def _check(self, results: dict[str, str]) -> None:
        topics = Counter(one["topic"] for one in self.server.lines("started"))
        self.counts["tasks started"] = sum(topics.values())
        for topic in TOPICS:
            self.require(topics[topic] == 1, f"{topics[topic]} tasks were started for the call of {topic}")
            expected = f"{topic} is done {{'colour': 'blue'}}"
            self.require(results[topic].count(expected) == 1, f"the result of {topic} is {results[topic]!r}")
            self.counts["results"] += expected in results[topic]
        self.require("sent it" in results[_SEND], f"the result of {_SEND} is {results[_SEND]!r}")
        self.counts["results"] += "sent it" in results[_SEND]
        effects = (self.server.folder / "effects").read_text(encoding="utf-8").count("sent")
        self.counts["effects"] = effects
        self.require(effects == 1, f"{effects} effects of {_SEND}")
        cancelled = self.server.lines("cancelled")
        self.counts["tasks cancelled"] = len(cancelled)
        self.require(not cancelled, f"tasks were cancelled: {cancelled}")
        self.counts["polls of the server"] = len(self.server.lines("polled"))
        for name, handles in self.handles.items():
            self.require(len(set(handles)) == 1, f"the client of {name} was given {len(set(handles))} tasks")
        self.require(self.counts["kills"] == len(_KILLS), f"{self.counts['kills']} kills")
        self.counts["seconds"] = round(time.monotonic() - self.began)

    # --- The clients ---

    def _client(self) -> McpServers:
        transport = HttpTransport(f"{self.gateway.url}/mcp", {"authorization": f"Bearer {_CALLER}"})
        timeouts = Timeouts(call=60.0, task=_SILENT_SECONDS)
        return McpServers([Server("inner", transport, True, timeouts)], settle_seconds=_PATIENCE)

    def _call(self, source: McpServers, tool: str, arguments: dict[str, Any]) -> asyncio.Task[Outcome]:
        name = str(arguments.get("topic", tool))
        handles = self.handles.setdefault(name, [])

        async def write(handle: str) -> None:
            handles.append(handle)

        def heard(progress: Progress) -> None:
            self.counts[f"reports to {name}"] += 1

        context = CallContext(call_id=f"call-{name}", on_progress=heard, task=TaskRecord(write=write))
        return asyncio.ensure_future(source.call(f"inner_{tool}", arguments, context))

    async def _call_of_2025(self) -> str:
        """Begin a task, ask for its state at its interval, and fetch its result: a client that keeps only the id."""
        params = {"name": _RESEARCH, "arguments": {"topic": _OLDER}, "task": {"ttl": 86_400_000}}
        created = await self._rpc("tools/call", params)
        assert created is not None, "the gateway was away before it was killed"
        id = created["task"]["taskId"]
        self.handles[_OLDER] = [id]
        while True:
            state = await self._rpc("tasks/get", {"taskId": id})
            if state is None:
                self.counts["polls refused"] += 1
            else:
                self.counts["polls answered"] += 1
                if state["status"] != "working":
                    break
            await asyncio.sleep(_PAUSE)
        self.require(state["status"] == "completed", f"the task of {_OLDER} is {state['status']}")
        result = await self._rpc("tasks/result", {"taskId": id})
        return json.dumps(result, ensure_ascii=False)

    async def _rpc(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a request; None while no gateway serves."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {
            **{"authorization": f"Bearer {_CALLER}", "mcp-protocol-version": _OLDER},
            # Without progress: a whole answer.
            "accept": "application/json",
        }
        try:
            async with self.session.post(f"{self.gateway.url}/mcp", json=body, headers=headers) as answer:
                reply = await answer.json()
        except aiohttp.ClientError:
            return None
        if "result" not in reply:
            self.breaches.append(f"{method} of {_OLDER}: {reply}")
            raise RuntimeError(f"{method}: {reply}")
        return reply["result"]

    async def _output_of(self, id: str) -> str:
        while True:
            response = await self._request("GET", f"/v1/responses/{id}")
            if response["status"] not in ("queued", "in_progress"):
                break
            await asyncio.sleep(_PAUSE)
        self.require(response["status"] == "completed", f"the response is {response['status']}: {response['error']}")
        messages = [item for item in response["output"] if item["type"] == "message"]
        return "".join(part["text"] for item in messages for part in item["content"])

    # --- The people, and the moments ---

    async def _pending(self, tool: str) -> list[Any]:
        page = await self._request("GET", "/v1/approvals?state=pending&limit=200", key=_APPROVER)
        return [one for one in page["data"] if one["tool"] == tool]

    async def _questions(self, count: int) -> None:
        async with asyncio.timeout(_PATIENCE):
            while len(await self._pending(_QUESTION)) < count:
                await asyncio.sleep(_PAUSE)

    async def _approve(self, tool: str, count: int, answer: dict[str, Any] | None = None) -> None:
        async with asyncio.timeout(_PATIENCE):
            while len(waiting := await self._pending(tool)) < count:
                await asyncio.sleep(_PAUSE)
        for one in waiting:
            changed = {} if answer is None else {"arguments": {**json.loads(one["arguments"]), "answer": answer}}
            await self._request("POST", f"/v1/approvals/{one['id']}", {"approve": True, **changed}, key=_APPROVER)
        self.counts["approvals" if answer is None else "questions answered"] += count

    async def _request(self, method: str, path: str, body: Any = None, *, key: str = _CALLER) -> Any:
        headers = {"authorization": f"Bearer {key}"}
        async with self.session.request(method, f"{self.gateway.url}{path}", json=body, headers=headers) as answer:
            if answer.status != 200:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            return await answer.json()

    async def _at(self, share: float) -> None:
        await asyncio.sleep(self.began + share * self.seconds - time.monotonic())

    async def _step(self) -> None:
        for number in range(_STEPS):
            self.server.make(f"step-{number}")
            await asyncio.sleep(self.seconds / _STEPS)

    async def _polled_again(self) -> None:
        """Wait until the gateway that runs now waits for every task."""
        seen = len(self.server.lines("polled"))
        ids = {one["id"] for one in self.server.lines("started")}
        await self._until(lambda: ids <= set(self.server.lines("polled")[seen:]))

    async def _until(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE):
            while not claim():
                await asyncio.sleep(_PAUSE / 2)


def write_config(folder: Path, server: TaskServer, address: str, model: str, seconds: float) -> ServedGateway:
    """Write the configuration of the gateway, and return the gateway."""
    port, names = free_port(), (_CALLER, _APPROVER)
    caller, approver = (hashlib.sha256(name.encode()).hexdigest() for name in names)
    entry = {"url": f"http://127.0.0.1:{server.port}/mcp", "taskTimeout": int(_SILENT_SECONDS * 1000)}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"tasks": entry}}), encoding="utf-8")
    tools = _TOOLS.format(effects=str(folder / "effects"), seconds=_SEND_SHARE * seconds)
    (folder / "interval").write_text(str(_INTERVAL_MS), encoding="utf-8")
    (folder / "tools.py").write_text(tools, encoding="utf-8")
    config = folder / "ferrule.toml"
    config.write_text(
        _CONFIG.format(
            **{"folder": folder, "port": port, "model": model, "ledger": address, "seconds": seconds + 2 * _PATIENCE},
            **{"caller": names[0], "approver": names[1], "caller_hash": caller, "approver_hash": approver},
            # Far less than the tasks take, and more than the tool of the gateway's own.
            tool_seconds=max(30.0, 2 * _SEND_SHARE * seconds),
        ),
        encoding="utf-8",
    )
    return ServedGateway(config, port)


def _text_of(outcome: Outcome) -> str:
    return json.dumps(outcome.content, ensure_ascii=False) if isinstance(outcome, Answered) else repr(outcome)


def reply_of(messages: list[dict[str, Any]], tools: list[str]) -> Said:
    results = results_in(messages)
    return Said(f"The result: {results[0]}") if results else Said(calls=[(_RESEARCH, {"topic": _RESPONSE})])


async def run_database(database: str, seconds: float) -> TaskRun:
    """Run everything on one database, and check its audit log."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ferrule-task-")))
        is_sqlite = database == "sqlite"
        address = str(folder / "ledger.db") if is_sqlite else stack.enter_context(postgres_server()).address
        server = await asyncio.to_thread(stack.enter_context, on_http(folder))
        model = stack.enter_context(scripted_model(reply_of))
        gateway = write_config(folder, server, address, model.url, seconds)
        stack.callback(gateway.kill)
        async with aiohttp.ClientSession() as session:
            run = TaskRun(database, seconds, gateway, server, session)
            try:
                await run.run()
            # Whatever ends a run early is a finding, and must not end the run on the other database.
            except Exception as error:
                run.breaches.append(f"the run ended early: {error!r:.500}")
                print(gateway.log.read_text(encoding="utf-8", errors="replace")[-6000:], file=sys.stderr)
        gateway.kill()
        async with ferrule.ledger.open(address) as ledger:
            breach = await ledger.verify()
            run.require(breach is None, f"the audit log: {breach}")
        return run


def table_of(runs: list[TaskRun]) -> Table:
    calls = f"{len(TOPICS) + 1}"

    def row(label: str, value: Callable[[TaskRun], Any]) -> list[str]:
        return [label, *(f"{value(run):,}" if not isinstance(value(run), str) else value(run) for run in runs)]

    def counted(name: str) -> Callable[[TaskRun], int]:
        return lambda run: run.counts[name]

    rows = [
        row("minutes from the first call to the last result", lambda run: f"{run.counts['seconds'] / 60:.1f}"),
        row("SIGKILLs of the gateway", counted("kills")),
        row("away, s", lambda run: f"{max(run.gateway.away, default=0.0):.1f}"),
        row("calls", lambda run: calls),
        row("tasks started by the MCP server", counted("tasks started")),
        row("results", counted("results")),
        row("effects of the gateway's own tool", counted("effects")),
        row("approvals before the calls", counted("approvals")),
        row("questions answered in the middle", counted("questions answered")),
        row("asked again", counted("asked again")),
        row("tasks cancelled", counted("tasks cancelled")),
        row("polls of the MCP server", counted("polls of the server")),
        row("polls of `/mcp` answered (2025-11-25)", counted("polls answered")),
        row("polls refused", counted("polls refused")),
        row("breaches", lambda run: len(run.breaches)),
    ]
    return Table("Three SIGKILLs", _ABOUT, ("", *(DATABASES[run.database] for run in runs)), rows)


async def run_all(databases: list[str], seconds: float) -> list[TaskRun]:
    return list(await asyncio.gather(*(run_database(one, seconds) for one in databases)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the tasks take (10)")
    parser.add_argument("--database", choices=tuple(DATABASES), action="append", help="only this one")
    parser.add_argument("--print", action="store_true", help="publish nothing")
    options = parser.parse_args()
    end_on_sigterm()
    runs = asyncio.run(run_all(options.database or list(DATABASES), options.minutes * 60))
    table = table_of(runs)
    print_table(table, Console())
    breaches = [f"{run.database}: {one}" for run in runs for one in run.breaches]
    for one in breaches:
        print(one)
    for run in runs:
        print(run.database, dict(run.counts))
    if not options.print:
        where = describe_environment(measured_environment())
        publish("mcp-task", "A task of ten minutes under three SIGKILLs", [_COMMAND, where, markdown(table)])
    if breaches:
        raise SystemExit(f"{len(breaches)} breaches")


if __name__ == "__main__":
    main()
