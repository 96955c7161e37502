"""One conversation of three tool steps, killed at one point after another: `kill_matrix.py LEDGER FOLDER`.

For every point a process is forked that dies there by SIGKILL, then another that goes on from the ledger. Points are
found by counting: with all statements of a transaction made and nothing committed, after its commit, and at the
beginning, in the middle and at the end of each effect. Prints one line of JSON for each point.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.run.conversation import ToolConversation
from ferrule.run.dispatcher import UNKNOWN_WORDS
from ferrule.run.journal import Decision
from ferrule.run.ledger.address import ledger_at
from ferrule.run.ledger.sql import SqlLedger
from ferrule.schema.tool_decorator import tool

STEPS = ("look", "pay", "post")
ANN = CallContext(principal=Principal("ann", "acme"))
Kill = Callable[[str], None]


class Scripted(Engine):
    """Calls the three tools in turn and then answers, judging by the results that it has been given."""

    traits = Traits(name="scripted", honours=ALL_CHOICES)

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        given = sum(message.role is Role.TOOL for message in request.messages)
        said = Reply.of("all done") if given == len(STEPS) else Reply.of(ToolCall.of(STEPS[given], {}, id="same"))
        for event in events_of(said):
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


def killing(ledger: SqlLedger, kill: Kill) -> None:
    """Every transaction of this ledger has two points to die at."""
    real: Callable[[Any], Awaitable[Any]] = ledger._transact  # pyright: ignore[reportPrivateUsage]
    count = 0

    async def transact(work: Any) -> Any:
        nonlocal count
        count += 1
        number, name = count, work.gi_code.co_name

        def dying() -> Any:
            result = yield from work
            kill(f"{number} {name}: not committed")
            return result

        result = await real(dying())
        kill(f"{number} {name}: committed")
        return result

    ledger._transact = transact  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]


async def allowed(call: ToolCall) -> Decision:
    return Decision(True)


async def talk(where: str, file: Path, id: str, kill: Kill | None, clock: Callable[[], float]) -> dict[str, Any]:
    async with await ledger_at(where) as ledger:
        if kill is not None:
            killing(ledger, kill)
        held = await ToolConversation.open(
            *(ledger, id, Scripted(), tools_into(file, kill or (lambda point: None))),
            decide=allowed,
            context=ANN,
            clock=clock,
        )
        turn = await (held.resume() if held.is_unfinished else held.send_message("go"))
        results = [result for message in held.messages for result in message.results]
        audit = await ledger.audit(id)
        return {
            "state": turn.state.value,
            "last": turn.text,
            "told_unknown": [result.name for result in results if str(result.content).startswith(UNKNOWN_WORDS)],
            "told": [result.name for result in results],
            "unknown": sum(row.kind == "unknown" for row in audit),
            "breach": str(await ledger.verify(id) or ""),
        }


def forked(work: Callable[[], None]) -> int:
    """Runs work in a process of its own; how that ended, as a signal or 0."""
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


def points(where: str, folder: Path) -> list[str]:
    """Every point that a conversation passes when nobody dies."""
    out = folder / "points"

    def work() -> None:
        seen: list[str] = []
        asyncio.run(talk(where, folder / "rehearsal", "rehearsal", seen.append, time.time))
        out.write_text(json.dumps(seen))
        os._exit(0)

    assert forked(work) == 0
    return json.loads(out.read_text())


def main(where: str, folder: Path) -> None:
    # What a ledger imports late, two hundred forks would each import for themselves.
    for late in ("psycopg", "ferrule.run.ledger.postgres", "ferrule.run.ledger.sqlite"):
        import_module(late)
    for number, point in enumerate(points(where, folder)):
        file, told, id = folder / f"effects-{number}", folder / f"told-{number}", f"c{number}"
        file.touch()

        def die(here: str, wanted: str = point) -> None:
            if here == wanted:
                os.kill(os.getpid(), signal.SIGKILL)

        def victim(file: Path = file, id: str = id) -> None:
            asyncio.run(talk(where, file, id, die, time.time))

        def successor(file: Path = file, id: str = id, told: Path = told) -> None:
            # An hour later: the lease has run out, and nobody had to wait.
            told.write_text(json.dumps(asyncio.run(talk(where, file, id, None, lambda: time.time() + 3600))))
            os._exit(0)

        died, ended = forked(victim), forked(successor)
        found = json.loads(told.read_text()) if ended == 0 else {}
        print(json.dumps({"point": point, "died": died, "ended": ended, "effects": file.read_text(), **found}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
