"""Turns with no, one or three calls, and how many steps a ledger may write for them."""

from __future__ import annotations

from ferrule import Reply, ToolCall, tool
from ferrule.engines.fake import FakeEngine
from ferrule.run.journal import Decision
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.writes import Kind
from run.watched_ledger import Executed, watch

STEPS_OF_TURNS = {"": 2, "look": 2, "pay": 4, "pay pay pay": 4}
"""The steps of each turn in a conversation that is opened for it: opening it is the first."""


@tool
async def look() -> str:
    return "seen"


@tool(side_effects=True)
async def pay(number: int) -> str:
    return "paid"


async def allow(call: ToolCall) -> Decision:
    return Decision(True)


def engine_of(calls: str) -> FakeEngine:
    """An engine that makes these calls in one reply, and then answers."""
    parts = [
        ToolCall.of(name, {"number": number} if name == "pay" else {}, id=f"c{number}")
        for number, name in enumerate(calls.split())
    ]
    return FakeEngine([*([Reply.of(*parts)] if parts else []), Reply.of("Done.")])


def watch_steps(ledger: SqlLedger) -> list[str]:
    """The kinds in the audit log of each step that is written from now on."""
    written: list[str] = []

    def executed(one: Executed) -> None:
        if isinstance(one.wanted, Step):
            written.append(" ".join(str(row[3]) for row in one.wanted.rows[Kind.AUDIT]))

    watch(ledger, executed)
    return written
