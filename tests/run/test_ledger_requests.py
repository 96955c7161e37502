"""Stored requests: which request repeats an earlier one, in each database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ferrule.core.context import Principal
from ferrule.errors import IdempotencyError
from ferrule.run.ledger.ledger import StoredRequest
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.stored_requests import KEY_SECONDS, RETRY_SECONDS
from ferrule.run.ledger.tables import VERSION
from run.ledger_databases import ANN, LEASE, Database

EVE = Principal("eve", "acme")
STARTED_AT = 1_000_000.0


def request(answer: str, key: str = "", body: str = "b", principal: Principal = ANN) -> StoredRequest:
    return StoredRequest(answer, principal.tenant, principal.name, "chat", body, key, STARTED_AT, '{"names": ["pay"]}')


async def answer_of(
    ledger: SqlLedger, stored: StoredRequest, *, is_retry: bool = False, after_seconds: float = 0.0
) -> str:
    return (await ledger.claim_request(stored, is_retry=is_retry, now=STARTED_AT + after_seconds)).answer


def test_a_request_is_stored_as_it_came(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        assert await answer_of(ledger, request("c1", key="k")) == "c1"
        stored = await ledger.stored_request("c1")
        assert stored is not None
        assert stored == request("c1", key="k")
        assert stored.request == {"names": ["pay"]}
        assert await ledger.stored_request("c2") is None

    database.run(scenario)


def test_only_a_sign_makes_an_identical_request_a_retry(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        assert await answer_of(ledger, request("c1")) == "c1"
        assert await answer_of(ledger, request("c2"), after_seconds=1) == "c2"
        assert await answer_of(ledger, request("c3"), is_retry=True, after_seconds=2) == "c2"
        assert await answer_of(ledger, request("c4", body="other"), is_retry=True, after_seconds=3) == "c4"

    database.run(scenario)


def test_a_retry_belongs_to_a_running_answer_or_to_one_that_changed_a_moment_ago(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        assert await answer_of(ledger, request("c1")) == "c1"
        late = RETRY_SECONDS + 10
        assert await answer_of(ledger, request("c2"), is_retry=True, after_seconds=late) == "c2"
        record = await ledger.open("c2", ANN, "one", LEASE, now=STARTED_AT + late)
        later = late + RETRY_SECONDS + 10
        await ledger.renew("c2", record.epoch, LEASE, now=STARTED_AT + later)
        assert await answer_of(ledger, request("c3"), is_retry=True, after_seconds=later) == "c2"
        await ledger.release("c2", record.epoch, now=STARTED_AT + later)
        soon = later + RETRY_SECONDS - 1
        assert await answer_of(ledger, request("c3"), is_retry=True, after_seconds=soon) == "c2"
        assert await answer_of(ledger, request("c3"), is_retry=True, after_seconds=soon + 2) == "c3"

    database.run(scenario)


def test_a_key_finds_its_request_for_a_day_and_refuses_another_body(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        assert await answer_of(ledger, request("c1", key="k")) == "c1"
        assert await answer_of(ledger, request("c2", key="k"), after_seconds=KEY_SECONDS - 1) == "c1"
        with pytest.raises(IdempotencyError) as refusal:
            await answer_of(ledger, request("c2", key="k", body="other"), after_seconds=1)
        assert (refusal.value.status, refusal.value.retryable) == (422, False)
        assert await answer_of(ledger, request("c2", key="k", body="other"), after_seconds=KEY_SECONDS + 1) == "c2"

    database.run(scenario)


def test_keys_and_bodies_of_other_principals_and_apis_are_other_requests(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        others = [replace(request("c2", key="k"), api="messages"), request("c3", key="k", principal=EVE)]
        for stored in (request("c1", key="k"), *others):
            assert await answer_of(ledger, stored, is_retry=True) == stored.answer
            without_key = replace(stored, answer=f"{stored.answer}-body", idempotency_key="", body_sha256="b2")
            assert await answer_of(ledger, without_key, is_retry=True) == without_key.answer

    database.run(scenario)


def test_requests_with_one_key_at_the_same_time_get_one_answer(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        claims = [answer_of(ledger, request(f"c{number}", key="k")) for number in range(20)]
        assert len(set(await asyncio.gather(*claims))) == 1

    database.run(scenario)


def test_a_database_of_version_3_gets_the_table(database: Database) -> None:
    async def first(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)

    async def then(ledger: SqlLedger) -> None:
        assert await answer_of(ledger, request("c1", key="k")) == "c1"

    database.run(first)
    database.execute("DROP TABLE ferrule_request", ())
    database.execute("UPDATE ferrule_ledger SET version = 3", ())
    database.run(then)
    assert database.execute("SELECT version FROM ferrule_ledger", ()) == [(VERSION,)]
