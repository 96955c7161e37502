"""Row 11: leave is for one call, of one principal, in one conversation, and for once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from server.client import Client
from server.keys import bearer
from threats.house import ANN, BOB, EVE, call, chat, house, tools


async def waiting(client: Client, who: str = ANN) -> tuple[str, str]:
    """The conversation, and the approval that it waits for."""
    told = (await chat(client, who)).json()
    found = next(one["waiting"] for one in told["ferrule"]["asides"] if "waiting" in one)
    return found["conversation"], found["approvals"][0]


def test_of_many_who_go_on_with_an_allowed_call_one_runs_it() -> None:
    async def scenario() -> list[str]:
        source = tools()
        async with house(call("send", to="bob"), *["Done."] * 20, source=source) as client:
            conversation, approval = await waiting(client)
            await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(ANN))
            resume = {"resume": conversation}
            await asyncio.gather(*(chat(client, ANN, ferrule=resume) for _ in range(10)))
            for _ in range(3):
                await chat(client, ANN, ferrule=resume)
        return [name for name, _, _ in source.called]

    assert asyncio.run(scenario()) == ["send"]


def test_of_many_decisions_one_counts() -> None:
    async def scenario() -> Counter[int]:
        async with house(call("send", to="bob"), "Done.") as client:
            _, approval = await waiting(client)
            words = [{"approve": at % 2 == 0} for at in range(20)]
            path = f"/v1/approvals/{approval}"
            answers = await asyncio.gather(*(client.post(path, word, bearer(ANN)) for word in words))
            return Counter(answer.status for answer in answers)

    assert asyncio.run(scenario()) == {200: 1, 409: 19}


@pytest.mark.parametrize("who, status", [(BOB, 403), (EVE, 404), ("nobody", 401)])
def test_nobody_else_can_decide(who: str, status: int) -> None:
    async def scenario() -> tuple[int, list[str]]:
        source = tools()
        async with house(call("send", to="bob"), "Done.", "Done.", source=source) as client:
            conversation, approval = await waiting(client)
            answer = await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(who))
            await chat(client, ANN, ferrule={"resume": conversation})
            return answer.status, [name for name, _, _ in source.called]

    assert asyncio.run(scenario()) == (status, [])


@pytest.mark.parametrize("who", [BOB, EVE])
def test_nobody_else_can_use_what_was_allowed(who: str) -> None:
    async def scenario() -> tuple[int, list[str]]:
        source = tools()
        async with house(call("send", to="bob"), *["Done."] * 4, source=source) as client:
            conversation, approval = await waiting(client)
            await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(ANN))
            answer = await chat(client, who, ferrule={"resume": conversation})
            return answer.status, [name for name, _, _ in source.called]

    status, called = asyncio.run(scenario())
    assert called == []
    assert status == 404


def test_leave_for_one_call_is_none_for_another_that_is_alike() -> None:
    async def scenario() -> list[str]:
        source = tools()
        replies = (call("send", "call_1", to="bob"), call("send", "call_1", to="bob"), *["Done."] * 3)
        async with house(*replies, source=source) as client:
            _, approval = await waiting(client)
            second, _ = await waiting(client)
            await client.post(f"/v1/approvals/{approval}", {"approve": True}, bearer(ANN))
            await chat(client, ANN, ferrule={"resume": second})
        return [name for name, _, _ in source.called]

    assert asyncio.run(scenario()) == []
