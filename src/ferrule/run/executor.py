"""ToolExecutor: runs tool calls, one by one or in a whole chat.

It validates, authorises, requires confirmation, sets deadlines and shapes results. Every failure becomes a result that
the model can act on. Stack traces and secrets are never part of a result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, get_type_hints, overload

from ferrule.core.boolean_text import parse_boolean
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.json_text import dumps
from ferrule.core.media import Media
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.errors import DefinitionError, FerruleError, SchemaError
from ferrule.rules.call_check import argument_text_faults
from ferrule.run.approval_policy import ApprovalPolicy
from ferrule.run.decision import DecideInput, to_decide
from ferrule.run.events import LoopEvent
from ferrule.run.hooks import Hook, to_hooks
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.loop import Loop, deny_all
from ferrule.run.policy import Policy
from ferrule.schema.admission_cache import admit_tool
from ferrule.sources.call_timer import CallTimer
from ferrule.sources.source import Source, run_with_timeout
from ferrule.sources.tool_output import limit_media, to_json_value, truncate, with_media

_MAX_DELIVERIES = 3
_PAUSE = 0.05
UNKNOWN_MESSAGE = (
    "unknown: it was sent and no answer came, so it may or may not have happened. Do not repeat it; say that its "
    "outcome is not known, or find out by reading."
)


@dataclass(slots=True)
class ToolExecutor:
    """Runs the tools of a source, which the specification calls the bus: single calls, or a whole chat.

    `tools` are those to offer, by name or as definitions; None offers all of them. A definition that is given replaces
    the source's own. The source is asked for its list on first use, and again by `refresh`.

    Example:
        executor = ToolExecutor(Functions([add]))
        result = await executor.dispatch(ToolCall.of("add", {"a": 2, "b": 3}, id="c1"))

        request = ToolCallRequest(messages=(ChatMessage.user("What is 2 and 3?"),))
        loop = await executor.run_chat_with_tools(engine, request)
        print(loop.reply.text)
    """

    bus: Source
    tools: Sequence[str | ToolDefinition] | None = None
    max_iterations: int = 6
    per_tool_timeout_seconds: float = 30.0
    max_concurrent: int = 4
    confirms_side_effects: bool = True
    approval_policy: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    """Rules on which calls need approval, and by whom. Without one, `confirms_side_effects` decides."""
    notices: list[str] = field(default_factory=list[str])
    """Notices for a person: which tools are not offered, and why."""
    _definitions: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    _is_loaded: bool = False

    def __post_init__(self) -> None:
        # Offered before the source was asked; `refresh` leaves out what it does not have.
        self._definitions = {**{one.name: admit_tool(one) for one in self._given.values()}, **self._definitions}

    @property
    def _given(self) -> dict[str, ToolDefinition]:
        return {one.name: one for one in self.tools or () if isinstance(one, ToolDefinition)}

    @property
    def policy(self) -> Policy:
        return Policy(
            rounds=self.max_iterations,
            max_concurrent=self.max_concurrent,
            tool_seconds=self.per_tool_timeout_seconds,
            confirms_side_effects=self.confirms_side_effects,
        )

    async def refresh(self) -> tuple[ToolDefinition, ...]:
        """Read the list of tools. A tool whose schema is refused is left out, with a notice; the others stay."""
        definitions: dict[str, ToolDefinition] = {}
        self.notices = []
        given = self._given
        names = None if self.tools is None else [one if isinstance(one, str) else one.name for one in self.tools]
        for tool in await self.bus.tools():
            if names is not None and tool.name not in names:
                continue
            try:
                definitions[tool.name] = admit_tool(given.get(tool.name, tool))
            except SchemaError as refusal:
                self.notices.append(f"{tool.name} is not offered: {refusal.message}")
        missing = [name for name in names or () if name not in definitions]
        self.notices += [f"{name} does not exist" for name in missing]
        self._definitions, self._is_loaded = definitions, True
        return tuple(definitions.values())

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as of the last `refresh`; before it, the definitions that were given."""
        return tuple(self._definitions.values())

    @property
    def native_definitions(self) -> list[dict[str, Any]]:
        """The tools in the format of OpenAI's API."""
        return [tool.as_function() for tool in self._definitions.values()]

    def requires_confirmation(self, call: ToolCall) -> bool:
        """Whether a person must approve the call: it has side effects, or may have been quoted rather than made."""
        tool = self._definitions.get(call.name)
        if tool is None:
            return False
        if tool.side_effects and call.receipt is not None and call.receipt.drifted:
            return True
        terms = self.approval_policy.terms_of(call, side_effects=tool.side_effects)
        return tool.side_effects and self.confirms_side_effects if terms is None else terms.approvers > 0

    def approval_terms(self, call: ToolCall) -> ApprovalTerms:
        """Return who must approve a call that needs approval, and until when."""
        tool = self._definitions.get(call.name)
        terms = self.approval_policy.terms_of(call, side_effects=tool is not None and tool.side_effects)
        return ApprovalTerms() if terms is None else replace(terms, approvers=max(1, terms.approvers))

    async def dispatch(self, call: ToolCall, context: CallContext | None = None) -> ToolResult:
        """Run a call that needs no approval. A call that needs it is not run, and the result says so.

        An invalid call is reported as such, also where a valid one would need approval.
        """
        await self._load()
        call_context = context or CallContext(call_id=call.id)
        fault = self.fault_of(call, call_context)
        if fault is None and self.requires_confirmation(call):
            message = f"requires_confirmation: {call.name} has side effects and needs approval"
            return ToolResult(call.id, call.name, message, is_error=True)
        return self.result_of(call, fault or await self.run_valid(call, call_context))

    async def dispatch_confirmed(self, call: ToolCall, context: CallContext | None = None) -> ToolResult:
        """Run a call that was approved."""
        return self.result_of(call, await self.run(call, context))

    def fault_of(self, call: ToolCall, context: CallContext) -> Outcome | None:
        """Return why a call may not run; None where it may. The model reads it and can correct itself."""
        tool = self._definitions.get(call.name)
        if tool is None:
            names = ", ".join(self._definitions) or "nothing"
            return Answered(f"unknown tool {call.name!r}; offered: {names}", is_error=True, code="bad_request")
        faults = argument_text_faults(tool, call.function.arguments)
        if faults or not call.complete:
            message = "; ".join(map(str, faults)) or "the call was cut off"
            return Answered(f"invalid_arguments: {message}", is_error=True, code="bad_request")
        try:
            context.principal.require(tool.bound_capability or tool.name)
        except FerruleError as refusal:
            return Answered(f"{refusal.code}: {refusal.message}", is_error=True, code=refusal.code)
        return None

    async def run(self, call: ToolCall, context: CallContext | None = None) -> Outcome:
        """Validate a call, run it and return its outcome."""
        await self._load()
        call_context = context or CallContext(call_id=call.id)
        return self.fault_of(call, call_context) or await self.run_valid(call, call_context)

    async def run_valid(self, call: ToolCall, context: CallContext) -> Outcome:
        """Run a call that has no `fault_of`. Only a call that was certainly not delivered is retried."""
        outcome: Outcome = NotDelivered("it was not attempted")
        for attempt in range(_MAX_DELIVERIES):
            if attempt:
                pause = _PAUSE * 2**attempt
                if context.deadline is not None and time.time() + pause >= context.deadline:
                    # Another attempt would end at the deadline, and its outcome would be less certain than this one.
                    break
                await asyncio.sleep(pause)
            outcome = await self._once(call, context)
            if not isinstance(outcome, NotDelivered):
                break
        return _limit_output(outcome)

    async def _load(self) -> None:
        if not self._is_loaded:
            await self.refresh()

    def definition(self, name: str) -> ToolDefinition | None:
        return self._definitions.get(name)

    async def _once(self, call: ToolCall, context: CallContext) -> Outcome:
        now = time.time()
        latest = now + self.per_tool_timeout_seconds
        deadline = latest if context.deadline is None else min(latest, context.deadline)
        seconds = max(0.0, deadline - now)
        timer = CallTimer(seconds, deadline=context.deadline, outer=context.pause, outer_renew=context.renew)
        # The tool gets the deadline too: one that runs elsewhere must stop when nobody waits for it any more.
        limited = replace(context, deadline=deadline, pause=timer.pause, renew=timer.renew)
        work = self.bus.call(call.name, call.arguments, limited)
        has_side_effects = self._definitions[call.name].side_effects
        return await run_with_timeout(seconds, work, has_side_effects=has_side_effects, timer=timer)

    def result_of(self, call: ToolCall, outcome: Outcome, hint: str = "") -> ToolResult:
        """Return the result that the model reads."""
        media: tuple[Media, ...] = ()
        match outcome:
            case Answered(content, is_error, _, media):
                text = content
            case NotDelivered(reason):
                text, is_error = f"not_delivered: {reason}", True
            case Unknown(reason):
                text, is_error = f"{UNKNOWN_MESSAGE} ({reason})", True
        if hint:
            text = f"{text if isinstance(text, str) else dumps(text)}\n{hint}"
        return ToolResult(call.id, call.name, text, is_error, media=media)

    @overload
    async def run_chat_with_tools(
        self,
        engine: Engine,
        request: ToolCallRequest,
        stream_to: Callable[[LoopEvent], Awaitable[None] | None] | None = None,
        decide: DecideInput = deny_all,
        context: CallContext | None = None,
        hooks: Iterable[Hook] = (),
    ) -> Loop: ...

    @overload
    async def run_chat_with_tools(
        self,
        engine: Mapping[str, Any],
        request: Engine | None = None,
        stream_to: Callable[[dict[str, Any]], Awaitable[None] | None] | None = None,
        decide: DecideInput = deny_all,
        context: CallContext | None = None,
        hooks: Iterable[Hook] = (),
    ) -> dict[str, Any]: ...

    async def run_chat_with_tools(
        self,
        engine: Engine | Mapping[str, Any],
        request: ToolCallRequest | Engine | None = None,
        stream_to: Callable[[Any], Awaitable[None] | None] | None = None,
        decide: DecideInput = deny_all,
        context: CallContext | None = None,
        hooks: Iterable[Hook] = (),
    ) -> Loop | dict[str, Any]:
        """Ask the model, run its calls and ask again, until it answers or a limit is reached.

        `stream_to` is called with every event, and awaited if it is asynchronous.

        The specification's form takes the body of a chat request. It asks the model on the bus (`llm.chat@2.0`), or
        the engine that follows the body; `stream_to` is called with frames, which are dicts; and the last message is
        returned.

        Example:
            message = await executor.run_chat_with_tools({"messages": [{"role": "user", "content": "What is new?"}]})
            print(message["content"])
        """
        if isinstance(engine, Mapping):
            # The package is above this one: it is imported when it is first used.
            from ferrule.llm_chat.chat import run_chat

            model = request if isinstance(request, Engine) else None
            return await run_chat(
                self, engine, engine=model, stream_to=stream_to, decide=decide, context=context, hooks=hooks
            )
        if not isinstance(request, ToolCallRequest):
            raise DefinitionError(
                f"a chat with an engine needs a request, not {request!r:.60}",
                hint="Write run_chat_with_tools(engine, ToolCallRequest(...)), or pass the body of a chat request.",
            )
        await self.refresh()
        loop = Loop(engine, self, request, context or CallContext(), to_decide(decide), hooks=to_hooks(hooks))
        async for event in loop.stream():
            if stream_to is not None and isawaitable(waiting := stream_to(event)):
                await waiting
        return loop


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """Settings of the tool executor. With an empty `tools_default_set` all tools of the source are offered."""

    tools_enabled: bool = True
    """Whether the gateway offers its own tools."""
    tools_max_iterations: int = 6
    """How many rounds of tool calls one answer may take."""
    tools_per_tool_timeout_seconds: float = 30.0
    """How long one call may take, in seconds."""
    tools_max_parallel: int = 4
    """How many calls of one round run at the same time."""
    tools_default_set: tuple[str, ...] = ()
    """The names of the tools to offer; empty offers all."""
    tools_require_confirmation_for_side_effects: bool = True
    """Whether each call of a tool with side effects needs a person's approval."""
    hooks: tuple[str, ...] = ()
    """Hooks around the gateway's calls: `echo`, `empty_arguments`, `repetition`, and your own as `module:name`."""

    def __post_init__(self) -> None:
        for name in ("tools_max_iterations", "tools_per_tool_timeout_seconds", "tools_max_parallel"):
            if getattr(self, name) <= 0:
                raise DefinitionError(
                    f"{name} must be more than 0", hint="Set tools_enabled to false to turn tools off."
                )

    @staticmethod
    def read(values: Mapping[str, Any]) -> ToolSettings:
        """Read settings from a configuration or from environment variables.

        Keys may be in upper or lower case. Other keys are ignored.
        """
        kinds = get_type_hints(ToolSettings)
        known_values = {key.lower(): value for key, value in values.items() if key.lower() in kinds}
        return ToolSettings(**{name: _value(name, value, kinds[name]) for name, value in known_values.items()})

    def executor(self, source: Source) -> ToolExecutor:
        return ToolExecutor(
            source,
            tools=() if not self.tools_enabled else self.tools_default_set or None,
            max_iterations=self.tools_max_iterations,
            per_tool_timeout_seconds=self.tools_per_tool_timeout_seconds,
            max_concurrent=self.tools_max_parallel,
            confirms_side_effects=self.tools_require_confirmation_for_side_effects,
        )


def _value(name: str, value: Any, kind: Any) -> Any:
    try:
        if kind is bool:
            return value if isinstance(value, bool) else parse_boolean(str(value))
        if kind in (int, float):
            return kind(value)
        return tuple(filter(None, value.split(","))) if isinstance(value, str) else tuple(map(str, value))
    except (TypeError, ValueError):
        expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(
            kind, "names, joined by commas"
        )
        raise DefinitionError(f"{name} cannot be {value!r:.60}", hint=f"Use {expected}.") from None


def _limit_output(outcome: Outcome) -> Outcome:
    """Turn an answer into JSON of limited length. Done here, so that the journal records what the model reads."""
    if not isinstance(outcome, Answered):
        return outcome
    limited = limit_media(with_media(replace(outcome, content=to_json_value(outcome.content))))
    return replace(limited, content=truncate(limited.content))
