"""Token budget: how long an answer and each open value in it may become. Must not know any backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from ferrule.core.choice import ChoiceMode
from ferrule.core.message import Role
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.schema.bounds import Bounds, Overhead, bounds_for
from ferrule.wire.format import Format
from ferrule.wire.overhead import overhead_of

# A character outside ASCII has two to four bytes, and a small vocabulary has a single token for few of them.
_TOKENS_PER_FOREIGN_CHARACTER = 3
_FOREIGN_SHARE = 0.2
_ADDED_TOKENS = 8


async def answer_budget(
    prompt: str, max_tokens: int, context: int, count: Callable[[str], Awaitable[int | None]]
) -> int:
    """Return `max_tokens`, reduced to what the context has left after the prompt."""
    # A token is at least one byte, except those that the tokenizer adds, so most prompts need not be counted.
    if not context or max_tokens + len(prompt.encode("utf-8", "replace")) + _ADDED_TOKENS <= context:
        return max_tokens
    prompt_tokens = await count(prompt)
    if prompt_tokens is None:
        return max_tokens
    if prompt_tokens >= context:
        raise DefinitionError(
            f"the prompt has {prompt_tokens} tokens, but prompt and answer together may have only {context}",
            code="context_length_exceeded",
            hint="Send fewer messages or tools, or start the engine with a larger context.",
        )
    return min(max_tokens, context - prompt_tokens)


def bounds_within_budget(
    request: ToolCallRequest, offered: Sequence[ToolDefinition], budget: int, max_tokens: int, format: Format
) -> Bounds:
    """Return how long each open value may become so that a call fits into the budget."""
    usable = budget if budget == max_tokens else _round_down(budget)
    # Text and reasoning before a call take from the same budget.
    call_budget = usable if request.choice.mode is ChoiceMode.REQUIRED else usable * 3 // 4
    overhead = Overhead(*overhead_of(format))
    most_calls = None if request.parallel_tool_calls else 1
    return _bounds_for(tuple(offered), call_budget, most_calls, overhead, _tokens_per_character(request))


# The same tools come with every request of a conversation, and a thousand of them take longer than everything else.
_bounds_for = lru_cache(maxsize=256)(bounds_for)


def _tokens_per_character(request: ToolCallRequest) -> int:
    """Estimate the tokens per character: an answer is likely to use the script of the user's messages."""
    user_text = "".join(message.content for message in request.messages if message.role is Role.USER)
    foreign = sum(not character.isascii() for character in user_text)
    return _TOKENS_PER_FOREIGN_CHARACTER if foreign > len(user_text) * _FOREIGN_SHARE else 1


def _round_down(budget: int) -> int:
    """Round the budget down, so that similar budgets become equal.

    The budget differs in every turn of a conversation, and each budget would otherwise need a new grammar.
    """
    step = 1 << max(budget.bit_length() - 3, 0)
    return budget // step * step
