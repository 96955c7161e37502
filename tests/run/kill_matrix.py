"""One conversation of three tool steps, killed at one point after another: `kill_matrix.py LEDGER FOLDER`.

For every point it forks a process that dies there by SIGKILL, then another one that resumes from the ledger. The points
are: after each statement and each step, which is committed by then, and at the beginning, in the middle and at the end
of each effect. It prints one line of JSON for each point.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.run.conversation import ToolConversation
from ferrule.run.executor import UNKNOWN_MESSAGE
from ferrule.run.journal import Decision
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import AuditRecord, Ledger
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.transaction import Statement
from ferrule.run.ledger.writes import Kind
from ferrule.schema.tool_decorator import tool
from run.ledger_databases import address_of
from run.watched_ledger import Executed, watch

STEPS = ("look", "pay", "post")
ANN = CallContext(principal=Principal("ann", "acme"))
Kill = Callable[[str], None]


class Scripted(Engine):
    """Calls the three tools in turn and then answers, depending on how many results there are."""

    traits = Traits(name="scripted", honours=ALL_CHOICES)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        result_count = sum(message.role is Role.TOOL for message in request.messages)
        reply = (
            Reply.of("all done")
            if result_count == len(STEPS)
            else Reply.of(ToolCall.of(STEPS[result_count], {}, id="same"))
        )
        for event in events_of(reply):
            yield event

    async def close(self) -> None:
        return


def tools_into(file: Path, kill: Kill) -> list[Any]:
    """Each effect is two writes: a process can die before, between and after them."""

    def write(name: str) -> str:
        kill(f"{name}: effect begins")
        with file.open("a") as out:
            out.write(f"{name} ")
            out.flush()
            kill(f"{name}: in the middle of the effect")
            out.write("done\n")
        kill(f"{name}: effect made")
        return f"{name} happened"

    @tool
    async def look() -> str:
        return write("look")

    @tool(side_effects=True)
    async def pay() -> str:
        return write("pay")

    @tool(side_effects=True)
    async def post() -> str:
        return write("post")

    return [look, pay, post]


def kill_in_transactions(ledger: Ledger, kill: Kill) -> None:
    """Add points to die at to every transaction of this ledger: after each statement and step, and at its end."""

    def executed(one: Executed) -> None:
        # One of several statements names what it stores by its content, and is not repeated later.
        if not one.is_atomic:
            kill(point_of(one))

    watch(ledger, executed, lambda name, number: kill(f"{number} {name}: returned"))


def point_of(one: Executed) -> str:
    return f"{one.number} {one.transaction}: {described(one.wanted)} {one.at}"


def described(wanted: Statement | Step) -> str:
    """What a process has just had executed: a statement by its name, a step by what it adds to the audit log."""
    if isinstance(wanted, Statement):
        return f"statement {wanted.name}"
    # Without its last column, which says in which partition it lies.
    audit = [AuditRecord(*cast("Any", row[:-1])) for row in wanted.rows.get(Kind.AUDIT, ())]
    return f"step {' '.join(f'{row.kind}={row.call_id}' for row in audit)}"


async def allow(call: ToolCall) -> Decision:
    return Decision(True)


Watch = Callable[[Ledger, Kill], None]
"""Adds points to the transactions of a ledger."""


async def run_conversation(
    address: str | list[str],
    file: Path,
    id: str,
    kill: Kill | None,
    clock: Callable[[], float],
    watch: Watch = kill_in_transactions,
) -> dict[str, Any]:
    async with await open_ledger(address) as ledger:
        if kill is not None:
            watch(ledger, kill)
        conversation = await ToolConversation.open(
            *(ledger, id, Scripted(), tools_into(file, kill or (lambda point: None))),
            decide=allow,
            context=ANN,
            clock=clock,
        )
        turn = await (conversation.resume() if conversation.is_unfinished else conversation.send_message("go"))
        results = [result for message in conversation.messages for result in message.results]
        audit = await ledger.audit(id)
        return {
            "state": turn.state.value,
            "last": turn.text,
            "reported_unknown": [result.name for result in results if str(result.content).startswith(UNKNOWN_MESSAGE)],
            "reported": [result.name for result in results],
            "unknown": sum(row.kind == "unknown" for row in audit),
            "breach": str(await ledger.verify(id) or ""),
        }


def fork(work: Callable[[], None]) -> int:
    """Run work in a forked process and return how it ended: a signal, or the exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            if sys.exc_info()[0]:
                traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def points(
    address: str | list[str], folder: Path, watch: Watch = kill_in_transactions, id: str = "rehearsal"
) -> list[str]:
    """Return every point that a conversation passes if no process dies."""
    out = folder / "points"

    def work() -> None:
        passed: list[str] = []
        asyncio.run(run_conversation(address, folder / id, id, passed.append, time.time, watch))
        out.write_text(json.dumps(passed))
        os._exit(0)

    assert fork(work) == 0
    return json.loads(out.read_text())


def main(address: str | list[str], folder: Path) -> None:
    # Imported before forking, so that two hundred forks do not each import them.
    for late in ("psycopg", "ferrule.run.ledger.postgres", "ferrule.run.ledger.sqlite"):
        import_module(late)
    if not isinstance(address, str):
        # The first process places the tenant, and no other one does.
        points(address, folder, id="first")
    for number, point in enumerate(points(address, folder)):
        file, report, id = folder / f"effects-{number}", folder / f"told-{number}", f"c{number}"
        file.touch()

        def die(here: str, target: str = point) -> None:
            if here == target:
                os.kill(os.getpid(), signal.SIGKILL)

        def victim(file: Path = file, id: str = id) -> None:
            asyncio.run(run_conversation(address, file, id, die, time.time))

        def successor(file: Path = file, id: str = id, report: Path = report) -> None:
            # An hour later: the lease has run out, and nobody had to wait.
            report.write_text(
                json.dumps(asyncio.run(run_conversation(address, file, id, None, lambda: time.time() + 3600)))
            )
            os._exit(0)

        died, ended = fork(victim), fork(successor)
        result = json.loads(report.read_text()) if ended == 0 else {}
        print(json.dumps({"point": point, "died": died, "ended": ended, "effects": file.read_text(), **result}))


if __name__ == "__main__":
    main(address_of(sys.argv[1]), Path(sys.argv[2]))
