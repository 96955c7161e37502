"""ChatSession: a conversation with a person, one turn after another, and what Ctrl-C does to it.

It knows neither the names of commands nor how an answer is drawn.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Generator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from ferrule.cli import terminal
from ferrule.cli.chat_approval import ChatApproval
from ferrule.cli.chat_input import ChatInput, Interruption
from ferrule.core.event import RuleShown, TextDelta, WireText
from ferrule.core.message import ChatMessage, Role
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.core.visible_text import visible
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent, ToolFinished, ToolProgressed, ToolStarted
from ferrule.sources.combined_sources import CombinedSources

T = TypeVar("T")


class ChatSession:
    """The conversation, the engine it runs on, and what the last turn was made of."""

    def __init__(
        self,
        engine: Engine,
        source: CombinedSources,
        request: ToolCallRequest,
        approval: ChatApproval,
        *,
        system: str = "",
        is_interactive: bool = False,
    ) -> None:
        self.engine, self.source, self.approval = engine, source, approval
        self.is_interactive = is_interactive
        self.raw: list[RuleShown | WireText] = []
        """The prompt, the grammar and the model's own text of the last turn, if the engine shows them."""
        # What the model wrote is kept for /raw, which only a person can ask for.
        self._request = replace(request, shows_wire=is_interactive)
        self._system = system
        self._running: asyncio.Task[Any] | None = None
        self._is_interrupted = False
        self.restart()

    def restart(self) -> None:
        """Begin a new conversation."""
        self._talk = ToolConversation(self.engine, self._tools, system=self._system, **self._options)
        self.raw = []

    def use_engine(self, engine: Engine) -> None:
        """Continue the conversation with another model."""
        self.engine = engine
        self.load(self.save())

    def load(self, data: dict[str, Any]) -> None:
        """Continue a saved conversation."""
        self._talk = ToolConversation.load(data, self.engine, self._tools, **self._options)

    def save(self) -> dict[str, Any]:
        return self._talk.save()

    @property
    def messages(self) -> list[ChatMessage]:
        return self._talk.messages

    @property
    def _tools(self) -> Any:
        return self.source if self.source.sources else ()

    @property
    def _options(self) -> dict[str, Any]:
        return {"request": self._request, "decide": self.approval.decide}

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return await self.source.tools()

    @contextmanager
    def signals(self) -> Generator[None]:
        """Inside, Ctrl-C stops what is being waited for."""
        loop = asyncio.get_running_loop()
        # Not on Windows, where Ctrl-C ends the command.
        with suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)

    def interrupt(self) -> None:
        """Stop the answer. If that was done before and it has not ended yet, leave."""
        if self._running is None or self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True
        self._running.cancel()

    async def until_interrupt(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something; raises `Interruption` if Ctrl-C stopped it."""
        self._is_interrupted = False
        self._running = asyncio.ensure_future(work)
        try:
            return await self._running
        except asyncio.CancelledError:
            if not self._is_interrupted:
                raise
            raise Interruption from None
        finally:
            self._running = None

    async def stops(self, work: Coroutine[Any, Any, None]) -> bool:
        """Wait for something; True if Ctrl-C stopped it."""
        try:
            await self.until_interrupt(work)
        except Interruption:
            terminal.show_note("stopped")
            return True
        return False

    async def ask(self, input: ChatInput, question: str) -> str | None:
        """Ask while an answer runs: Ctrl-C at the question stops the answer."""
        try:
            return await input.ask(question)
        except Interruption:
            self.interrupt()
            return None

    async def answer(self, text: str) -> bool:
        """Run one turn and show it. True if Ctrl-C stopped it; what it wrote is kept as far as it came."""
        view, turn = terminal.reply_view(), _TurnState()
        self.raw = []
        self.approval.before_question = view.pause
        before = len(self.messages)
        try:
            await self.until_interrupt(self._show_turn(text, view, turn))
        except Interruption:
            self._keep_stopped(turn, before)
            return True
        except FerruleError as error:
            if not self.is_interactive:
                raise
            self._drop_unanswered(before)
            terminal.show_error(error.message, error.hint)
        else:
            if self.is_interactive:
                terminal.show_hint(view.summary)
        return False

    async def _show_turn(self, text: str, view: terminal.ReplyView, turn: _TurnState) -> None:
        if self.is_interactive:
            view.start()
        try:
            async with aclosing(self._talk.stream(text)) as events:
                async for event in events:
                    turn.add(event)
                    if isinstance(event, RuleShown | WireText):
                        self.raw.append(event)
                    async with self.approval.screen:
                        _show(event, view)
        finally:
            view.end()

    def _keep_stopped(self, turn: _TurnState, before: int) -> None:
        if turn.text.strip():
            self.messages.append(ChatMessage.assistant(turn.text))
        self._drop_unanswered(before)
        terminal.show_note("stopped; the conversation keeps what came so far" if turn.text.strip() else "stopped")
        for name in turn.running.values():
            terminal.show_note(f"{visible(name)} was running: it may have taken effect")

    def _drop_unanswered(self, before: int) -> None:
        """Take back a message that has no answer: many templates accept no two messages of the user in a row."""
        while len(self.messages) > before and self.messages[-1].role is Role.USER:
            self.messages.pop()


class _TurnState:
    """What a turn has done so far, if it is stopped."""

    def __init__(self) -> None:
        self.text = ""
        self.running: dict[str, str] = {}

    def add(self, event: LoopEvent) -> None:
        match event:
            case TextDelta(text):
                self.text += text
            case ToolStarted(call):
                self.running[call.id] = call.name
            case ToolFinished(result):
                # The text before it is in the conversation.
                self.text = ""
                self.running.pop(result.tool_call_id, None)
            case _:
                pass


def _show(event: LoopEvent, view: terminal.ReplyView) -> None:
    match event:
        case ToolStarted(call):
            view.activity = f"running {visible(call.name)}"
            view.start()
        case ToolFinished(result):
            view.activity = ""
            view.pause()
            terminal.show_result(result.name, result.text)
        case LoopEnded(_, reason):
            view.pause()
            terminal.show_note(reason)
        case ToolProgressed() | ConfirmationRequired():
            pass
        case _:
            view.show(event)
