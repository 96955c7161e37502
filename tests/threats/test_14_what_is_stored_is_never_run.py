"""Row 14: what clients write into the ledger is data there, and stays data when it is read."""

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
from server.keys import bearer, keyed
from threats.audit import SPAWNS, audited
from threats.house import ANN, CHAT, KEYS, USER, bodies, call, endless, filled, house, tools

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
def test_no_text_in_any_place_becomes_part_of_a_statement(text: str) -> None:
    async def scenario() -> tuple[set[int], int]:
        found: set[int] = set()
        async with house(call("send", to=text), "Done.", source=tools()) as client:
            await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(ANN))
            for route in routes_of(client.gateway):
                path = filled(route.path, text)
                names = ("text", "tool", "after", "limit", "state", "principal", "starting_after", "order")
                # In the place of an id, in the query, and in the body.
                answers = [await client.ask(route.method, path, {}, bearer(ANN))]
                answers += [
                    await client.ask(route.method, f"{path}?{name}={_quoted(text)}", {}, bearer(ANN)) for name in names
                ]
                for body in bodies(route, name=text, conversation=text, call_id=text, previous_response_id=text):
                    answers.append(await client.ask(route.method, path, body, bearer(ANN)))
                resume = {"model": "e0", "messages": USER, "ferrule": {"resume": text}}
                answers.append(await client.ask(route.method, path, resume, bearer(ANN)))
                found |= {answer.status for answer in answers}
            kept = await client.gateway.ledger.approvals_of("acme")
            return found, len(kept)

    statuses, kept = asyncio.run(scenario())
    assert 500 not in statuses
    assert kept >= 1


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text)


class Payload:
    def __reduce__(self) -> tuple[object, ...]:
        import os

        return (os.system, ("touch ferrule-was-here",))


@pytest.mark.parametrize("poison", [pickle.dumps(Payload()), b'{"messages": "cos\\nsystem"}', b"not JSON", b"[1, 2"])
def test_a_poisoned_row_is_refused_and_never_run(poison: bytes, tmp_path: Path) -> None:
    where = tmp_path / "ledger.db"
    config = replace(keyed(*KEYS), ledger=str(where))

    async def waits() -> str:
        from server.client import speaking

        async with gateway_of(speaking(call("send", to="x"), "Done."), sources=[tools()], config=config) as client:
            told = (await client.post(CHAT, {"model": "e0", "messages": USER}, bearer(ANN))).json()
            return next(one["waiting"]["conversation"] for one in told["ferrule"]["asides"] if "waiting" in one)

    async def resumes(conversation: str) -> int:
        source = tools()
        async with gateway_of(endless(), sources=[source], config=config) as client:
            body = {"model": "e0", "messages": USER, "ferrule": {"resume": conversation}}
            answer = await client.post(CHAT, body, bearer(ANN))
            await client.get(f"/v1/conversations/{conversation}", bearer(ANN))
            assert source.called == []
            return answer.status

    conversation = asyncio.run(waits())
    with sqlite3.connect(where) as database:
        try:
            text = poison.decode()
        except UnicodeDecodeError:
            text = base64.b64encode(poison).decode()
        changed = database.execute("UPDATE ferrule_conversation SET state = ? WHERE id = ?", (text, conversation))
        assert changed.rowcount == 1
    database.close()
    with audited(SPAWNS) as spawned:
        status = asyncio.run(resumes(conversation))
    assert status >= 400
    assert spawned == []


UNSAFE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
RUNNING = {"eval", "exec", "execfile"}


def test_nothing_in_the_package_reads_pickles_or_runs_text() -> None:
    found: list[str] = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names if one.name.partition(".")[0] in UNSAFE]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""] if (node.module or "").partition(".")[0] in UNSAFE else []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = [node.func.id] if node.func.id in RUNNING else []
            found += [f"{path.name}:{name}" for name in names]
    assert found == []


def test_no_statement_of_a_database_is_put_together_where_it_is_executed() -> None:
    found: list[str] = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute":
                made = node.args and isinstance(node.args[0], ast.JoinedStr | ast.BinOp)
                found += [f"{path.name}:{node.lineno}"] if made else []
    assert found == []
