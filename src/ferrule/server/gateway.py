"""Gateway: engines, tools and the ledger behind every API. Answers turns; knows no web and no dialect."""

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
from ferrule.server.auth.request_limits import Admission
from ferrule.server.config.config import Config
from ferrule.server.observability.telemetry import Watch
from ferrule.server.router import Replica, RoutedEngine, Router
from ferrule.server.tool_catalog import Toolbox

Opens = Callable[[Turn, RoutedEngine], Awaitable[ToolConversation]]


@dataclass(slots=True)
class Gateway:
    """Made open by `server.opening.opened`."""

    config: Config
    router: Router
    toolbox: Toolbox
    ledger: Ledger
    watch: Watch = field(default_factory=Watch)
    at_end: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """What is to be stopped before engines, tools and ledger are closed."""

    admission: Admission = field(init=False)

    def __post_init__(self) -> None:
        self.admission = Admission(self.config.limits)

    async def stop(self) -> None:
        while self.at_end:
            await self.at_end.pop()()

    def has_tools(self, principal: Principal) -> bool:
        return bool(self.toolbox.offered(principal))

    def engine(self, request: ToolCallRequest, principal: Principal) -> RoutedEngine:
        engine = self.router.engine(request.model)
        if not principal.may_use(f"model:{engine.model}"):
            raise AuthorityError(
                f"{principal.name} may not use the model {engine.model}", hint="Ask for a key that has it."
            )
        return engine

    def engines(self, principal: Principal) -> list[tuple[str, Replica]]:
        """Each engine of each model that the principal may use, with the model's name."""
        models = [model for name, model in self.router.models.items() if principal.may_use(f"model:{name}")]
        return [(model.model, replica) for model in models for replica in model.replicas]

    async def count_tokens(self, request: ToolCallRequest, principal: Principal) -> int:
        """How long the prompt of a request is."""
        engine = self.engine(request, principal)
        await self.admission.check(request)
        return await engine.count_tokens(request)

    async def answer(self, turn: Turn, opens: Opens | None = None) -> AsyncGenerator[LoopEvent]:
        """Everything as it happens. Closing it stops the engine and the tools.

        `opens` opens the conversation of the gateway's own loop, for whoever holds it in the ledger himself.
        """
        engine = self.engine(turn.request, turn.principal)
        await self.admission.check(turn.request)
        # By the name that is configured: what a client calls it is his own, and figures are kept by it.
        asked = replace(_within(turn.request, self.config.limits.max_tokens), model=engine.model)
        if asked.tool_choice_policy is ChoicePolicy.AUTO:
            asked = replace(asked, tool_choice_policy=self.config.tool_choice_policy)
        if turn.tool_owner is ToolOwner.GATEWAY:
            events = self._looped(replace(turn, request=asked), engine, opens or self.conversation)
        else:
            events = _once(
                engine, asked if turn.tool_owner is ToolOwner.CALLER else replace(asked, tool_choice=ToolChoice.auto())
            )
        own = self.toolbox.tools if turn.tool_owner is ToolOwner.GATEWAY else ()
        with self.watch.answer(engine.model, engine.traits.name, own, turn.resumes or turn.conversation) as noted:
            async with aclosing(events):
                noted.wait()
                async for event in events:
                    noted.note(event)
                    yield event
                    noted.wait()

    async def _looped(self, turn: Turn, engine: RoutedEngine, opens: Opens) -> AsyncGenerator[LoopEvent]:
        """The loop, written down in the ledger, so that what it does happens at most once."""
        conversation = await opens(turn, engine)
        try:
            events = conversation.stream_resumed() if turn.resumes else conversation.answer(turn.request.messages)
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            await conversation.close()

    async def conversation(self, turn: Turn, engine: RoutedEngine) -> ToolConversation:
        id = turn.resumes or turn.conversation or new_conversation()
        if turn.resumes:
            await self._require_own(id, turn.principal)
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

    async def _require_own(self, conversation: str, principal: Principal) -> None:
        """Whoever names another's conversation is told what he would be told of none."""
        # No database keeps a NUL in a text, and one of them calls asking for it an error.
        is_name = "\x00" not in conversation and conversation.isprintable()
        if not is_name or await self.ledger.load(conversation, principal) is None:
            raise NotFoundError("there is no such conversation", hint="Name one that an answer of yours waits in.")


def new_conversation() -> str:
    return f"conv_{secrets.token_hex(16)}"


async def _once(engine: RoutedEngine, request: ToolCallRequest) -> AsyncGenerator[LoopEvent]:
    async with aclosing(engine.stream(request)) as events:
        async for event in events:
            yield event
    yield LoopEnded(State.DONE)


def _within(request: ToolCallRequest, most: int) -> ToolCallRequest:
    return request if request.max_tokens is not None else replace(request, max_tokens=most)
