"""The gateway's own tools over a WebSocket, and approval of calls with side effects."""

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
from ferrule.dialects.frames.client_frames import AskFrame, CancelFrame, ConfirmFrame
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.sources.fake import FakeSource
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.websocket_client import Socket, connect

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


def tool_results(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    context.report(1, 2, "half")
    return Answered({"done": arguments["to"]})


def tools() -> FakeSource:
    return FakeSource([MAIL, LOOK], tool_results)


async def request_approval(socket: Socket, body: dict[str, Any] = HELLO) -> tuple[str, out.ConfirmationFrame]:
    await socket.send(AskFrame(body))
    frame = await socket.until(out.ConfirmationFrame, out.ErrorFrame)
    assert isinstance(frame.frame, out.ConfirmationFrame), frame
    return frame.turn, frame.frame


def test_a_read_only_tool_runs_without_approval_and_reports_progress() -> None:
    async def run() -> None:
        source, engine = tools(), scripted_engine(Reply.of(ToolCall.of("look", {"to": "ann"}, "c1")), "There she is.")
        async with gateway_of(engine, sources=[source]) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO))
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            kinds = [type(one.frame) for one in socket.frames]
            assert kinds == [
                *(out.StartedFrame, out.CallDeltaFrame, out.CallDeltaFrame, out.CallDeltaFrame, out.CallFrame),
                *(out.ToolStartedFrame, out.ToolProgressFrame, out.ToolResultFrame, out.TokenFrame, out.DoneFrame),
            ]
            assert socket.of(out.ToolResultFrame) == [out.ToolResultFrame("c1", "look", {"done": "ann"})]
            assert socket.of(out.CallFrame)[0].runs == socket.of(out.StartedFrame)[0].runs == "gateway"

    asyncio.run(run())


def test_the_confirmation_shows_exactly_what_will_run_without_hidden_characters() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(MAILING), sources=[tools()]) as client, connect(client) as socket:
            _, confirmation = await request_approval(socket)
            data = '{"to":"ann\u200b"}'.encode()
            assert confirmation.arguments == '{"to":"ann\\u200b"}'
            assert (confirmation.arguments_sha256, confirmation.arguments_bytes) == (
                hashlib.sha256(data).hexdigest(),
                len(data),
            )
            assert confirmation.tool == out.ToolInfo(
                "send_mail", MAIL.fingerprint, "Sends\\u200b a mail.", True, dict(PARAMETERS)
            )
            assert (confirmation.id, confirmation.principal, confirmation.conversation) == (
                *("c1", "local"),
                socket.of(out.StartedFrame)[0].conversation,
            )
            assert confirmation.expires_at > time.time()

    asyncio.run(run())


