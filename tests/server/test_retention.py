"""A gateway removes what is old from its ledger; what was removed is not found, and does not run again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule.core.context import Principal
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import StoredRequest
from ferrule.server.config.config import Config, EngineConfig, RetentionConfig
from ferrule.server.config.validation import find_errors
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.retention import RetentionSweep
from run.ledger_databases import LEASE
from server.client import gateway_of, scripted_engine

LOCAL = Principal()
DAY = 86_400.0
CONFIG = Config(engines=(EngineConfig(name="e0", use="e0"),))


@pytest.mark.parametrize(
    "retention, is_valid",
    [
        (RetentionConfig(), True),
        (RetentionConfig(conversation_days=30), True),
        (RetentionConfig(conversation_days=30, audit_days=365), True),
        (RetentionConfig(conversation_days=-1), False),
        (RetentionConfig(audit_days=365), False),
        (RetentionConfig(conversation_days=30, audit_days=29), False),
        (RetentionConfig(conversation_days=0.1, audit_days=0.5), False),
    ],
)
def test_an_audit_log_is_kept_at_least_as_long_as_its_conversation(retention: RetentionConfig, is_valid: bool) -> None:
    problems = [str(one) for one in find_errors(replace(CONFIG, retention=retention))]
    assert any("retention" in one for one in problems) is not is_valid


def test_a_gateway_forgets_old_conversations_and_refuses_to_continue_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        now = time.time()
        config = replace(CONFIG, ledger=str(tmp_path / "ledger.db"))
        async with gateway_of(scripted_engine("never"), config=config) as client:
            ledger = client.gateway.ledger
            for id, age in (("old", 50), ("new", 1)):
                at = now - age * DAY
                record = await ledger.open(id, LOCAL, "one", LEASE, now=at)
                await ledger.save(id, record.epoch, {"messages": [], "loop": None}, now=at)
                await ledger.release(id, record.epoch, now=at)
            kept = await RetentionSweep(ledger, RetentionConfig(), Telemetry()).sweep()
            assert kept is None
            days = RetentionConfig(conversation_days=30)
            report = await RetentionSweep(ledger, days, Telemetry(), pause_seconds=0.0).sweep()
            assert report is not None
            assert report.conversations == 1
            assert [(await client.get(f"/v1/conversations/{id}")).status for id in ("old", "new")] == [404, 200]
            body = {"model": "e0", "messages": [{"role": "user", "content": "?"}], "ferrule": {"resume": "old"}}
            answer = await client.post("/v1/chat/completions", body)
            assert answer.status in (404, 409), answer.body
            assert b"never" not in answer.body

    asyncio.run(scenario())


def test_a_retry_of_a_request_that_was_deleted_is_refused(tmp_path: Path) -> None:
    """Sent again with its key, it is neither answered from what is gone nor begun anew."""

    async def scenario() -> None:
        config = replace(CONFIG, ledger=str(tmp_path / "ledger.db"))
        engine = scripted_engine("first", "second")
        async with gateway_of(engine, config=config) as client:
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hello."}]}
            headers = {"idempotency-key": "k1"}
            first = await client.post("/v1/chat/completions", body, headers)
            assert first.status == 200
            report = await client.gateway.ledger.delete_principal(LOCAL, now=time.time() + LEASE + 60)
            assert report.conversations == 1
            again = await client.post("/v1/chat/completions", body, headers)
            assert again.status == 409, again.body
            assert again.json()["error"]["code"] == "conversation_removed"

    asyncio.run(scenario())


def test_the_sweep_runs_by_itself_and_survives_errors(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await open_ledger(str(tmp_path / "ledger.db")) as ledger:
            at = time.time() - 50 * DAY
            record = await ledger.open("old", LOCAL, "one", LEASE, now=at)
            await ledger.release("old", record.epoch, now=at)
            calls = 0
            prune = ledger.prune

            async def fail_once(*arguments: float | None, **options: object) -> object:
                nonlocal calls
                calls += 1
                if calls == 1:
                    raise RuntimeError("a mistake")
                return await prune(*arguments, **options)  # pyright: ignore[reportArgumentType, reportCallIssue]

            ledger.prune = fail_once  # pyright: ignore[reportAttributeAccessIssue]  # the first sweep meets a mistake
            sweep = RetentionSweep(
                ledger, RetentionConfig(conversation_days=30), Telemetry(), every_seconds=0.02, pause_seconds=0.0
            )
            stop = sweep.start()
            while await ledger.load("old") is not None:
                await asyncio.sleep(0.01)
            await stop()
            assert calls >= 2
            request = StoredRequest("old", "local", "local", "chat", "b", "", 0.0, "{}")
            assert (await ledger.claim_request(request, is_retry=False, now=time.time())).answer == "old"

    asyncio.run(scenario())
