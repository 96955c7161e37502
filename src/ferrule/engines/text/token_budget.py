"""Room: how long an answer may be after its prompt, and how long each open value in it. Knows no backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ferrule.core.choice import ChoiceMode
from ferrule.core.message import Role
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.schema.bounds import Bounds, Overhead, bounds_for
from ferrule.wire.format import Format
from ferrule.wire.overhead import overhead_of

# A character outside of ASCII is two to four bytes, and a small vocabulary has a token for few of them whole.
_TOKENS_A_FOREIGN_CHARACTER = 3
_FOREIGN_SHARE = 0.2
_ADDED_TOKENS = 8


async def room_after(prompt: str, asked: int, context: int, count: Callable[[str], Awaitable[int | None]]) -> int:
    """What was asked for, as far as there is room for it after the prompt."""
    # A token is a byte or more, save those that a tokenizer adds: most prompts need no counting.
    if not context or asked + len(prompt.encode("utf-8", "replace")) + _ADDED_TOKENS <= context:
        return asked
    taken = await count(prompt)
    if taken is None:
        return asked
    if taken >= context:
        raise DefinitionError(
            f"the prompt has {taken} tokens, and the model takes {context} with its answer",
            code="context_length_exceeded",
            hint="Send fewer messages or tools, or give the engine a larger context.",
        )
    return min(asked, context - taken)


def bounds_within(
    request: ToolCallRequest, offered: Sequence[ToolDefinition], room: int, asked: int, format: Format
) -> Bounds:
    """How long each open value may become for a call to end inside the room."""
    budget = room if room == asked else _rounded(room)
    # Text and reasoning before a call take from the same budget.
    left = budget if request.choice.mode is ChoiceMode.REQUIRED else budget * 3 // 4
    overhead = Overhead(*overhead_of(format))
    most_calls = None if request.parallel_tool_calls else 1
    return bounds_for(offered, left, most_calls, overhead, _tokens_a_character(request))


def _tokens_a_character(request: ToolCallRequest) -> int:
    """What is talked of in another script is likely to be written about in it."""
    said = "".join(message.content for message in request.messages if message.role is Role.USER)
    foreign = sum(not character.isascii() for character in said)
    return _TOKENS_A_FOREIGN_CHARACTER if foreign > len(said) * _FOREIGN_SHARE else 1


def _rounded(budget: int) -> int:
    """A little less, and the same for budgets that are nearly the same.

    What room a prompt leaves is another number in each turn, and a rule of its own for each would be made anew.
    """
    step = 1 << max(budget.bit_length() - 3, 0)
    return budget // step * step
