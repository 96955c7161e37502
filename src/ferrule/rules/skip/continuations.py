"""Options: the ways on from a place in a rule, each as a text and what comes after it. Knows no model and no token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ferrule.rules.rule import Chars, OneOf, Repeat, RuleNode, Seq, Shared, Text, Value, one_of, prefixed, seq

Stack: TypeAlias = tuple[RuleNode, ...]
"""What is still to be written, in order."""
_MOST_OPTIONS = 256


@dataclass(frozen=True, slots=True)
class Option:
    """One way on: a text, and then a leaf, or the end where nothing is left."""

    text: str
    left: Stack

    @property
    def is_end(self) -> bool:
        return not self.text and not self.left


class TooManyOptions(Exception):
    """A place from which more ways lead on than are worth following."""


def options_of(left: Stack) -> list[Option]:
    """Every way on, where they are few enough."""
    found: list[Option] = []
    for option in expanded(left):
        found.append(option)
        if len(found) > _MOST_OPTIONS:
            raise TooManyOptions
    return found


def expanded(left: Stack, text: str = "", chosen: bool = False) -> Iterator[Option]:
    """Every way on from the next choice, each as far as its text goes: to a leaf, to another choice or to the end."""
    told = False
    while left:
        head, left = left[0], left[1:]
        match head:
            case Text(more):
                text += more
                told = told or bool(more)
            case Seq(parts):
                left = (*parts, *left)
            case Shared(inner) | Repeat(inner, 1, 1, _):
                left = (inner, *left)
            case Repeat(_, _, 0, _):
                pass
            case OneOf() | Repeat() if (chosen and told) or is_characters(head):
                yield Option(text, (head, *left))
                return
            case OneOf(options):
                for option in options:
                    yield from expanded((option, *left), text, True)
                return
            case Repeat(inner, at_least, at_most, sep):
                again = Repeat(prefixed(sep, inner), max(at_least - 1, 0), None if at_most is None else at_most - 1)
                yield from expanded((inner, again, *left), text, True)
                if at_least == 0:
                    yield from expanded(left, text, True)
                return
            case _:
                yield Option(text, (head, *left))
                return
    yield Option(text, ())


def is_characters(node: RuleNode) -> bool:
    """Whether it repeats single characters: that is a leaf, and no choice between texts."""
    return isinstance(node, Repeat) and isinstance(node.node, Chars)


def is_leaf(option: Option) -> bool:
    """Whether it leads to a value, and not to another choice or to the end."""
    return bool(option.left) and (not isinstance(option.left[0], OneOf | Repeat) or is_characters(option.left[0]))


def is_number(node: RuleNode) -> bool:
    return isinstance(node, Value) and node.schema.get("type") in ("integer", "number")


def joined(options: Sequence[Option]) -> Stack:
    if len(options) == 1:
        return (Text(options[0].text), *options[0].left)
    return (one_of(*(seq(option.text, *option.left) for option in options)),)


def cut(options: Sequence[Option], length: int) -> list[Option]:
    return [Option(option.text[length:], option.left) for option in options]


def shared(texts: Sequence[str]) -> str:
    """What they all begin with."""
    first, last = min(texts), max(texts)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]