def test_an_approved_call_runs_once_and_the_model_continues() -> None:
    async def run() -> None:
        source, engine = tools(), scripted_engine(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connect(client) as socket:
            turn, confirmation = await request_approval(socket)
            await socket.send(ConfirmFrame(confirmation.approval, True))
            last = await socket.to_end()
            assert (last.turn, last.frame) == (turn, out.DoneFrame("stop"))
            assert [arguments for _, arguments, _ in source.calls] == [{"to": "ann\u200b"}]
            assert len(socket.of(out.ConfirmationFrame)) == 1
            # Leave is used up.
            await socket.send(ConfirmFrame(confirmation.approval, True, ref="again"))
            refusal = (await socket.next()).frame
            assert isinstance(refusal, out.ErrorFrame)
            assert (refusal.code, refusal.ref, len(source.calls)) == ("approval_decided", "again", 1)

    asyncio.run(run())


def test_the_model_reads_a_denial_with_the_persons_reason() -> None:
    async def run() -> None:
        source, engine = tools(), scripted_engine(MAILING, "Then not.")
        async with gateway_of(engine, sources=[source]) as client, connect(client) as socket:
            _, confirmation = await request_approval(socket)
            await socket.send(ConfirmFrame(confirmation.approval, False, "not before Monday"))
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            assert not source.calls
            assert engine.requests[1].messages[-1].results[0].content == "denied: not before Monday"
            # And the client, as the end of that call.
            (frames,) = socket.of(out.ToolResultFrame)
            assert (frames.id, frames.content, frames.is_error) == ("c1", "denied: not before Monday", True)

    asyncio.run(run())


def test_other_arguments_run_instead_where_they_fit_the_schema() -> None:
    async def run() -> None:
        source, engine = tools(), scripted_engine(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connect(client) as socket:
            _, confirmation = await request_approval(socket)
            for wrong in ({"to": 1}, {}, {"to": "bo", "bcc": "eve"}):
                await socket.send(ConfirmFrame(confirmation.approval, True, arguments=wrong))
                refusal = (await socket.until(out.ErrorFrame)).frame
                assert isinstance(refusal, out.ErrorFrame)
                assert refusal.code == "bad_request"
            await socket.send(ConfirmFrame(confirmation.approval, True, arguments={"to": "bo"}))
            await socket.to_end()
            assert [arguments for _, arguments, _ in source.calls] == [{"to": "bo"}]
            assert socket.of(out.ToolStartedFrame) == [out.ToolStartedFrame("c1", "send_mail", '{"to": "bo"}')]

    asyncio.run(run())


def test_each_of_two_calls_has_its_own_approval_requested_once() -> None:
    async def run() -> None:
        both = Reply.of(ToolCall.of("send_mail", {"to": "ann"}, "c1"), ToolCall.of("send_mail", {"to": "bo"}, "c2"))
        source, engine = tools(), scripted_engine(both, "Half of it.")
        async with gateway_of(engine, sources=[source]) as client, connect(client) as socket:
            await request_approval(socket)
            await socket.until(out.ConfirmationFrame)
            confirmation = {one.id: one.approval for one in socket.of(out.ConfirmationFrame)}
            await socket.send(ConfirmFrame(confirmation["c2"], True))
            await socket.until(out.ToolResultFrame)
            await socket.send(ConfirmFrame(confirmation["c1"], False))
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            assert [arguments for _, arguments, _ in source.calls] == [{"to": "bo"}]
            assert len(socket.of(out.ConfirmationFrame)) == 2

    asyncio.run(run())


def test_an_approval_given_elsewhere_counts_too() -> None:
    async def run() -> None:
        source, engine = tools(), scripted_engine(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connect(client) as socket:
            _, confirmation = await request_approval(socket)
            await client.gateway.ledger.approve(confirmation.approval, "ann", now=time.time())
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            assert len(source.calls) == 1

    asyncio.run(run())


def test_a_cancelled_turn_runs_nothing_and_can_be_resumed_later() -> None:
    async def run() -> None:
        source, engine = tools(), scripted_engine(MAILING, "Sent.")
        async with gateway_of(engine, sources=[source]) as client, connect(client) as socket:
            turn, confirmation = await request_approval(socket)
            await socket.send(CancelFrame(turn))
            assert (await socket.to_end()).frame == out.DoneFrame("cancelled")
            await socket.send(ConfirmFrame(confirmation.approval, True))
            state = None
            while state is not ApprovalState.APPROVED:
                await asyncio.sleep(0.01)
                approval = await client.gateway.ledger.approval(confirmation.approval)
                state = approval and approval.state
            assert not source.calls
            await socket.send(AskFrame({**HELLO, "ferrule": {"resume": confirmation.conversation}}))
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            assert len(source.calls) == 1

    asyncio.run(run())


ANN = key("ann", tools=("*",))
BOSS = key("boss", approve=True, models=())
STRANGER = key("stranger", tenant="elsewhere", approve=True)


@pytest.mark.parametrize(
    "who, code",
    [("ann", "token_scope_insufficient"), ("stranger", "approval_unknown"), ("boss", "")],
)
def test_with_keys_only_approvers_of_the_same_tenant_decide(who: str, code: str) -> None:
    async def decided(client: Client, approval: str) -> None:
        async with connect(client, bearer(who)) as other:
            await other.send(ConfirmFrame(approval, True))
            if code:
                refusal = (await other.next()).frame
                assert isinstance(refusal, out.ErrorFrame)
                assert refusal.code == code
            else:
                # This key may not use any model, and is admitted all the same.
                await other.send(AskFrame(HELLO))
                refusal = (await other.next()).frame
                assert isinstance(refusal, out.ErrorFrame)
                assert refusal.code == "token_scope_insufficient"

    async def run() -> None:
        source, engine = tools(), scripted_engine(MAILING, "Sent.")
        config = config_with_keys(ANN, BOSS, STRANGER)
        async with (
            gateway_of(engine, sources=[source], config=config) as client,
            connect(client, bearer("ann")) as socket,
        ):
            _, confirmation = await request_approval(socket)
            await decided(client, confirmation.approval)
            if code:
                await asyncio.sleep(0.05)
                assert not source.calls
            else:
                assert (await socket.to_end()).frame == out.DoneFrame("stop")
                assert len(source.calls) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "confirm", [ConfirmFrame("nobody-asked", True), ConfirmFrame("no\x00", False), ConfirmFrame("\ud800", True)]
)
def test_an_unknown_approval_cannot_be_decided(confirm: ConfirmFrame) -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("a")) as client, connect(client) as socket:
            await socket.send(confirm)
            refusal = (await socket.next()).frame
            assert isinstance(refusal, out.ErrorFrame)
            assert refusal.code == "approval_unknown"

    asyncio.run(run())
