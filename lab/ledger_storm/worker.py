"""A process that runs conversations in the shared ledger, and takes over those that another process left.

It works on the oldest conversations that have not ended. It records in a file which ones it owns, so that the driver
knows what a process that it stops holds.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import ferrule.ledger
from ferrule import Role, ToolConversation, ToolExecutor
from ferrule.errors import FencedError, LedgerError, LedgerUnavailableError
from ferrule.events import State
from ferrule.ledger import Ledger
from lab.ledger_storm.script import MAX_ROUNDS, POLICY, ScriptedEngine, append_line, storm_tools

TURNS: Final = 2
WINDOW: Final = 16
"""How many conversations are under way at the same time, in all processes together."""
_TASKS: Final = 3
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Board:
    """The files by which the processes of a storm know of each other's work. Every line is appended in one write."""

    folder: Path

    @property
    def effects(self) -> Path:
        return self.folder / "effects"

    @property
    def holds(self) -> Path:
        """Lines `opened PID CONVERSATION` and `closed PID CONVERSATION`."""
        return self.folder / "holds"

    @property
    def ended(self) -> Path:
        """The conversations that have ended, once or more often each."""
        return self.folder / "ended"

    @property
    def faults(self) -> Path:
        """What must not happen, and did."""
        return self.folder / "faults"

    @property
    def limit(self) -> Path:
        """The number of conversations, once no new ones may begin."""
        return self.folder / "limit"

    @property
    def log(self) -> Path:
        """The output of all processes."""
        return self.folder / "log"

    def create(self) -> None:
        for path in (self.effects, self.holds, self.ended, self.faults):
            path.touch()

    def read_ended(self) -> set[str]:
        return set(self.ended.read_text(encoding="utf-8").split())

    def read_limit(self) -> int | None:
        return int(self.limit.read_text(encoding="utf-8")) if self.limit.exists() else None


def name_of(number: int) -> str:
    return f"c{number}"


@dataclass(slots=True)
class _Plan:
    """Which conversations are to be worked on. Reads only what was appended since the last look."""

    board: Board
    position: int = 0
    ended: set[str] = field(default_factory=set[str])
    first: int = 0

    def open_names(self) -> list[str]:
        with self.board.ended.open(encoding="utf-8") as file:
            file.seek(self.position)
            text = file.read()
            self.position = file.tell()
        self.ended.update(text.split())
        while name_of(self.first) in self.ended:
            self.first += 1
        limit = self.board.read_limit()
        names: list[str] = []
        number = self.first
        while len(names) < WINDOW and (limit is None or number < limit):
            if name_of(number) not in self.ended:
                names.append(name_of(number))
            number += 1
        return names


def run_worker(ledger: str, folder: str, lease: float) -> None:
    """Run until the process is killed."""
    asyncio.run(_work(ledger, Board(Path(folder)), lease))


async def _work(address: str, board: Board, lease: float) -> None:
    ledger = await _open(address)
    plan, busy = _Plan(board), set[str]()
    await asyncio.gather(*(_work_on_any(ledger, board, plan, busy, lease) for _ in range(_TASKS)))


async def _open(address: str) -> Ledger:
    while True:
        try:
            return await ferrule.ledger.open(address)
        except LedgerUnavailableError:
            await asyncio.sleep(_PAUSE)


async def _work_on_any(ledger: Ledger, board: Board, plan: _Plan, busy: set[str], lease: float) -> None:
    while True:
        names = [name for name in plan.open_names() if name not in busy]
        if names:
            name = random.choice(names)
            busy.add(name)
            try:
                await _work_on(ledger, board, name, lease)
            except (FencedError, LedgerUnavailableError):
                # Another process owns it, or owns it by now; or the database is away. Somebody tries again.
                pass
            except LedgerError as error:
                append_line(board.faults, f"{name}: {error.code}: {error.message}")
            finally:
                busy.discard(name)
        await asyncio.sleep(random.uniform(0, _PAUSE))


async def _work_on(ledger: Ledger, board: Board, name: str, lease: float) -> None:
    """Take a conversation as far as it goes without waiting for a decision."""
    executor = ToolExecutor(storm_tools(board.effects), max_iterations=MAX_ROUNDS, approval_policy=POLICY)
    conversation = await ToolConversation.open(ledger, name, ScriptedEngine(), executor, lease=lease)
    append_line(board.holds, f"opened {os.getpid()} {name}")
    try:
        while True:
            begun = sum(message.role is Role.USER for message in conversation.messages)
            if conversation.is_unfinished:
                turn = await conversation.resume()
            elif begun < TURNS:
                turn = await conversation.send_message(f"{name}.{begun}")
            else:
                append_line(board.ended, name)
                break
            if turn.state is State.WAITING:
                break
            if turn.state is not State.DONE:
                append_line(board.faults, f"{name}: the turn ended as {turn.state}")
                break
        await conversation.close()
    finally:
        append_line(board.holds, f"closed {os.getpid()} {name}")
