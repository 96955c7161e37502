"""Traces: which requests make one trace, what is summed up, and how they are found, in each database."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.context import Principal
from ferrule.errors import LedgerError
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tables import VERSION
from ferrule.run.ledger.trace import ChangedBy, PromptPrefix, RequestError, TracedRequest, TraceQuery, TraceStatus
from run.ledger_databases import ANN, LEASE, Database

BEGAN = 1_000_000.0
FAILURE = RequestError(code="engine_failed", status=502, message="the engine failed", detail="connection refused")


def request(number: int, **fields: Any) -> TracedRequest:
    given: dict[str, Any] = {
        "id": f"request_{number}",
        "tenant": ANN.tenant,
        "principal": ANN.name,
        "at": BEGAN + number,
        "api": "/v1/chat/completions",
        "seconds": 0.5,
        "status": TraceStatus.COMPLETED,
        "model": "smol",
        "history_key": f"k{number}",
        **fields,
    }
    return TracedRequest(**given)


async def ids(ledger: SqlLedger, **query: Any) -> list[str]:
    return [one.id for one in await ledger.traces_of(ANN.tenant, TraceQuery(**query))]


def test_requests_that_continue_each_other_are_one_trace(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.record_requests(
            [
                request(1, title="How is Bern?", prompt_tokens=10, completion_tokens=5, cost=0.5, tools=("look",)),
                request(2, earlier_keys=("try:k", "k1"), prompt_tokens=20, completion_tokens=1, title="later"),
                request(3, earlier_keys=("k2", "k1"), cost=0.25, tools=("look", "pay"), model="large"),
                request(4, earlier_keys=("never",)),
            ]
        )
        other, trace = await ledger.traces_of(ANN.tenant, TraceQuery())
        assert (other.id, other.request_count) == ("trace_4", 1)
        assert (trace.id, trace.request_count, trace.error_count) == ("trace_1", 3, 0)
        assert (trace.began_at, trace.changed_at) == (BEGAN + 1, BEGAN + 3.5)
        assert (trace.prompt_tokens, trace.completion_tokens, trace.cost) == (30, 6, 0.75)
        assert (trace.title, trace.model, trace.status) == ("How is Bern?", "large", TraceStatus.COMPLETED)
        whole = await ledger.trace("trace_1", ANN.tenant)
        assert whole is not None
        assert [one.id for one in whole.requests] == ["request_1", "request_2", "request_3"]
        assert whole.requests[2].tools == ("look", "pay")

    database.run(scenario)


CHANGE = PromptPrefix(ChangedBy.CLIENT, "tool \N{SNOWMAN} was added", 512, 4096)


def test_what_changed_in_a_prompt_and_what_was_cached_is_kept(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        unchanged = PromptPrefix(ChangedBy.NOBODY, "", 4096, 4096)
        second = request(2, earlier_keys=("k1",), prompt_tokens=9, cached_tokens=7, prompt_prefix=unchanged)
        await ledger.record_requests([request(1), second, request(3, earlier_keys=("k2",), prompt_prefix=CHANGE)])
        trace = await ledger.trace("trace_1", ANN.tenant)
        assert trace is not None
        assert [one.prompt_prefix for one in trace.requests] == [None, unchanged, CHANGE]
        assert [one.read_tokens for one in trace.requests] == [0, 2, 0]

    database.run(scenario)


def test_a_database_of_version_6_keeps_its_requests_and_gets_the_columns(database: Database) -> None:
    async def first(ledger: SqlLedger) -> None:
        await ledger.record_requests([request(1)])

    async def then(ledger: SqlLedger) -> None:
        await ledger.record_requests([request(2, earlier_keys=("k1",), prompt_prefix=CHANGE)])
        trace = await ledger.trace("trace_1", ANN.tenant)
        assert trace is not None
        assert [one.prompt_prefix for one in trace.requests] == [None, CHANGE]

    database.run(first)
    for column in ("cached_tokens", "prompt_prefix"):
        database.execute(f"ALTER TABLE ferrule_traced_request DROP COLUMN {column}", ())
    database.execute("UPDATE ferrule_ledger SET version = 6", ())
    database.run(then)
    assert database.execute("SELECT version FROM ferrule_ledger", ()) == [(VERSION,)]


def test_requests_of_one_conversation_in_the_ledger_are_one_trace(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("conv_1", ANN, "one", LEASE, now=BEGAN)
        waiting = request(1, conversation="conv_1", status=TraceStatus.WAITING)
        await ledger.record_requests([waiting, request(2, conversation="conv_1")])
        assert await ids(ledger) == ["trace_1"]
        by_conversation = await ledger.trace("conv_1", ANN.tenant)
        assert by_conversation is not None
        assert by_conversation.summary.request_count == 2

    database.run(scenario)


def test_nobody_elses_history_is_joined_and_no_other_tenant_sees_a_trace(database: Database) -> None:
    eve = Principal("eve", "evil")

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.record_requests([request(1, conversation="conv_1")])
        await ledger.record_requests(
            [
                request(2, principal="rob", earlier_keys=("k1",)),
                request(3, tenant=eve.tenant, principal=ANN.name, earlier_keys=("k1",)),
                request(4, tenant=eve.tenant, principal=ANN.name, conversation="conv_1"),
            ]
        )
        assert await ids(ledger) == ["trace_2", "trace_1"]
        assert await ids(ledger, principal="rob") == ["trace_2"]
        assert [one.id for one in await ledger.traces_of(eve.tenant, TraceQuery())] == ["trace_4", "trace_3"]
        assert await ledger.trace("trace_1", eve.tenant) is None

    database.run(scenario)


def test_a_request_is_recorded_when_it_begins_and_counted_once(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        begun = request(1, status=TraceStatus.RUNNING, seconds=None, history_key="")
        await ledger.record_requests([begun])
        await ledger.record_requests([begun])
        assert await ids(ledger, status=TraceStatus.RUNNING) == ["trace_1"]
        ended = request(1, prompt_tokens=3, status=TraceStatus.FAILED, error=FAILURE)
        # A batch whose confirmation was lost is written again.
        await ledger.record_requests([ended])
        await ledger.record_requests([ended, begun])
        (trace,) = await ledger.traces_of(ANN.tenant, TraceQuery())
        assert (trace.request_count, trace.error_count, trace.prompt_tokens) == (1, 1, 3)
        assert (trace.status, trace.error) == (TraceStatus.FAILED, "engine_failed")
        whole = await ledger.trace("trace_1", ANN.tenant)
        assert whole is not None
        assert whole.requests[0].error == FAILURE

    database.run(scenario)


def test_a_running_request_whose_process_is_gone_was_interrupted(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for number in (1, 2):
            await ledger.record_requests([request(number, status=TraceStatus.RUNNING, seconds=None, history_key="")])
        await ledger.touch_requests(["request_2"], now=BEGAN + 100)
        stale = {"stale_before": BEGAN + 50}
        assert await ids(ledger, status=TraceStatus.INTERRUPTED, **stale) == ["trace_1"]
        assert await ids(ledger, status=TraceStatus.RUNNING, **stale) == ["trace_2"]
        whole = await ledger.trace("trace_1", ANN.tenant, **stale)
        assert whole is not None
        assert (whole.summary.status, whole.requests[0].status) == (TraceStatus.INTERRUPTED, TraceStatus.INTERRUPTED)

    database.run(scenario)


def test_the_next_try_joins_a_failed_one_for_ten_minutes(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        failed = request(1, status=TraceStatus.FAILED, error=FAILURE, history_key="try:k")
        await ledger.record_requests([failed, request(2, earlier_keys=("try:k",))])
        await ledger.record_requests([request(3, at=BEGAN + 700, earlier_keys=("try:k",))])
        assert await ids(ledger) == ["trace_3", "trace_1"]

    database.run(scenario)


def test_traces_are_found_by_status_tool_text_and_time(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.record_requests(
            [
                request(1, status=TraceStatus.FAILED, error=FAILURE, messages_text='[{"text": "How is 100% Bern?"}]'),
                request(2, tools=("look", "pay"), messages_text='[{"text": "Rome is h\\u00f6t"}]'),
                request(3, seconds=100.0, tools=("look",)),
            ]
        )
        assert await ids(ledger, status=TraceStatus.FAILED) == ["trace_1"]
        assert await ids(ledger, tool="look") == ["trace_3", "trace_2"]
        assert await ids(ledger, tool="pay") == ["trace_2"]
        assert await ids(ledger, text="100% bern") == ["trace_1"]
        assert await ids(ledger, text="1000 bern") == []
        assert await ids(ledger, text="rome") == ["trace_2"]
        assert await ids(ledger, since=BEGAN + 50) == ["trace_3"]
        assert await ids(ledger, until=BEGAN + 2.5) == ["trace_2", "trace_1"]

    database.run(scenario)


def test_conversations_of_programs_are_listed_between_traces(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for number in range(6):
            if number % 2:
                await ledger.record_requests([request(number)])
            else:
                await ledger.open(f"program_{number}", ANN, "one", LEASE, now=BEGAN + number)
        newest = ["trace_5", "program_4", "trace_3", "program_2", "trace_1", "program_0"]
        assert await ids(ledger) == newest
        for size in (1, 2, 4):
            pages: list[str] = []
            while page := await ids(ledger, limit=size, after=pages[-1] if pages else ""):
                pages += page
            assert pages == newest
        assert await ids(ledger, status=TraceStatus.COMPLETED) == ["trace_5", "trace_3", "trace_1"]
        assert await ids(ledger, since=BEGAN + 4) == ["trace_5", "program_4"]
        with pytest.raises(LedgerError, match="cursor"):
            await ids(ledger, after="nothing")

    database.run(scenario)


def test_old_traces_are_forgotten_whole(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.record_requests([request(1, tools=("look",)), request(2, earlier_keys=("k1",), at=BEGAN + 500)])
        await ledger.record_requests([request(3, tools=("look",))])
        assert await ledger.forget_traces(BEGAN + 400) == 1
        assert await ledger.forget_traces(BEGAN + 400) == 0
        assert await ids(ledger) == ["trace_1"]
        assert await ledger.trace("trace_3", ANN.tenant) is None
        # Its key is forgotten with it.
        await ledger.record_requests([request(4, earlier_keys=("k3",))])
        assert await ids(ledger) == ["trace_4", "trace_1"]

    database.run(scenario)
