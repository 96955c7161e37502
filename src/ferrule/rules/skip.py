"""Skip: where an answer stands in its rule: what must come next whatever the model thinks, or a hole and how it ends.

A hole is left to the model under the rest of the whole rule, so that it chooses among the very tokens that it would
have chosen among without skipping; it is interrupted as soon as what it wrote leaves no choice about what follows.
Knows no engine, no tokenizer and no grammar language.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ferrule.rules.opened import TAIL, after_some, opened
from ferrule.rules.rule import (
    Chars,
    OneOf,
    Prose,
    Raw,
    Repeat,
    Rule,
    RuleNode,
    Seq,
    Shared,
    Str,
    Text,
    Value,
    one_of,
    prefixed,
    seq,
)

Stack: TypeAlias = tuple[RuleNode, ...]
"""What is still to be written, in order."""
_MOST_OPTIONS = 256
# So many characters are two tokens or three: about what one more request costs where going on is cheap.
WORTH = 8
_HOLE = "\0"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING_REST = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*"', re.DOTALL)
_STRING_PART = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])', re.DOTALL)
_LAST_WORD = re.compile(r"[^\w\s]*\s*[^\w\s]*\w*\Z")
_NUMBERS = ("integer", "number")


@dataclass(frozen=True, slots=True)
class Marks:
    """Texts that the vocabulary may have a token of its own for, and those for which it is known to have one."""

    possible: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


NO_MARKS = Marks()


@dataclass(frozen=True, slots=True)
class _Option:
    """One way on: a text, and then a leaf, or the end where nothing is left."""

    text: str
    left: Stack

    @property
    def is_end(self) -> bool:
        return not self.text and not self.left


class TooManyOptions(Exception):
    """A place from which more ways lead on than are worth following."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a rule. Values; every step gives another.

    `way` is what was forced or decided up to here, without what was written in the holes: two places of one rule with
    the same way are the same place.
    """

    left: Stack
    way: str = ""

    @staticmethod
    def at_start(rule: Rule) -> Position:
        return Position((opened(rule.start),))

    @property
    def rest(self) -> RuleNode:
        """Everything that may still be written."""
        return seq(*self.left)

    @property
    def is_over(self) -> bool:
        """Whether nothing may follow."""
        return all(option.is_end for option in self._options())

    def forced(self, marks: Marks = NO_MARKS) -> tuple[str, Position]:
        """The text that must come next, as far as the model's tokens cannot reach across its end, and the place after.

        What is held back is written by the model itself, at the beginning of the hole.
        """
        found = ""
        options = self._options()
        while common := _shared([option.text for option in options]):
            found += common
            options = _cut(options, len(common))
            if len(options) == 1 and not options[0].text:
                options = Position(options[0].left)._options()
        kept = _settled(found, options, marks)
        # In front of the options and not in each: a lexer takes the longest literal that it knows.
        return kept, Position((Text(found[len(kept) :]), *_joined(options)), self.way + kept)

    def ends(self, worth: int = WORTH) -> tuple[str, ...]:
        """Texts of which one ends the hole that begins here; none where no text does so for certain.

        `worth` is how many forced characters pay for an interruption.
        """
        hole = self._leaf()
        return _ends_of(*hole, worth) if hole else _telling(self._options(), worth)

    def after(self, text: str) -> Position | None:
        """The place after a text; None where the text ends amid a value, or is not what the rule admits."""
        places = list(_places(self.left, text, self.way))
        if not places:
            return None
        return Position((one_of(*(seq(*left) for left, _ in places)),), places[0][1])

    def within(self, text: str) -> Position | None:
        """The place amid a string that a hole ends in; None where it is not a string that can be gone on with."""
        hole = self._leaf()
        if hole is None or not isinstance(hole[0], Str) or hole[0].quote is not TAIL or _STRING_REST.match(text):
            return None
        written = len(_STRING_PART.findall(text))
        return Position((after_some(hole[0], written), *hole[1].left), f"{self.way}{_HOLE}{written}{_HOLE}")

    def _leaf(self) -> tuple[RuleNode, Position] | None:
        """The value that comes next and the place after it, where nothing else can come."""
        options = self._options()
        if len(options) != 1 or options[0].text.strip(" ") or not options[0].left:
            return None
        return options[0].left[0], Position(options[0].left[1:])

    def _options(self) -> list[_Option]:
        found: list[_Option] = []
        for option in _expanded(self.left):
            found.append(option)
            if len(found) > _MOST_OPTIONS:
                raise TooManyOptions
        return found


def _expanded(left: Stack, text: str = "", chosen: bool = False) -> Iterator[_Option]:
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
            case OneOf() | Repeat() if (chosen and told) or _is_characters(head):
                yield _Option(text, (head, *left))
                return
            case OneOf(options):
                for option in options:
                    yield from _expanded((option, *left), text, True)
                return
            case Repeat(inner, at_least, at_most, sep):
                again = Repeat(prefixed(sep, inner), max(at_least - 1, 0), None if at_most is None else at_most - 1)
                yield from _expanded((inner, again, *left), text, True)
                if at_least == 0:
                    yield from _expanded(left, text, True)
                return
            case _:
                yield _Option(text, (head, *left))
                return
    yield _Option(text, ())


def _is_characters(node: RuleNode) -> bool:
    """Whether it repeats single characters: that is a leaf, and no choice between texts."""
    return isinstance(node, Repeat) and isinstance(node.node, Chars)


def _joined(options: Sequence[_Option]) -> Stack:
    if len(options) == 1:
        return (Text(options[0].text), *options[0].left)
    return (one_of(*(seq(option.text, *option.left) for option in options)),)


def _cut(options: Sequence[_Option], length: int) -> list[_Option]:
    return [_Option(option.text[length:], option.left) for option in options]


def _settled(text: str, options: Sequence[_Option], marks: Marks) -> str:
    """As much of a forced text as is made of whole tokens, whatever comes after it.

    Tokenizers write a space as the beginning of the next word, so no text ends in one. Before a choice between texts
    the last word and the marks before it stay with the choice: `<` may become `</`, and `get` `get_weather`. A value
    is free to begin with anything, and tokenizers keep letters apart from the quote or the newline before them.
    """
    if all(option.is_end for option in options) or text.endswith(marks.known):
        return text
    kept = (_LAST_WORD.sub("", text) if len(options) > 1 else text).rstrip(" ")
    for mark in marks.possible:
        at = text.rfind(mark)
        if at >= 0 and at < len(kept) < at + len(mark):
            kept = text[:at].rstrip(" ")
    return kept


def _shared(texts: Sequence[str]) -> str:
    """What they all begin with."""
    first, last = min(texts), max(texts)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


def _telling(options: Sequence[_Option], worth: int) -> tuple[str, ...]:
    """Texts of which one comes next, each with enough behind it that is forced to be worth an interruption.

    None where a way begins with a leaf, or where one way's text is the beginning of another's.
    """
    texts = tuple(dict.fromkeys(option.text for option in options if not option.is_end))
    return _apart(texts, worth) if texts and all(texts) else ()


def _apart(texts: Sequence[str], worth: int, common: str = "") -> tuple[str, ...]:
    """The shortest of them from which on their own beginnings go on alike for a while; all begin with `common`."""
    alike = _shared(texts)
    if len(texts) == 1 or len(alike) - len(common) > worth:
        return (alike[: len(common) + 1],)
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[len(alike) : len(alike) + 1], []).append(text)
    if "" in groups:
        return ()
    found = [_apart(group, worth, alike) for group in groups.values()]
    return tuple(end for ends in found for end in ends) if all(found) else ()


def _ends_of(leaf: RuleNode, after: Position, worth: int) -> tuple[str, ...]:
    options = after._options()  # pyright: ignore[reportPrivateUsage]
    telling = _telling(options, worth)
    match leaf:
        case Str(quote) if quote is TAIL:
            # What follows may be decided by the very token that closes the string.
            return tuple(quote.close + told for told in telling) if len(telling) > 1 else (quote.close,)
        case Value(schema) if schema.get("type") in _NUMBERS:
            return tuple(told for told in telling if told[0] not in "0123456789.eE+-")
        case Prose(excludes) | Raw(_, _, excludes):
            return _ends_of_prose(excludes, options)
        case _:
            return ()


def _ends_of_prose(excludes: Sequence[str], options: Sequence[_Option]) -> tuple[str, ...]:
    """Of each text that may follow as much as the free text before it cannot hold."""
    found: list[str] = []
    for option in options:
        if option.is_end:
            continue
        sure = [option.text.find(mark) + len(mark) for mark in excludes if mark in option.text]
        if not sure:
            return ()
        found.append(option.text[: min(sure)])
    return tuple(dict.fromkeys(found))


def _places(left: Stack, text: str, way: str) -> Iterator[tuple[Stack, str]]:
    """Every place that a text may lead to, with the way to it."""
    for option in _expanded(left):
        if option.text.startswith(text):
            yield (Text(option.text[len(text) :]), *option.left), way + text
        elif text.startswith(option.text) and option.left:
            leaf, after = option.left[0], option.left[1:]
            rest = text[len(option.text) :]
            if isinstance(leaf, OneOf | Repeat) and not _is_characters(leaf):
                yield from _places(option.left, rest, way + option.text)
                continue
            length = _length(leaf, after, rest)
            if length is not None:
                yield from _places(after, rest[length:], f"{way}{option.text}{_HOLE}")


def _length(leaf: RuleNode, after: Stack, text: str) -> int | None:
    """How much of a text is the leaf's; None where it may go on."""
    match leaf:
        case Str(quote) if quote is TAIL:
            found = _STRING_REST.match(text)
        case Value(schema) if schema.get("type") in _NUMBERS:
            found = _NUMBER.match(text)
            found = found if found and found.end() < len(text) else None
        case Prose() | Raw():
            places = [text.find(end) for end in _ends_of(leaf, Position(after), WORTH) if end in text]
            return min(places) if places else None
        case _:
            return None
    return found.end() if found else None


@dataclass(frozen=True, slots=True)
class Step:
    """What is appended, and then the hole: the rule from there on and the texts that end it. No rule, and all is said.

    Without `ends` the model goes on to its own end.
    """

    forced: str
    hole: Position
    rule: Rule | None
    ends: tuple[str, ...]


class Plan:
    """The steps of one rule."""

    def __init__(self, rule: Rule, specials: Collection[str] = (), worth: int = WORTH) -> None:
        self.rule = rule
        self._worth = worth
        self._marks = Marks(rule.tokens, tuple(token for token in rule.tokens if token in specials))
        self._start = Position.at_start(rule)

    def begun(self) -> Position:
        """Where an answer begins."""
        return self._start

    def step(self, place: Position) -> Step:
        if place is self._start and self.rule.triggers:
            # The model talks first, up to where it opens a call.
            return Step("", place, self.rule, self.rule.triggers)
        try:
            forced, hole = place.forced(self._marks)
            ends = hole.ends(self._worth)
        except TooManyOptions:
            # From here on the model writes on by itself.
            forced, hole, ends = "", place, ()
        else:
            if hole.is_over:
                return Step(forced, hole, None, ())
        return Step(forced, hole, Rule(hole.rest, tokens=self.rule.tokens), ends)
