"""The gateway's own tools over a WebSocket, and leave for those that change the world."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import Ask, Cancel, Confirm
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.sources.fake import FakeSource
from server.client import Client, gateway_of, speaking
from server.keys import bearer, key, keyed
from server.websocket_client import Socket, connected

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}
MAIL = ToolDefinition("send_mail", "Sends\u200b a mail.", PARAMETERS, side_effects=True)
LOOK = ToolDefinition("look", "Looks.", PARAMETERS)
MAILING = Reply.of(ToolCall.of("send_mail", {"to": "ann\u200b"}, "c1"))


def told(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    context.report(1, 2, "half")
    return Answered({"done": arguments["to"]})


def tools() -> FakeSource:
    return FakeSource([MAIL, LOOK], told)


async def asked_leave(socket: Socket, body: dict[str, Any] = HELLO) -> tuple[str, out.ConfirmationRequired]:
    await socket.say(Ask(body))
    found = await socket.until(out.ConfirmationRequired, out.Failed)
    assert isinstance(found.frame, out.ConfirmationRequired), found
    return found.turn, found.frame


def test_a_tool_that_only_looks_runs_by_itself_and_tells_how_far_it_is() -> None:
    async def run() -> None:
        source, engine = tools(), speaking(Reply.of(ToolCall.of("look", {"to": "ann"}, "c1")), "There she is.")
        async with gateway_of(engine, sources=[source]) as client, connected(client) as socket:
            await socket.say(Ask(HELLO))
            assert (await socket.to_end()).frame == out.Done("stop")
            kinds = [type(one.frame) for one in socket.frames]
            assert kinds == [
                *(out.Started, out.CallDelta, out.CallDelta, out.CallDelta, out.Call),
                *(out.ToolStarted, out.ToolProgress, out.ToolGave, out.Token, out.Done),
            ]
            assert socket.of(out.ToolGave) == [out.ToolGave("c1", "look", {"done": "ann"})]
            assert socket.of(out.Call)[0].runs == socket.of(out.Started)[0].runs == "gateway"

    asyncio.run(run())


def test_leave_is_asked_for_with_what_will_run_and_nothing_in_it_hidden() -> None:
    async def run() -> None:
        async with gateway_of(speaking(MAILING), sources=[tools()]) as client, connected(client) as socket:
            _, asked = await asked_leave(socket)
            data = '{"to":"ann\u200b"}'.encode()
            assert asked.arguments == '{"to":"ann\\u200b"}'
            assert (asked.arguments_sha256, asked.arguments_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
            assert asked.tool == out.ToolFacts(
                "send_mail", MAIL.fingerprint, "Sends\\u200b a mail.", True, dict(PARAMETERS)
            )
            assert (asked.id, asked.principal, asked.conversation) == (
                *("c1", "local"),
                socket.of(out.Started)[0].conversation,
            )
            assert asked.expires_at > time.time()

    asyncio.run(run())


def test_a_call_runs_once_when_leave_is_given_and_the_model_goes_on() -> None:
    async def run() -> None:
        source, engine = tools(), speaking(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connected(client) as socket:
            turn, asked = await asked_leave(socket)
            await socket.say(Confirm(asked.approval, True))
            last = await socket.to_end()
            assert (last.turn, last.frame) == (turn, out.Done("stop"))
            assert [arguments for _, arguments, _ in source.called] == [{"to": "ann\u200b"}]
            assert len(socket.of(out.ConfirmationRequired)) == 1
            # Leave is used up.
            await socket.say(Confirm(asked.approval, True, ref="again"))
            refusal = (await socket.next()).frame
            assert isinstance(refusal, out.Failed)
            assert (refusal.code, refusal.ref, len(source.called)) == ("approval_decided", "again", 1)

    asyncio.run(run())


def test_a_denial_is_told_to_the_model_in_the_persons_words() -> None:
    async def run() -> None:
        source, engine = tools(), speaking(MAILING, "Then not.")
        async with gateway_of(engine, sources=[source]) as client, connected(client) as socket:
            _, asked = await asked_leave(socket)
            await socket.say(Confirm(asked.approval, False, "not before Monday"))
            assert (await socket.to_end()).frame == out.Done("stop")
            assert not source.called
            assert engine.requests[1].messages[-1].results[0].content == "denied: not before Monday"
            # And to whoever watches, as the end of that call.
            (told,) = socket.of(out.ToolGave)
            assert (told.id, told.content, told.is_error) == ("c1", "denied: not before Monday", True)

    asyncio.run(run())


def test_other_arguments_run_instead_where_they_fit_the_schema() -> None:
    async def run() -> None:
        source, engine = tools(), speaking(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connected(client) as socket:
            _, asked = await asked_leave(socket)
            for wrong in ({"to": 1}, {}, {"to": "bo", "bcc": "eve"}):
                await socket.say(Confirm(asked.approval, True, arguments=wrong))
                refusal = (await socket.until(out.Failed)).frame
                assert isinstance(refusal, out.Failed)
                assert refusal.code == "bad_request"
            await socket.say(Confirm(asked.approval, True, arguments={"to": "bo"}))
            await socket.to_end()
            assert [arguments for _, arguments, _ in source.called] == [{"to": "bo"}]
            assert socket.of(out.ToolStarted) == [out.ToolStarted("c1", "send_mail", '{"to": "bo"}')]

    asyncio.run(run())


def test_of_two_calls_each_has_its_own_leave_and_is_asked_for_once() -> None:
    async def run() -> None:
        both = Reply.of(ToolCall.of("send_mail", {"to": "ann"}, "c1"), ToolCall.of("send_mail", {"to": "bo"}, "c2"))
        source, engine = tools(), speaking(both, "Half of it.")
        async with gateway_of(engine, sources=[source]) as client, connected(client) as socket:
            await asked_leave(socket)
            await socket.until(out.ConfirmationRequired)
            asked = {one.id: one.approval for one in socket.of(out.ConfirmationRequired)}
            await socket.say(Confirm(asked["c2"], True))
            await socket.until(out.ToolGave)
            await socket.say(Confirm(asked["c1"], False))
            assert (await socket.to_end()).frame == out.Done("stop")
            assert [arguments for _, arguments, _ in source.called] == [{"to": "bo"}]
            assert len(socket.of(out.ConfirmationRequired)) == 2

    asyncio.run(run())


def test_leave_that_is_given_elsewhere_counts_as_well() -> None:
    async def run() -> None:
        source, engine = tools(), speaking(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connected(client) as socket:
            _, asked = await asked_leave(socket)
            await client.gateway.ledger.approve(asked.approval, "ann", now=time.time())
            assert (await socket.to_end()).frame == out.Done("stop")
            assert len(source.called) == 1

    asyncio.run(run())


def test_a_turn_that_was_cancelled_runs_nothing_and_can_be_gone_on_with_later() -> None:
    async def run() -> None:
        source, engine = tools(), speaking(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connected(client) as socket:
            turn, asked = await asked_leave(socket)
            await socket.say(Cancel(turn))
            assert (await socket.to_end()).frame == out.Done("cancelled")
            await socket.say(Confirm(asked.approval, True))
            known = None
            while known is not ApprovalState.APPROVED:
                await asyncio.sleep(0.01)
                approval = await client.gateway.ledger.approval(asked.approval)
                known = approval and approval.state
            assert not source.called
            await socket.say(Ask({**HELLO, "ferrule": {"resume": asked.conversation}}))
            assert (await socket.to_end()).frame == out.Done("stop")
            assert len(source.called) == 1

    asyncio.run(run())


ANN = key("ann", tools=("*",))
BOSS = key("boss", approve=True, models=())
STRANGER = key("stranger", tenant="elsewhere", approve=True)


@pytest.mark.parametrize(
    "who, code",
    [("ann", "token_scope_insufficient"), ("stranger", "approval_unknown"), ("boss", "")],
)
def test_with_keys_leave_is_for_those_who_may_give_it_and_of_the_same_tenant(who: str, code: str) -> None:
    async def decided(client: Client, approval: str) -> None:
        async with connected(client, bearer(who)) as other:
            await other.say(Confirm(approval, True))
            if code:
                refusal = (await other.next()).frame
                assert isinstance(refusal, out.Failed)
                assert refusal.code == code
            else:
                # He may not ask a model anything, and comes in all the same.
                await other.say(Ask(HELLO))
                refusal = (await other.next()).frame
                assert isinstance(refusal, out.Failed)
                assert refusal.code == "token_scope_insufficient"

    async def run() -> None:
        source, engine = tools(), speaking(MAILING, "Sent.")
        config = keyed(ANN, BOSS, STRANGER)
        async with (
            gateway_of(engine, sources=[source], config=config) as client,
            connected(client, bearer("ann")) as socket,
        ):
            _, asked = await asked_leave(socket)
            await decided(client, asked.approval)
            if code:
                await asyncio.sleep(0.05)
                assert not source.called
            else:
                assert (await socket.to_end()).frame == out.Done("stop")
                assert len(source.called) == 1

    asyncio.run(run())


@pytest.mark.parametrize("confirm", [Confirm("nobody-asked", True), Confirm("no\x00", False), Confirm("\ud800", True)])
def test_leave_that_nobody_asked_for_cannot_be_given(confirm: Confirm) -> None:
    async def run() -> None:
        async with gateway_of(speaking("a")) as client, connected(client) as socket:
            await socket.say(confirm)
            refusal = (await socket.next()).frame
            assert isinstance(refusal, out.Failed)
            assert refusal.code == "approval_unknown"

    asyncio.run(run())
