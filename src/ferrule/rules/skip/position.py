"""Position: where an answer stands in its rule: what must come next whatever the model thinks, or a hole and its end.

A hole is left to the model under the rest of the whole rule, so that it chooses among the very tokens that it would
have chosen among without skipping; it is interrupted as soon as what it wrote leaves no choice about what follows.
Knows no engine, no tokenizer and no grammar language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ferrule.rules.rule import Rule, RuleNode, Str, Text, one_of, seq
from ferrule.rules.skip.continuations import Option, Stack, cut, expanded, is_leaf, joined, options_of, shared
from ferrule.rules.skip.hole_ends import STRING_REST, WORTH, ends_of, length_of, telling
from ferrule.rules.skip.member_expansion import TAIL, after_some, opened
from ferrule.rules.skip.token_boundary import NO_MARKS, Marks, settled

_HOLE = "\0"
_STRING_PART = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])', re.DOTALL)


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
        return all(option.is_end for option in options_of(self.left))

    def forced(self, marks: Marks = NO_MARKS) -> tuple[str, Position]:
        """The text that must come next, as far as the model's tokens cannot reach across its end, and the place after.

        What is held back is written by the model itself, at the beginning of the hole.
        """
        found = ""
        options = options_of(self.left)
        while common := shared([option.text for option in options]):
            found += common
            options = cut(options, len(common))
            if len(options) == 1 and not options[0].text:
                options = options_of(options[0].left)
        kept = settled(found, options, marks)
        # In front of the options and not in each: a lexer takes the longest literal that it knows.
        return kept, Position((Text(found[len(kept) :]), *joined(options)), self.way + kept)

    def ends(self, worth: int = WORTH) -> tuple[str, ...]:
        """Texts of which one ends the hole that begins here; none where no text does so for certain.

        `worth` is how many forced characters pay for an interruption.
        """
        hole = self._hole()
        return ends_of(hole, worth) if hole else telling(options_of(self.left), worth)

    def after(self, text: str) -> Position | None:
        """The place after a text; None where the text ends amid a value, or is not what the rule admits."""
        places = list(_places(self.left, text, self.way))
        if not places:
            return None
        return Position((one_of(*(seq(*left) for left, _ in places)),), places[0][1])

    def within(self, text: str) -> Position | None:
        """The place amid a string that a hole ends in; None where it is not a string that can be gone on with."""
        hole = self._hole()
        if hole is None or not text.startswith(hole.text):
            return None
        leaf, content = hole.left[0], text[len(hole.text) :]
        if not isinstance(leaf, Str) or leaf.quote is not TAIL or STRING_REST.match(content):
            return None
        written = len(_STRING_PART.findall(content))
        return Position((after_some(leaf, written), *hole.left[1:]), f"{self.way}{hole.text}{_HOLE}{written}{_HOLE}")

    def _hole(self) -> Option | None:
        """The value that comes next, with the marks before it that were left to the model, where nothing else can."""
        options = options_of(self.left)
        return options[0] if len(options) == 1 and is_leaf(options[0]) else None


def _places(left: Stack, text: str, way: str) -> Iterator[tuple[Stack, str]]:
    """Every place that a text may lead to, with the way to it."""
    for option in expanded(left):
        if option.text.startswith(text):
            yield (Text(option.text[len(text) :]), *option.left), way + text
        elif text.startswith(option.text) and option.left:
            leaf, after = option.left[0], option.left[1:]
            rest = text[len(option.text) :]
            if not is_leaf(option):
                yield from _places(option.left, rest, way + option.text)
                continue
            length = length_of(leaf, after, rest)
            if length is not None:
                yield from _places(after, rest[length:], f"{way}{option.text}{_HOLE}")
