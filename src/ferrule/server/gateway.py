"""Gateway: engines, tools and the ledger behind every API. Answers turns; knows no web and no dialect."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from ferrule.core.choice import ToolChoice
from ferrule.core.context import CallContext, Principal
from ferrule.core.request import ToolCallRequest
from ferrule.errors import AuthorityError
from ferrule.run.conversation import ToolConversation
from ferrule.run.happened import LoopEnded, LoopEvent
from ferrule.run.ledger import Ledger
from ferrule.run.machine import State
from ferrule.server.config import Config
from ferrule.server.router import RoutedEngine, Router
from ferrule.server.toolbox import Toolbox
from ferrule.server.turn import Turn, Whose


@dataclass(slots=True)
class Gateway:
    """Made open by `server.opening.opened`."""

    config: Config
    router: Router
    toolbox: Toolbox
    ledger: Ledger

    def has_tools(self, principal: Principal) -> bool:
        return bool(self.toolbox.offered(principal))

    def engine(self, request: ToolCallRequest, principal: Principal) -> RoutedEngine:
        engine = self.router.engine(request.model)
        if not principal.may_use(f"model:{engine.model}"):
            raise AuthorityError(
                f"{principal.name} may not use the model {engine.model}", hint="Ask for a key that has it."
            )
        return engine

    async def count_tokens(self, request: ToolCallRequest, principal: Principal) -> int:
        """How long the prompt of a request is."""
        return await self.engine(request, principal).count_tokens(request)

    async def answer(self, turn: Turn) -> AsyncGenerator[LoopEvent]:
        """Everything as it happens. Closing it stops the engine and the tools."""
        engine = self.engine(turn.request, turn.principal)
        asked = _within(turn.request, self.config.limits.max_tokens)
        if turn.whose is Whose.GATEWAY:
            events = self._looped(replace(turn, request=asked), engine)
        else:
            events = _once(
                engine, asked if turn.whose is Whose.CALLER else replace(asked, tool_choice=ToolChoice.auto())
            )
        async with aclosing(events):
            async for event in events:
                yield event

    async def _looped(self, turn: Turn, engine: RoutedEngine) -> AsyncGenerator[LoopEvent]:
        """The loop, written down in the ledger, so that what it does happens at most once."""
        conversation = await self.conversation(turn, engine)
        try:
            events = conversation.stream_resumed() if turn.resumes else conversation.answer(turn.request.messages)
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            await conversation.close()

    async def conversation(self, turn: Turn, engine: RoutedEngine) -> ToolConversation:
        id = turn.resumes or turn.conversation or new_conversation()
        return await ToolConversation.open(
            self.ledger,
            id,
            engine,
            self.toolbox.executor(turn.principal, turn.names),
            lease=self.config.lease_seconds,
            patience=self.config.approval_patience_seconds,
            request=replace(turn.request, messages=(), tools=()),
            context=CallContext(principal=turn.principal),
        )


def new_conversation() -> str:
    return f"conv_{secrets.token_hex(16)}"


async def _once(engine: RoutedEngine, request: ToolCallRequest) -> AsyncGenerator[LoopEvent]:
    async with aclosing(engine.stream(request)) as events:
        async for event in events:
            yield event
    yield LoopEnded(State.DONE)


def _within(request: ToolCallRequest, most: int) -> ToolCallRequest:
    return request if request.max_tokens is not None else replace(request, max_tokens=most)
