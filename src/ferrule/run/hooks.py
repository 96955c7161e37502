"""Hook: functions of your own around the calls and the replies of a tool loop. This file holds values only.

A hook changes what is sent and what is read, and never what is guaranteed:

- `before_call` runs after a call was validated and before its approval is requested, once for each call. What it
  decides is saved with the call, so a loop that is resumed does not run it again. Arguments that it returns are
  validated again, and are the ones that a person approves.
- `after_call` runs after a tool has answered. What it returns is what the model reads and what the ledger records.
- `before_model` runs before the model is asked. It may take tools away but not add any.
- `after_model` runs after a whole reply. It may ask for another try, once in each round.

`run.hook_runner` runs hooks and reports their mistakes. `run.small_model_hooks` has the ready ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError

_HINT = "Write @before_call above a function, or Hook(before_call=function)."


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """Returned by `before_call`: the call does not run, and the model reads the message as its result.

    Example:
        return CallRefusal("The shop is closed on Sundays. Ask for another day.")
    """

    message: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Returned by `after_model`: ask the model again, with this hint.

    If the reply has calls, none of them runs, and the model reads the hint as their result. If it has only text that
    was not shown yet, the text is dropped. Text that was shown stays, and the hint and the new reply follow it.

    Example:
        return Retry("Answer in one sentence.")
    """

    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """What a hook can know besides what it is called with.

    Example:
        question = context.request.messages[0].content
    """

    request: ToolCallRequest
    """The messages so far and the tools, as the model has them or will have them."""
    caller: CallContext = field(default_factory=CallContext)
    """Who is calling, and in which conversation."""
    repeats: int = 0
    """For `before_call`: how often the same call has had the same result in this turn."""
    is_retry: bool = False
    """For `after_model`: whether this reply is the second try already. Then there is no third."""

    def tool(self, name: str) -> ToolDefinition | None:
        """Return the definition of an offered tool."""
        return next((tool for tool in self.request.tools if tool.name == name), None)


Arguments: TypeAlias = Mapping[str, Any]
BeforeCallResult: TypeAlias = CallRefusal | Arguments | None
BeforeCall: TypeAlias = Callable[[ToolCall, HookContext], BeforeCallResult | Awaitable[BeforeCallResult]]
"""Returns None to let the call run, a `CallRefusal`, or other arguments."""
AfterCall: TypeAlias = Callable[[ToolCall, ToolResult, HookContext], ToolResult | Awaitable[ToolResult | None] | None]
"""Returns None to keep the result, or another one. It runs only if the tool has answered."""
BeforeModel: TypeAlias = Callable[
    [ToolCallRequest, HookContext], ToolCallRequest | Awaitable[ToolCallRequest | None] | None
]
"""Returns None to keep the request, or another one. The conversation itself does not change."""
AfterModel: TypeAlias = Callable[[Reply, HookContext], Retry | Awaitable[Retry | None] | None]
"""Returns None to accept the reply, or a `Retry`."""
HoldText: TypeAlias = Callable[[str, HookContext], bool]
"""Returns whether the text of a reply, as far as it is known, may not be shown yet. It must return at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Functions around calls and replies; each is optional, and synchronous or asynchronous.

    A synchronous function runs in a thread, except `holds_text`. `holds_text` keeps the text of a reply back for as
    long as it returns true. Then `after_model` decides about a text that nobody has seen yet.

    Example:
        hook = Hook(name="brief", before_model=shorten, after_model=check_length)
        conversation = ToolConversation(engine, [search], hooks=[hook])
    """

    name: str = ""
    """The name in error messages; by default that of the first function."""
    before_call: BeforeCall | None = None
    after_call: AfterCall | None = None
    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    holds_text: HoldText | None = None

    def __post_init__(self) -> None:
        functions = [
            one
            for one in (self.before_call, self.after_call, self.before_model, self.after_model, self.holds_text)
            if one is not None
        ]
        strange = [one for one in functions if not callable(cast("object", one))]
        if strange or not functions:
            message = f"{strange[0]!r:.60} is not a function" if strange else "a hook needs at least one function"
            raise DefinitionError(message, hint=_HINT)
        if not self.name:
            object.__setattr__(self, "name", getattr(functions[0], "__name__", type(functions[0]).__name__))


def before_call(function: BeforeCall) -> Hook:
    """Make a hook of a function that runs before each call: a decorator.

    Example:
        @before_call
        def only_weekdays(call: ToolCall, context: HookContext) -> CallRefusal | None:
            return CallRefusal("Choose a weekday.") if call.arguments.get("day") == "Sunday" else None
    """
    return Hook(before_call=function)


def after_call(function: AfterCall) -> Hook:
    """Make a hook of a function that runs after each call that was answered: a decorator.

    Example:
        @after_call
        def shorten(call: ToolCall, result: ToolResult, context: HookContext) -> ToolResult:
            return ToolResult(call.id, call.name, result.text[:1000], result.is_error)
    """
    return Hook(after_call=function)


def before_model(function: BeforeModel) -> Hook:
    """Make a hook of a function that runs before the model is asked: a decorator.

    Example:
        @before_model
        def colder(request: ToolCallRequest, context: HookContext) -> ToolCallRequest:
            return replace(request, temperature=0.0)
    """
    return Hook(before_model=function)


def after_model(function: AfterModel) -> Hook:
    """Make a hook of a function that runs after each reply: a decorator.

    Example:
        @after_model
        def not_empty(reply: Reply, context: HookContext) -> Retry | None:
            return None if reply.calls or reply.text.strip() else Retry("Answer the question.")
    """
    return Hook(after_model=function)


def to_hooks(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """Check and convert what was passed as `hooks`."""
    if not isinstance(cast("object", hooks), Iterable):
        raise DefinitionError(f"hooks must be a list, not {hooks!r:.60}", hint="Write hooks=[my_hook].")
    several = tuple(hooks)
    for one in several:
        if not isinstance(cast("object", one), Hook):
            raise DefinitionError(f"{one!r:.60} is not a hook", hint=_HINT)
    return several
