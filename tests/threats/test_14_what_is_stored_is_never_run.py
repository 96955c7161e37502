"""Row 14: text from clients stays data in the ledger, and is still data when it is read."""

from __future__ import annotations

import ast
import asyncio
import base64
import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule.server.app import routes_of
from server.client import gateway_of
from server.keys import bearer, config_with_keys
from threats.audit import SPAWNS, audit
from threats.gateway_fixture import (
    ANN,
    CHAT,
    KEYS,
    USER,
    bodies,
    call,
    endless_engine,
    fill_path,
    threat_gateway,
    tools,
)

SOURCE = Path(__file__).parents[2] / "src" / "ferrule"
INJECTIONS = [
    "' OR '1'='1",
    "'; DROP TABLE ferrule_conversation; --",
    '" OR ""="',
    "1) UNION SELECT sqlite_version() --",
    "x' AND (SELECT COUNT(*) FROM ferrule_approval) > 0 --",
    "%' OR name LIKE '%",
    "$1; SELECT pg_sleep(9)",
    "\\'; SELECT 1; --",
    "'||(SELECT 1)||'",
    "\x00' OR 1=1",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_text_of_a_client_becomes_part_of_an_sql_statement(text: str) -> None:
    async def scenario() -> tuple[set[int], int]:
        statuses: set[int] = set()
        async with threat_gateway(call("send", to=text), "Done.", source=tools()) as client:
            await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(ANN))
            for route in routes_of(client.gateway):
                path = fill_path(route.path, text)
                names = ("text", "tool", "after", "limit", "state", "principal", "starting_after", "order")
                # As an ID, in the query, and in the body.
                answers = [await client.request(route.method, path, {}, bearer(ANN))]
                answers += [
                    await client.request(route.method, f"{path}?{name}={_quote(text)}", {}, bearer(ANN))
                    for name in names
                ]
                for body in bodies(route, name=text, conversation=text, call_id=text, previous_response_id=text):
                    answers.append(await client.request(route.method, path, body, bearer(ANN)))
                resume = {"model": "e0", "messages": USER, "ferrule": {"resume": text}}
                answers.append(await client.request(route.method, path, resume, bearer(ANN)))
                statuses |= {answer.status for answer in answers}
            approvals = await client.gateway.ledger.approvals_of("acme")
            return statuses, len(approvals)

    statuses, approval_count = asyncio.run(scenario())
    assert 500 not in statuses
    assert approval_count >= 1


def _quote(text: str) -> str:
    from urllib.parse import quote

    return quote(text)


class Payload:
    def __reduce__(self) -> tuple[object, ...]:
        import os

        return (os.system, ("touch ferrule-was-here",))


@pytest.mark.parametrize("poison", [pickle.dumps(Payload()), b'{"messages": "cos\\nsystem"}', b"not JSON", b"[1, 2"])
def test_a_poisoned_row_is_refused_and_never_run(poison: bytes, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    config = replace(config_with_keys(*KEYS), ledger=str(file))

    async def start_call() -> str:
        from server.client import scripted_engine

        async with gateway_of(
            scripted_engine(call("send", to="x"), "Done."), sources=[tools()], config=config
        ) as client:
            response = (await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(ANN))).json()
            return next(one["waiting"]["conversation"] for one in response["ferrule"]["events"] if "waiting" in one)

    async def resume(conversation: str) -> int:
        source = tools()
        async with gateway_of(endless_engine(), sources=[source], config=config) as client:
            body = {"model": "e0", "messages": USER, "ferrule": {"resume": conversation}}
            answer = await client.post(CHAT, body, bearer(ANN))
            await client.get(f"/v1/conversations/{conversation}", bearer(ANN))
            assert source.calls == []
            return answer.status

    conversation = asyncio.run(start_call())
    with sqlite3.connect(file) as database:
        try:
            text = poison.decode()
        except UnicodeDecodeError:
            text = base64.b64encode(poison).decode()
        changed = database.execute("UPDATE ferrule_conversation SET state = ? WHERE id = ?", (text, conversation))
        assert changed.rowcount == 1
    database.close()
    with audit(SPAWNS) as processes:
        status = asyncio.run(resume(conversation))
    assert status >= 400
    assert processes == []


UNSAFE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
RUNNING = {"eval", "exec", "execfile"}


def test_nothing_in_the_package_reads_pickles_or_runs_text() -> None:
    uses: list[str] = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names if one.name.partition(".")[0] in UNSAFE]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""] if (node.module or "").partition(".")[0] in UNSAFE else []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = [node.func.id] if node.func.id in RUNNING else []
            uses += [f"{path.name}:{name}" for name in names]
    assert uses == []


def test_no_sql_statement_is_built_where_it_is_executed() -> None:
    uses: list[str] = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute":
                is_built = node.args and isinstance(node.args[0], ast.JoinedStr | ast.BinOp)
                uses += [f"{path.name}:{node.lineno}"] if is_built else []
    assert uses == []
