"""Where `ferrule chat` reads from: a line editor on a terminal, else lines. The only module that uses prompt_toolkit.

Without that package a terminal's own line editing is used. It knows neither commands nor models.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.cli import terminal

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

PROMPT = "> "
INSTALL = 'pip install "ferrule[chat]"'


class Interruption(Exception):
    """Ctrl-C was pressed, and there was no text that it could clear."""


class ChatInput(Protocol):
    """Reads messages and answers to questions."""

    has_editor: bool
    """Whether lines can be edited, and earlier ones called back."""

    async def read_message(self) -> str | None:
        """Return the next message; None at the end of the input. Raises `Interruption`."""
        ...

    async def ask(self, question: str) -> str | None:
        """Return the answer to a question; None at the end of the input. Raises `Interruption`."""
        ...


def open_input(commands: Sequence[str], history: Path | None) -> ChatInput:
    """Return the best input that there is for a person. `commands` are completed, `history` is the file for it."""
    try:
        return _EditorInput(commands, history)
    except ImportError:
        return LineInput()


class LineInput:
    """Reads lines of stdin."""

    has_editor = False

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._is_reading = False

    async def read_message(self) -> str | None:
        return await self._read("you")

    async def ask(self, question: str) -> str | None:
        return await self._read(question)

    async def _read(self, prompt: str) -> str | None:
        if sys.stdin.isatty() or prompt != "you":
            terminal.prompt(prompt)
        # A read cannot be cancelled. If one was given up, its line is the answer to what is asked next.
        if not self._is_reading:
            self._is_reading = True
            loop = asyncio.get_running_loop()
            # No thread of an executor: the process would wait for it at its end.
            threading.Thread(target=self._read_line, args=(loop,), daemon=True).start()
        line = await self._lines.get()
        return line.strip() if line else None

    def _read_line(self, loop: asyncio.AbstractEventLoop) -> None:
        line = sys.stdin.readline()

        def deliver() -> None:
            self._is_reading = False
            self._lines.put_nowait(line)

        try:
            loop.call_soon_threadsafe(deliver)
        except RuntimeError:
            # The loop is closed: nobody waits for the line.
            return


class _EditorInput:
    has_editor = True

    def __init__(self, commands: Sequence[str], history: Path | None) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.shortcuts import CompleteStyle

        self._messages: Any = PromptSession(
            history=FileHistory(str(history)) if history and _is_private_file(history) else InMemoryHistory(),
            multiline=True,
            key_bindings=_message_keys(),
            completer=WordCompleter(list(commands), sentence=True),
            complete_while_typing=False,
            # A menu would reserve eight lines below each prompt.
            complete_style=CompleteStyle.READLINE_LIKE,
            prompt_continuation="  ",
            enable_open_in_editor=True,
        )
        # Its answers are no messages: they do not enter the history.
        self._answers: Any = PromptSession(history=InMemoryHistory(), key_bindings=_answer_keys())

    async def read_message(self) -> str | None:
        return await self._read(self._messages, PROMPT)

    async def ask(self, question: str) -> str | None:
        return await self._read(self._answers, f"{question} ")

    async def _read(self, session: Any, prompt: str) -> str | None:
        try:
            return str(await session.prompt_async(prompt, handle_sigint=False)).strip()
        except EOFError:
            return None


def _is_private_file(path: Path) -> bool:
    """Create the file for this user alone. False if it cannot be written: then the history is not kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return False
    return True


def _message_keys() -> KeyBindings:
    keys = _answer_keys()

    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    keys.add("enter")(send)
    # What was typed before the editor was ready ends so.
    keys.add("c-j")(send)
    keys.add("escape", "enter")(break_line)
    return keys


def _answer_keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    def interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=Interruption, style="class:aborting")

    keys.add("c-c")(interrupt)
    return keys
