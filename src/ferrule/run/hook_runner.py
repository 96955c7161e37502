"""HookRunner: runs the hooks of a loop, in their order, within a time limit, and checks what they return.

A hook that raises, takes too long or returns something that it may not return fails the turn with a `HookError` that
names it. It is never skipped: a hook can be what keeps a secret from a model.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest
from ferrule.errors import HookError
from ferrule.run.hooks import CallRefusal, Hook, HookContext, Retry
from ferrule.sources.tool_output import limit_media, to_json_value, truncate, with_media

REFUSED = "refused_by_hook"
"""The code of the result of a call that a hook refused."""
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HookRunner:
    """`seconds` is how long one function of a hook may take."""

    hooks: tuple[Hook, ...] = ()
    seconds: float = 30.0

    async def before_call(
        self, call: ToolCall, context: HookContext, fault_of: Callable[[ToolCall], Outcome | None]
    ) -> ToolCall | Answered:
        """Return the call to run, or what the model reads instead of its result. `fault_of` validates arguments."""
        for hook in self.hooks:
            if hook.before_call is None:
                continue
            answer = await self._run(hook, "before_call", hook.before_call, call, context)
            if isinstance(answer, CallRefusal):
                return Answered(answer.message, is_error=True, code=REFUSED)
            if answer is not None:
                call = _with_arguments(hook, call, answer)
                fault = fault_of(call)
                if fault is not None:
                    reason = fault.content if isinstance(fault, Answered) else fault.reason
                    raise _mistake(hook, "before_call", f"replaced the arguments of {call.name}: {reason}")
        return call

    async def after_call(self, call: ToolCall, outcome: Outcome, context: HookContext) -> Outcome:
        """Return the outcome that is recorded. Only a tool's own answer can change: other outcomes are facts."""
        if not isinstance(outcome, Answered):
            return outcome
        for hook in self.hooks:
            if hook.after_call is None:
                continue
            result = ToolResult(call.id, call.name, outcome.content, outcome.is_error, media=outcome.media)
            answer = await self._run(hook, "after_call", hook.after_call, call, result, context)
            if answer is not None:
                changed = _require(hook, "after_call", answer, ToolResult)
                is_error, media = bool(changed.is_error), tuple(changed.media)
                content = to_json_value(changed.content)
                outcome = limit_media(with_media(replace(outcome, content=content, is_error=is_error, media=media)))
                outcome = replace(outcome, content=truncate(outcome.content))
        return outcome

    async def before_model(self, request: ToolCallRequest, context: HookContext) -> ToolCallRequest:
        """Return the request for the engine."""
        names, choice = {tool.name for tool in request.tools}, request.tool_choice
        for hook in self.hooks:
            if hook.before_model is None:
                continue
            context = replace(context, request=request)
            answer = await self._run(hook, "before_model", hook.before_model, request, context)
            if answer is None:
                continue
            request = _require(hook, "before_model", answer, ToolCallRequest)
            added = [tool.name for tool in request.tools if tool.name not in names]
            if added:
                raise _mistake(hook, "before_model", f"added tools that nothing runs: {', '.join(added)}")
        # At a limit of the loop the model may not call, and calls would be ignored.
        return replace(request, tool_choice=choice) if choice.mode is ChoiceMode.NONE else request

    async def after_model(self, reply: Reply, context: HookContext) -> Retry | None:
        """Return the first wish for another try. The hooks after it do not see this reply."""
        for hook in self.hooks:
            if hook.after_model is not None:
                answer = await self._run(hook, "after_model", hook.after_model, reply, context)
                if answer is not None:
                    return _require(hook, "after_model", answer, Retry)
        return None

    @property
    def can_hold(self) -> bool:
        return any(hook.holds_text is not None for hook in self.hooks)

    def holds_text(self, text: str, context: HookContext) -> bool:
        """Whether some hook keeps this beginning of a reply's text back."""
        for hook in self.hooks:
            if hook.holds_text is not None:
                try:
                    if hook.holds_text(text, context):
                        return True
                # The code of a user, which may raise anything.
                except Exception as error:
                    raise _failure(hook, "holds_text", error) from error
        return False

    async def _run(self, hook: Hook, point: str, function: Callable[..., _T | Awaitable[_T]], *values: object) -> _T:
        limit = asyncio.timeout(self.seconds)
        try:
            async with limit:
                if _is_async(function):
                    return await cast("Awaitable[_T]", function(*values))
                # In a thread, because it may block; the answers of other conversations must not wait for it.
                answer = await asyncio.to_thread(function, *values)
                return await cast("Awaitable[_T]", answer) if inspect.isawaitable(answer) else answer
        # The code of a user, which may raise anything.
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                raise _mistake(hook, point, f"took longer than {self.seconds:g} seconds") from error
            raise _failure(hook, point, error) from error


def retry_request(request: ToolCallRequest, shown: tuple[ChatMessage, ...], retry: Retry) -> ToolCallRequest:
    """Return the request for a second try: the same, with what was shown of the first try and the hint at its end."""
    # Decided before the hint is appended: a policy that reads the last user message would take it for a new question.
    messages = (*request.messages, *shown, ChatMessage.user(retry.hint))
    return replace(request, messages=messages, tool_choice=request.choice, tool_choice_policy=ChoicePolicy.AUTO)


def withheld_outcome(error: HookError) -> Answered:
    """Return what is recorded of a call that ran if a hook failed on its result: not the result itself."""
    message = f"it ran, but its result cannot be shown: the hook {error.hook!r} failed. Do not repeat the call."
    return Answered(message, is_error=True, code=error.code)


def _with_arguments(hook: Hook, call: ToolCall, arguments: object) -> ToolCall:
    if not isinstance(arguments, Mapping):
        raise _mistake(hook, "before_call", f"returned {arguments!r:.60}")
    try:
        text = dumps(dict(cast("Mapping[str, Any]", arguments)))
    except (TypeError, ValueError) as error:
        raise _mistake(hook, "before_call", f"returned arguments that are not JSON: {error}") from error
    # The receipt stays: a call that needed approval because of how it was written still needs it.
    return replace(call, function=FunctionCall(call.name, text))


def _require(hook: Hook, point: str, answer: object, kind: type[_T]) -> _T:
    if not isinstance(answer, kind):
        raise _mistake(hook, point, f"returned {answer!r:.60}")
    return answer


def _failure(hook: Hook, point: str, error: Exception) -> HookError:
    _log.error("the hook %r raised an error in %s", hook.name, point, exc_info=error)
    return _mistake(hook, point, f"raised {type(error).__name__}")


def _mistake(hook: Hook, point: str, what: str) -> HookError:
    return HookError(
        f"the hook {hook.name!r} failed: its {point} {what}",
        hook=hook.name,
        hint=f"Correct its {point}, or remove the hook.",
    )


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
