"""Continuations: what may come next at a position in a rule, each as a text and the nodes after it.

This module does not depend on any model or tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ferrule.rules.rule import Chars, OneOf, Repeat, RuleNode, Seq, Shared, Text, Value, one_of, prepend_text, seq

Stack: TypeAlias = tuple[RuleNode, ...]
"""The nodes that are still to be written, in order."""
_MAX_CONTINUATIONS = 256


@dataclass(frozen=True, slots=True)
class Continuation:
    """One way to continue: a text, then the `remaining` nodes, of which the first is a leaf or another choice.

    If nothing remains, the rule ends after the text.
    """

    text: str
    remaining: Stack

    @property
    def is_end(self) -> bool:
        return not self.text and not self.remaining


class TooManyContinuations(Exception):
    """A position has more continuations than are worth following."""


def continuations(remaining: Stack) -> list[Continuation]:
    """All continuations. Raises `TooManyContinuations` if there are too many."""
    result: list[Continuation] = []
    for continuation in expand(remaining):
        result.append(continuation)
        if len(result) > _MAX_CONTINUATIONS:
            raise TooManyContinuations
    return result


def expand(remaining: Stack, text: str = "", after_choice: bool = False) -> Iterator[Continuation]:
    """Every continuation of the next choice, each as far as its text goes: to a leaf, another choice or the end.

    Once a choice is made and some text follows it, another choice stays a node and is not expanded.
    """
    has_text = False
    while remaining:
        head, remaining = remaining[0], remaining[1:]
        match head:
            case Text(more):
                text += more
                has_text = has_text or bool(more)
            case Seq(parts):
                remaining = (*parts, *remaining)
            case Shared(inner) | Repeat(inner, 1, 1, _):
                remaining = (inner, *remaining)
            case Repeat(_, _, 0, _):
                pass
            case OneOf() | Repeat() if (after_choice and has_text) or is_character_run(head):
                yield Continuation(text, (head, *remaining))
                return
            case OneOf(options):
                for option in options:
                    yield from expand((option, *remaining), text, True)
                return
            case Repeat(inner, at_least, at_most, sep):
                again = Repeat(prepend_text(sep, inner), max(at_least - 1, 0), None if at_most is None else at_most - 1)
                yield from expand((inner, again, *remaining), text, True)
                if at_least == 0:
                    yield from expand(remaining, text, True)
                return
            case _:
                yield Continuation(text, (head, *remaining))
                return
    yield Continuation(text, ())


def is_character_run(node: RuleNode) -> bool:
    """Whether a node repeats single characters. Such a node is a leaf and not a choice between texts."""
    return isinstance(node, Repeat) and isinstance(node.node, Chars)


def is_leaf(continuation: Continuation) -> bool:
    """Whether a continuation leads to a value, and not to another choice or to the end."""
    return bool(continuation.remaining) and (
        not isinstance(continuation.remaining[0], OneOf | Repeat) or is_character_run(continuation.remaining[0])
    )


def is_number(node: RuleNode) -> bool:
    return isinstance(node, Value) and node.schema.get("type") in ("integer", "number")


def join(choices: Sequence[Continuation]) -> Stack:
    """The continuations as one stack again."""
    if len(choices) == 1:
        return (Text(choices[0].text), *choices[0].remaining)
    return (one_of(*(seq(choice.text, *choice.remaining) for choice in choices)),)


def drop_text(choices: Sequence[Continuation], length: int) -> list[Continuation]:
    """The continuations without the first `length` characters of their texts."""
    return [Continuation(choice.text[length:], choice.remaining) for choice in choices]


def common_prefix(texts: Sequence[str]) -> str:
    """The longest prefix that all texts share."""
    first, last = min(texts), max(texts)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]
