"""Gateway: the engines, tools and ledger that all APIs share. Answers turns; knows neither HTTP nor dialects."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ferrule.core.choice import ChoicePolicy, ToolChoice
from ferrule.core.context import CallContext, Principal
from ferrule.core.request import ToolCallRequest
from ferrule.errors import AuthorityError, NotFoundError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEnded, LoopEvent
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.machine import State
from ferrule.server.answer.turn import ToolOwner, Turn
from ferrule.server.auth.request_limits import RequestLimits
from ferrule.server.config.config import Config
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.router import Replica, RoutedEngine, Router
from ferrule.server.tool_catalog import ToolCatalog

ConversationOpener = Callable[[Turn, RoutedEngine], Awaitable[ToolConversation]]


@dataclass(slots=True)
class Gateway:
    """Holds everything an open gateway needs. `server.startup.open_gateway` creates it."""

    config: Config
    router: Router
    tool_catalog: ToolCatalog
    ledger: Ledger
    telemetry: Telemetry = field(default_factory=Telemetry)
    shutdown_callbacks: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """Called before engines, tools and ledger are closed."""

    request_limits: RequestLimits = field(init=False)

    def __post_init__(self) -> None:
        self.request_limits = RequestLimits(self.config.limits)

    async def stop(self) -> None:
        while self.shutdown_callbacks:
            await self.shutdown_callbacks.pop()()

    def has_tools(self, principal: Principal) -> bool:
        return bool(self.tool_catalog.tools_for(principal))

    def engine(self, request: ToolCallRequest, principal: Principal) -> RoutedEngine:
        engine = self.router.engine(request.model)
        if not principal.may_use(f"model:{engine.model}"):
            raise AuthorityError(
                f"{principal.name} may not use the model {engine.model}", hint="Use a key that lists it in models."
            )
        return engine

    def engines(self, principal: Principal) -> list[tuple[str, Replica]]:
        """The engines of all models that the principal may use, each with the name of its model."""
        models = [model for name, model in self.router.models.items() if principal.may_use(f"model:{name}")]
        return [(model.model, replica) for model in models for replica in model.replicas]

    async def count_tokens(self, request: ToolCallRequest, principal: Principal) -> int:
        """Count the tokens of a request's prompt."""
        engine = self.engine(request, principal)
        await self.request_limits.check(request)
        return await engine.count_tokens(request)

    async def answer(
        self, turn: Turn, open_conversation: ConversationOpener | None = None
    ) -> AsyncGenerator[LoopEvent]:
        """Answer a turn as a stream of events. Closing the stream stops the engine and the tools.

        `open_conversation` replaces the gateway's own for callers that keep the conversation in the ledger themselves.
        """
        engine = self.engine(turn.request, turn.principal)
        await self.request_limits.check(turn.request)
        # The configured name, not the client's: metrics and records are labelled with it.
        request = replace(_with_default_budget(turn.request, self.config.limits.max_tokens), model=engine.model)
        if request.tool_choice_policy is ChoicePolicy.AUTO:
            request = replace(request, tool_choice_policy=self.config.tool_choice_policy)
        if turn.tool_owner is ToolOwner.GATEWAY:
            events = self._run_loop(replace(turn, request=request), engine, open_conversation or self.open_conversation)
        else:
            events = _reply_once(
                engine,
                request if turn.tool_owner is ToolOwner.CALLER else replace(request, tool_choice=ToolChoice.auto()),
            )
        own_tools = self.tool_catalog.tools if turn.tool_owner is ToolOwner.GATEWAY else ()
        with self.telemetry.begin_answer(
            engine.model, engine.traits.name, own_tools, turn.resumes or turn.conversation
        ) as record:
            async with aclosing(events):
                record.check_cancelled()
                async for event in events:
                    record.record_event(event)
                    yield event
                    record.check_cancelled()

    async def _run_loop(
        self, turn: Turn, engine: RoutedEngine, open_conversation: ConversationOpener
    ) -> AsyncGenerator[LoopEvent]:
        """Run the tool loop, recorded in the ledger so that each call runs at most once."""
        conversation = await open_conversation(turn, engine)
        try:
            events = conversation.stream_resumed() if turn.resumes else conversation.answer(turn.request.messages)
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            await conversation.close()

    async def open_conversation(self, turn: Turn, engine: RoutedEngine) -> ToolConversation:
        id = turn.resumes or turn.conversation or new_conversation_id()
        if turn.resumes:
            await self._check_owner(id, turn.principal)
        return await ToolConversation.open(
            self.ledger,
            id,
            engine,
            self.tool_catalog.executor(turn.principal, turn.tool_names),
            lease=self.config.lease_seconds,
            patience=self.config.approval_patience_seconds,
            request=replace(turn.request, messages=(), tools=()),
            context=CallContext(principal=turn.principal),
        )

    async def _check_owner(self, conversation: str, principal: Principal) -> None:
        """Raise the same error for a conversation of another principal as for one that does not exist."""
        # No database stores NUL in text, and PostgreSQL rejects it even in a query.
        is_valid = "\x00" not in conversation and conversation.isprintable()
        if not is_valid or await self.ledger.load(conversation, principal) is None:
            raise NotFoundError(
                "there is no such conversation", hint="Use the ID of a conversation of yours that is waiting."
            )


def new_conversation_id() -> str:
    return f"conv_{secrets.token_hex(16)}"


async def _reply_once(engine: RoutedEngine, request: ToolCallRequest) -> AsyncGenerator[LoopEvent]:
    async with aclosing(engine.stream(request)) as events:
        async for event in events:
            yield event
    yield LoopEnded(State.DONE)


def _with_default_budget(request: ToolCallRequest, max_tokens: int) -> ToolCallRequest:
    return request if request.max_tokens is not None else replace(request, max_tokens=max_tokens)
