"""A gateway that dies at a point of its own choice: `continuation_gateway.py LEDGER EFFECTS POINTS WEBHOOK POINT`.

Its model asks for one payment, which needs approval, and then answers. It writes every point that it passes into the
file of points, and dies by SIGKILL at the given one. The points are: each transaction that changes something, with all
statements executed and nothing committed, and after its commit; and the beginning and the end of the effect.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

from ferrule.core.call import ToolCall
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.tables import STATEMENTS
from ferrule.run.ledger.transaction import Statement
from ferrule.run.ledger.writes import Kind
from ferrule.schema.tool_decorator import tool
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, ServerConfig, TracesConfig
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from ferrule.sources.functions import Functions
from run.watched_ledger import Executed, watch

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
LEASE = 1.0
# They happen again and again: there is nothing to lose in them.
_REPEATED = ("set_lease", "note_version", "raise_version")


class Paying(Engine):
    traits = Traits(name="paying", honours=ALL_CHOICES)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        has_result = any(message.role is Role.TOOL for message in request.messages)
        reply = Reply.of("Paid Bob.") if has_result else Reply.of(ToolCall.of("pay", {"amount": 3}, id="c1"))
        for event in events_of(reply):
            yield event

    async def close(self) -> None:
        return


class Points:
    """Counts the points by name, and dies at one of them."""

    def __init__(self, file: Path, deadly: str) -> None:
        self._file = file
        self._deadly = deadly
        self._counts = Counter[str]()

    def number(self, name: str) -> int:
        self._counts[name] += 1
        return self._counts[name]

    def reach(self, point: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{point}\n")
        if point == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, ledger: SqlLedger) -> None:
        """A point after each step that was written, and after each statement that writes by itself."""

        def executed(one: Executed) -> None:
            name = written_by(one.wanted)
            if name and one.result.count:
                self.reach(f"{name} {self.number(name)}: written")

        watch(ledger, executed)


def written_by(wanted: Statement | Step) -> str:
    """What was written: a step by its audit rows, a statement by its name. Empty for a statement that reads."""
    if isinstance(wanted, Step):
        return "+".join(str(row[3]) for row in wanted.rows[Kind.AUDIT])
    is_read = STATEMENTS[wanted.name].startswith("SELECT") or wanted.name in _REPEATED
    return "" if is_read else wanted.name


async def main(ledger: str, effects: Path, points: Points, webhook: str) -> None:
    @tool(side_effects=True)
    async def pay(amount: int) -> str:
        """Pays."""
        points.reach("effect: begins")
        with effects.open("a") as file:
            file.write(f"{amount}\n")
        points.reach("effect: made")
        return f"paid {amount}"

    server = ServerConfig(port=0, webhook_url=webhook, webhook_secret=SECRET, webhook_retry_seconds=0.05)
    config = Config(
        engines=(EngineConfig(name="model", use="paying"),),
        server=server,
        ledger=ledger,
        lease_seconds=LEASE,
        # Traces are written when there is time, and so are no steps that every run has.
        traces=TracesConfig(days=0),
    )
    async with open_gateway(config, [Functions([pay])], load=lambda use: Paying()) as gateway:
        assert isinstance(gateway.ledger, SqlLedger)
        points.watch(gateway.ledger)
        await serve(application(gateway), config.server, lambda port: print(f"port {port}", flush=True))


if __name__ == "__main__":
    address, effect_file, point_file, url, point = sys.argv[1:]
    asyncio.run(main(address, Path(effect_file), Points(Path(point_file), point), url))
