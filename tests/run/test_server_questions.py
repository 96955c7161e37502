"""What MCP servers ask people: a question never outlives its call, and nobody reads another tenant's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.json_text import loads
from ferrule.core.message import Text
from ferrule.core.reply import Reply
from ferrule.engines.fake import FakeEngine
from ferrule.errors import EngineUnavailableError, FerruleError
from ferrule.run.elicitation import ApprovalElicitationHandler
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallState, Ledger
from ferrule.run.sampling import ApprovalSamplingHandler
from ferrule.run.server_questions import SAMPLING, WITHDRAWN_BY, ServerQuestions
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from ferrule.sources.mcp.options import SamplingLimits
from ferrule.sources.mcp.sampling import Sample, SamplingRequest, read_request
from run.ledger_databases import Database, sqlite_database
from waiting import until


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    return sqlite_database(tmp_path)


ANN, EVE = Principal("ann", "acme"), Principal("eve", "evil")
SHOP = Elicitation("shop", "Which size?", {"type": "object"}, callers=(CallContext(principal=ANN),))


def desk(ledger: Ledger, **settings: Any) -> ServerQuestions:
    return ServerQuestions(ledger, poll_seconds=0.01, **settings)


async def pending(ledger: Ledger) -> Approval:
    while not (waiting := await ledger.approvals(ApprovalState.PENDING)):
        await asyncio.sleep(0.01)
    return waiting[0]


async def withdrawn(ledger: Ledger) -> Approval:
    while (approval := (await ledger.approvals())[0]).state is ApprovalState.PENDING:
        await asyncio.sleep(0.01)
    return approval


def elicit_with(questions: ServerQuestions, question: Elicitation = SHOP) -> asyncio.Task[ElicitAnswer]:
    handler = ApprovalElicitationHandler(questions.ledger, questions=questions)
    return asyncio.ensure_future(handler(question))  # pyright: ignore[reportReturnType]  # a coroutine becomes a task


def test_a_question_is_withdrawn_when_its_call_is_cancelled(database: Database) -> None:
    async def scenario(ledger: Ledger) -> Approval:
        asking = elicit_with(desk(ledger))
        await pending(ledger)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        approval = await withdrawn(ledger)
        assert await ledger.verify() is None
        return approval

    approval = database.run(scenario)
    assert (approval.state, approval.decided_by) == (ApprovalState.DENIED, WITHDRAWN_BY)
    assert approval.why == "the call that it belongs to has ended"


def test_a_process_that_stops_withdraws_its_questions_and_asks_no_more(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[ElicitAnswer, ElicitAnswer, Approval]:
        questions = desk(ledger)
        asking = elicit_with(questions)
        await pending(ledger)
        await questions.close()
        answer, late = await asking, await elicit_with(questions)
        (approval,) = await ledger.approvals()
        return answer, late, approval

    answer, late, approval = database.run(scenario)
    assert (answer.action, late.action) == ("cancel", "cancel")
    assert (approval.state, approval.why) == (ApprovalState.DENIED, "this process is stopping")


def test_nobody_is_asked_while_calls_of_several_tenants_run(sqlite: Database) -> None:
    callers = (CallContext(principal=ANN), CallContext(principal=EVE))
    question = Elicitation("shop", "Which size?", {}, callers=callers)

    async def scenario(ledger: Ledger) -> tuple[ElicitAnswer, tuple[Approval, ...]]:
        return await elicit_with(desk(ledger), question), await ledger.approvals()

    answer, approvals = sqlite.run(scenario)
    assert (answer.action, approvals) == ("cancel", ())


def test_callers_of_one_tenant_share_a_question_that_names_none_of_them(sqlite: Database) -> None:
    callers = (CallContext(principal=ANN), CallContext(principal=Principal("bob", "acme")))
    question = Elicitation("shop", "Which size?", {}, callers=callers)

    async def scenario(ledger: Ledger) -> Approval:
        asking = elicit_with(desk(ledger), question)
        approval = await pending(ledger)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return approval

    approval = sqlite.run(scenario)
    assert (approval.tenant, approval.principal) == ("acme", "several callers")


def test_a_server_that_asks_without_a_call_reaches_nobody_in_a_gateway(sqlite: Database) -> None:
    async def scenario(ledger: Ledger) -> ElicitAnswer:
        return await elicit_with(desk(ledger, needs_call=True), Elicitation("shop", "Which size?"))

    assert sqlite.run(scenario).action == "cancel"


def test_a_server_cannot_flood_people_with_questions_or_with_one_that_is_too_long(sqlite: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[int, ElicitAnswer]:
        questions = desk(ledger)
        asking = [elicit_with(questions) for _ in range(40)]
        refused = [task for task in asking if (await asyncio.wait([task], timeout=0))[0]]
        async with asyncio.timeout(60):
            while len(refused) < 24:
                await asyncio.sleep(0.01)
                refused = [task for task in asking if task.done()]
        long = await elicit_with(questions, Elicitation("other", "x" * 70_000, callers=SHOP.callers))
        await questions.close()
        await asyncio.gather(*asking)
        return len(await ledger.approvals()), long

    assert sqlite.run(scenario) == (16, ElicitAnswer("cancel"))


def test_the_caller_learns_which_approval_its_call_waits_for(sqlite: Database) -> None:
    reports: list[Progress] = []
    context = CallContext(principal=ANN, on_progress=reports.append)
    question = Elicitation("shop\u202e", "Which size?", {}, context=context)

    async def scenario(ledger: Ledger) -> Approval:
        asking = elicit_with(desk(ledger, remind_seconds=0.02), question)
        approval = await pending(ledger)
        await until(lambda: len(reports) > 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return approval

    approval = sqlite.run(scenario)
    assert {one.approval for one in reports} == {approval.id}
    assert reports[0].message == rf"shop\u202e asks a question; it waits for approval {approval.id}"


def test_an_address_is_asked_with_its_host_and_approved_without_a_form(sqlite: Database) -> None:
    question = Elicitation("shop", "Pay", url="https://shop.example@evil.example/pay", callers=SHOP.callers)

    async def scenario(ledger: Ledger) -> tuple[Any, ElicitAnswer]:
        asking = elicit_with(desk(ledger), question)
        approval = await pending(ledger)
        await ledger.approve(approval.id, "bob", now=time.time())
        return loads(approval.arguments.decode()), await asking

    asked, answer = sqlite.run(scenario)
    assert (asked["server"], asked["host"], answer.action) == ("shop", "evil.example", "accept")


Decide = Callable[[Ledger, Approval], Awaitable[object]]
LIMITS = SamplingLimits("smol", max_tokens=50)
ASKED = {
    "systemPrompt": "Be short.",
    "messages": [{"role": "user", "content": {"type": "text", "text": "Sum it up."}}],
    "maxTokens": 5000,
    "includeContext": "allServers",
}


def sampled(database: Database, engine: FakeEngine, decide: Decide) -> tuple[Sample | FerruleError, Approval, Any]:
    async def scenario(ledger: Ledger) -> tuple[Sample | FerruleError, Approval, Any]:
        handler = ApprovalSamplingHandler(ledger, engine, questions=desk(ledger))
        request = read_request("notes", ASKED, LIMITS, SHOP.callers)
        asking = asyncio.ensure_future(_sample_or_error(handler, request))
        approval = await pending(ledger)
        assert engine.requests == []
        await decide(ledger, approval)
        result = await asking
        assert await ledger.verify() is None
        (ended,) = await ledger.approvals()
        return result, ended, await ledger.call(approval.conversation, SAMPLING)

    return database.run(scenario)


async def _sample_or_error(handler: ApprovalSamplingHandler, request: SamplingRequest) -> Sample | FerruleError:
    try:
        return await handler(request)
    except FerruleError as error:
        return error


async def allow(ledger: Ledger, approval: Approval) -> object:
    return await ledger.approve(approval.id, "bob", now=time.time())


def test_an_approved_sample_reads_what_the_person_saw_and_nothing_else(database: Database) -> None:
    engine = FakeEngine([Reply((Text("A sum."),))])
    sample, approval, call = sampled(database, engine, allow)
    assert sample == Sample("A sum.", "smol")
    (request,) = engine.requests
    assert [(one.role.value, one.content) for one in request.messages] == [
        ("system", "Be short."),
        ("user", "Sum it up."),
    ]
    assert (request.tools, request.max_tokens) == ((), 50)
    shown: Any = loads(approval.arguments.decode())
    assert shown["messages"] == [{"role": "system", "text": "Be short."}, {"role": "user", "text": "Sum it up."}]
    assert (shown["server"], shown["model"], shown["max_tokens"]) == ("notes", "smol", 50)
    assert (call.state, call.outcome.content) == (CallState.DONE, "A sum.")


def test_a_sample_that_a_person_refuses_asks_no_model(sqlite: Database) -> None:
    engine = FakeEngine([])
    error, approval, _ = sampled(sqlite, engine, lambda ledger, one: ledger.deny(one.id, "bob", now=time.time()))
    assert isinstance(error, FerruleError)
    assert (error.code, approval.state, engine.requests) == ("denied", ApprovalState.DENIED, [])


def test_a_server_reads_nothing_of_an_engine_that_fails(sqlite: Database) -> None:
    error, _, call = sampled(sqlite, FakeEngine([]), allow)
    assert isinstance(error, EngineUnavailableError)
    assert error.message == "the model did not answer"
    assert (call.state, call.outcome.is_error) == (CallState.FAILED, True)


@pytest.mark.parametrize(
    "change, code",
    [
        ({"tools": [{"name": "add", "inputSchema": {}}]}, "bad_request"),
        ({"messages": []}, "bad_request"),
        ({"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 200_001}}]}, "too_large"),
        ({"messages": [{"role": "user", "content": {"type": "tool_use"}}]}, "bad_request"),
        ({"stopSequences": ["x"] * 5}, "bad_request"),
    ],
)
def test_a_request_for_a_sample_is_limited(change: dict[str, Any], code: str) -> None:
    with pytest.raises(FerruleError) as refused:
        read_request("notes", {**ASKED, **change}, LIMITS)
    assert refused.value.code == code
