"""Row 11: an approval is valid once, for one call of one principal in one conversation."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from server.client import Client
from server.keys import bearer
from threats.gateway_fixture import ANN, BOB, EVE, call, chat, threat_gateway, tools


async def start_call(client: Client, who: str = ANN) -> tuple[str, str]:
    """Start a call that needs approval. Returns the conversation and the approval."""
    response = (await chat(client, who)).json()
    pending = next(one["waiting"] for one in response["ferrule"]["events"] if "waiting" in one)
    return pending["conversation"], pending["approvals"][0]


def test_many_resumes_run_an_approved_call_once() -> None:
    async def scenario() -> list[str]:
        source = tools()
        async with threat_gateway(call("send", to="bob"), *["Done."] * 20, source=source) as client:
            conversation, approval = await start_call(client)
            await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(ANN))
            resume = {"resume": conversation}
            await asyncio.gather(*(chat(client, ANN, ferrule=resume) for _ in range(10)))
            for _ in range(3):
                await chat(client, ANN, ferrule=resume)
        return [name for name, _, _ in source.calls]

    assert asyncio.run(scenario()) == ["send"]


def test_one_of_many_decisions_counts() -> None:
    async def scenario() -> Counter[int]:
        async with threat_gateway(call("send", to="bob"), "Done.") as client:
            _, approval = await start_call(client)
            decisions = [{"approve": at % 2 == 0} for at in range(20)]
            path = f"/v1/approvals/{approval}"
            answers = await asyncio.gather(*(client.post(path, decision, bearer(ANN)) for decision in decisions))
            return Counter(answer.status for answer in answers)

    assert asyncio.run(scenario()) == {200: 1, 409: 19}


@pytest.mark.parametrize("who, status", [(BOB, 403), (EVE, 404), ("nobody", 401)])
def test_no_other_principal_can_decide(who: str, status: int) -> None:
    async def scenario() -> tuple[int, list[str]]:
        source = tools()
        async with threat_gateway(call("send", to="bob"), "Done.", "Done.", source=source) as client:
            conversation, approval = await start_call(client)
            answer = await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(who))
            await chat(client, ANN, ferrule={"resume": conversation})
            return answer.status, [name for name, _, _ in source.calls]

    assert asyncio.run(scenario()) == (status, [])


@pytest.mark.parametrize("who", [BOB, EVE])
def test_no_other_principal_can_use_an_approval(who: str) -> None:
    async def scenario() -> tuple[int, list[str]]:
        source = tools()
        async with threat_gateway(call("send", to="bob"), *["Done."] * 4, source=source) as client:
            conversation, approval = await start_call(client)
            await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(ANN))
            answer = await chat(client, who, ferrule={"resume": conversation})
            return answer.status, [name for name, _, _ in source.calls]

    status, called = asyncio.run(scenario())
    assert called == []
    assert status == 404


def test_an_approval_does_not_cover_an_identical_call() -> None:
    async def scenario() -> list[str]:
        source = tools()
        replies = (call("send", "call_1", to="bob"), call("send", "call_1", to="bob"), *["Done."] * 3)
        async with threat_gateway(*replies, source=source) as client:
            _, approval = await start_call(client)
            second, _ = await start_call(client)
            await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(ANN))
            await chat(client, ANN, ferrule={"resume": second})
        return [name for name, _, _ in source.calls]

    assert asyncio.run(scenario()) == []
