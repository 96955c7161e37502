"""Three hooks for small models, against what a grammar cannot prevent: each is a valid reply or call, and useless.

- `echo`: the model repeats a tool's result, or writes a call as text, where it should answer; or it passes a result on
  as an argument. It is asked again once.
- `empty_arguments`: a required argument is an empty string or object. The call does not run, and its result says which
  argument is missing.
- `repetition`: the same call again, although it has had the same result twice. It does not run, and its result says to
  answer. The loop counts the repetitions and gives the hint at the second; see `run.policy`.

None of them has a state: what they need is in the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason
from ferrule.core.json_text import canonical, dumps, loads, value_at
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.run.hooks import CallRefusal, Hook, HookContext, Retry
from ferrule.run.policy import HINT_AT, REPEAT_HINT
from ferrule.schema.refs import local_target

# It says what to do and not what to avoid: a small model that reads "do not repeat the result" repeats it.
ECHO_HINT: Final = "Now answer my question in one short sentence, in your own words."
_REPEATED: Final = "This call has given the same result twice and was not run again. Answer now with what you have."
_TAGS: Final = ("<tool_response>", "<tool_call>")
# What models write around JSON: code fences, the tags of tool results and calls, commas between objects.
_SKIPPED: Final = ("```json", "```", *_TAGS, "</tool_response>", "</tool_call>", REPEAT_HINT)
_LONGEST: Final = max(map(len, _SKIPPED))
_CALL_KEYS: Final = (
    frozenset({"name", "arguments"}),
    frozenset({"name", "parameters"}),
    frozenset({"type", "function"}),
)
_OPENINGS: Final = ('{"name":', '{"type":"function"', '{"function":')
_SPACE: Final = re.compile(r"\s+")
_MAX_DEPTH: Final = 16


def small_model_hooks() -> tuple[Hook, ...]:
    """Return the hooks for small models: `echo`, `empty_arguments` and `repetition`.

    Example:
        conversation = ToolConversation("llama:model.gguf", [get_weather], hooks=small_model_hooks())
    """
    return tuple(READY_HOOKS.values())


async def _retry_echo(reply: Reply, context: HookContext) -> Retry | None:
    if reply.calls or context.is_retry or context.request.response_schema is not None:
        return None
    is_cut = reply.finish is FinishReason.LENGTH
    return Retry(ECHO_HINT) if _Echoes(context).is_echo(reply.text, is_cut=is_cut) else None


def _holds_echo(text: str, context: HookContext) -> bool:
    # An answer that must be JSON may well be what a tool returned. A second try is shown, whatever it is.
    is_free = context.request.response_schema is None and not context.is_retry
    return is_free and _Echoes(context).may_be_echo(text)


async def _refuse_echo(call: ToolCall, context: HookContext) -> CallRefusal | None:
    payloads = [canonical(one) for one in _payloads(context)]
    names = [name for name, value in call.arguments.items() if payloads and _canonical_of(value) in payloads]
    if not names and _canonical_of(call.arguments) in payloads and call.arguments:
        names = list(call.arguments)
    if not names:
        return None
    message = (
        f"{', '.join(names)}: this is the result of an earlier call and not an argument. Answer with it, or call "
        f"{call.name} with other arguments. If it is meant so, make the same call again."
    )
    # Once: a model that insists may be right, for example where one tool's result is another's input.
    return None if _was_refused(message, context) else CallRefusal(message)


async def _refuse_empty(call: ToolCall, context: HookContext) -> CallRefusal | None:
    tool = context.tool(call.name)
    empty = list(_empty_names(tool.parameters, tool.parameters, call.arguments, 0)) if tool is not None else []
    if not empty:
        return None
    return CallRefusal(
        f"The call was not run: {', '.join(empty)} must not be empty. Call {call.name} again with real values from the "
        "conversation, or ask the user for them."
    )


async def _refuse_repetition(call: ToolCall, context: HookContext) -> CallRefusal | None:
    return CallRefusal(_REPEATED) if context.repeats >= HINT_AT else None


ECHO: Final = Hook(name="echo", before_call=_refuse_echo, after_model=_retry_echo, holds_text=_holds_echo)
EMPTY_ARGUMENTS: Final = Hook(name="empty_arguments", before_call=_refuse_empty)
REPETITION: Final = Hook(name="repetition", before_call=_refuse_repetition)
READY_HOOKS: Final[Mapping[str, Hook]] = {hook.name: hook for hook in (ECHO, EMPTY_ARGUMENTS, REPETITION)}
"""The hooks that a configuration can name."""


class _Echoes:
    """Recognizes a text that is nothing but results and calls, each in any layout, one after the other."""

    def __init__(self, context: HookContext) -> None:
        self._known: dict[str, str] = {}
        """The canonical text of each value that tools have returned, and its text without spaces."""
        for payload in _payloads(context):
            members = cast("list[object]", payload) if isinstance(payload, list) else []
            values: list[object] = [payload, *(one for one in members if isinstance(one, dict | list))]
            self._known |= {canonical(value): _squeeze(dumps(value)) for value in values}
        self._has_tools = bool(context.request.tools)

    def is_echo(self, text: str, *, is_cut: bool = False) -> bool:
        """Whether a whole text is an echo. The end of one that was cut off need only begin like one."""
        count, rest = self._skip(text)
        if not rest:
            return count > 0
        # JSON that cannot be read, but begins like a call, is no answer either.
        if _is_tagged(text, rest):
            return True
        return self._begins(rest) and (is_cut or count > 0 or _squeeze(rest).startswith(_OPENINGS))

    def may_be_echo(self, text: str) -> bool:
        """Whether an echo can begin like this."""
        _, rest = self._skip(text)
        return not rest or self._begins(rest) or _is_tagged(text, rest)

    def _skip(self, text: str) -> tuple[int, str]:
        """Skip what is an echo, and return how many values that were, and the rest."""
        count, at = 0, 0
        while True:
            at = _skip_wrappers(text, at)
            if text[at : at + 1] not in ("{", "["):
                return count, text[at:]
            try:
                value, end = value_at(text, at)
            except (ValueError, RecursionError):
                return count, text[at:]
            if not self._is_known(value) and not text[:at].rstrip().endswith(_TAGS):
                return count, text[at:]
            count, at = count + 1, end

    def _is_known(self, value: object) -> bool:
        if canonical(value) in self._known:
            return True
        if isinstance(value, list):
            members = cast("list[Any]", value)
            return bool(members) and all(map(self._is_known, members))
        return self._has_tools and isinstance(value, dict) and _looks_like_call(cast("dict[str, Any]", value))

    def _begins(self, rest: str) -> bool:
        """Whether a rest that is no complete value can become one that is known."""
        if any(wrapper.startswith(rest) for wrapper in _SKIPPED):
            return True
        if rest[0] not in "{[":
            return False
        try:
            value_at(rest, 0)
        except (ValueError, RecursionError):
            pass
        else:
            # It is complete, and it is not known.
            return False
        start = _squeeze(rest).removeprefix("[")
        openings = _OPENINGS if self._has_tools else ()
        if any(one.startswith(start) or start.startswith(one) for one in openings):
            return True
        return any(one.removeprefix("[").startswith(start) for one in self._known.values())


def _payloads(context: HookContext) -> Iterator[Any]:
    """Yield the objects and lists that tools have returned in this turn. A text may well be an answer by itself."""
    for message in reversed(context.request.messages):
        if message.role is Role.ASSISTANT and not message.tool_calls:
            # The answer of the turn before.
            return
        for result in message.results:
            payload = result.content
            if isinstance(payload, str):
                try:
                    payload, _ = value_at(payload.lstrip(), 0)
                except (ValueError, RecursionError):
                    continue
            if isinstance(payload, dict | list) and payload and not result.is_error:
                yield cast("Any", payload)


def _canonical_of(value: object) -> str:
    """Return the canonical text of a structured value, also of one that is written as a string; empty for others."""
    if isinstance(value, str):
        try:
            value = loads(value)
        except (ValueError, RecursionError):
            return ""
    return canonical(cast("object", value)) if isinstance(value, dict | list) else ""


def _was_refused(message: str, context: HookContext) -> bool:
    return any(
        isinstance(result.content, str) and result.content.startswith(message)
        for one in context.request.messages
        for result in one.results
    )


def _looks_like_call(value: Mapping[str, Any]) -> bool:
    return any(keys <= value.keys() for keys in _CALL_KEYS)


def _skip_wrappers(text: str, at: int) -> int:
    """Return where the next character is that belongs to no wrapper, or to one that may not be complete yet."""
    while True:
        while text[at : at + 1].isspace() or text[at : at + 1] == ",":
            at += 1
        wrapper = next((one for one in _SKIPPED if text.startswith(one, at)), "")
        if not wrapper or (len(text) - at < _LONGEST and any(one.startswith(text[at:]) for one in _SKIPPED)):
            return at
        at += len(wrapper)


def _is_tagged(text: str, rest: str) -> bool:
    """Whether the rest is JSON right after a tag that only results and calls have: whatever it is, it is no answer."""
    return rest.startswith(("{", "[")) and text.removesuffix(rest).rstrip().endswith(_TAGS)


def _squeeze(text: str) -> str:
    return _SPACE.sub("", text)


def _empty_names(schema: object, root: object, value: object, depth: int) -> Iterator[str]:
    """Yield the required members that are empty, although their schema does not say that this is meant.

    `"minLength": 0` or `"minProperties": 0` says so, and so does a default, a constant or an enumeration.
    """
    members = _resolved(schema, root)
    if depth > _MAX_DEPTH or not isinstance(value, dict):
        return
    properties = cast("dict[str, Any]", members.get("properties") or {})
    for name in cast("list[str]", members.get("required") or []):
        inner, given = _resolved(properties.get(name), root), cast("dict[str, Any]", value).get(name)
        is_empty = (isinstance(given, str) and not given.strip()) or given == {}
        minimum = "minLength" if isinstance(given, str) else "minProperties"
        if is_empty and inner.keys().isdisjoint({minimum, "default", "const", "enum"}):
            yield name
        for below in _empty_names(inner, root, given, depth + 1):
            yield f"{name}.{below}"


def _resolved(schema: object, root: object) -> dict[str, Any]:
    """Return a schema as an object, with a reference followed once; empty if there is nothing to know."""
    if not isinstance(schema, dict):
        return {}
    members = cast("dict[str, Any]", schema)
    if not isinstance(members.get("$ref"), str):
        return members
    target = local_target(members["$ref"], root)
    return target if isinstance(target, dict) else {}
