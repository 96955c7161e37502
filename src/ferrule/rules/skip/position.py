"""Position: where an answer is in its rule, what text is forced there, and where the next hole ends.

The problem
-----------
Most of a constrained tool call is forced: the envelope, the argument names, the punctuation, often the tool's name. To
generate that token by token is a waste. If an engine keeps the prompt that it saw last, Ferrule appends forced text to
the prompt and lets the engine generate only the rest. The parts that the model writes are *holes*. The result must be
what the model would have written without skipping, to the letter.

The method
----------
An answer alternates between two steps (`steps`). `Position.forced_text` returns the text that must come next and the
position after it. `Position.ends` returns the texts that end the hole which begins there; the engine uses them as
stops. `Position.advance` finds the position after the text that the model wrote, and the next step begins.

A position is a stack of nodes: everything that may still be written. `continuations` expands it into a list of texts,
each followed by a leaf (a value), by another choice or by the end. Text that all continuations share is forced. JSON
objects are expanded into members first (`member_expansion`), because a schema leaf would hide the forced names in it.

Why the result does not change
------------------------------
- **A hole is generated under the rest of the whole rule**, not under a small grammar for one value. The model chooses
  among the same tokens as without skipping, including tokens that reach beyond the end of the value.
- **A text stops a hole, not the grammar.** The stop for a string is the closing quote with the text that shows how the
  call continues (`",` or `"}`); for a number it is the character after it; between two tools it is the first character
  that differs. What the stop cuts off is forced, and is appended with the rest (`hole_ends`).
- **Forced text ends where tokens end** (`token_boundary`). The last word before a choice, and the punctuation before a
  word or a value, are left to the model: `<` may become `</`, and `get` may become `getter`. A marker for which the
  vocabulary has one token is never split.
- **The model's tokens stay whole.** Its last token may reach beyond the stop, as `"}}` and a line break in one token,
  or `</tool_call>`, do. The position is the one after the token: to cut it would put the model at a token boundary
  that it never chose.
- **A string's rest is the same language.** After its opening quote a string is a leaf of its own, and admits what the
  grammar of the whole rule admits there, including which characters may be escaped.
- **A quote after a backslash does not end a string.** A stop may match there; `Position.advance` then returns the
  position inside the string, with the remaining length.

Where it stops
--------------
Some values have no text that certainly ends them: arrays, free objects, unions. The model then writes the rest of the
call by itself. The same applies if a position has too many continuations, or more ends than a request may have stops.
An interruption costs one more request, so an end is used only if at least `MIN_FORCED_CHARACTERS` are forced after it.

Law 8 (`tests/laws/test_skip.py`) checks this for every format and tool choice: the output is exactly what the model
would have written, and at every step the model reads the same tokens and chooses among the same tokens as without
skipping. What remains is arithmetic: an engine evaluates appended tokens together and generated ones singly, and its
sums may differ in their last digits, so that two tokens of nearly the same probability may change places. This module
does not depend on any engine, tokenizer or grammar language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ferrule.rules.rule import Rule, RuleNode, Str, Text, one_of, seq
from ferrule.rules.skip.continuations import (
    Continuation,
    Stack,
    common_prefix,
    continuations,
    drop_text,
    expand,
    is_leaf,
    join,
)
from ferrule.rules.skip.hole_ends import MIN_FORCED_CHARACTERS, distinguishing_ends, ends_of, length_of
from ferrule.rules.skip.member_expansion import TAIL, expand_members, shorten_tail
from ferrule.rules.skip.token_boundary import NO_MARKERS, MarkerTokens, whole_token_prefix

_HOLE = "\0"
_STRING_PART = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])', re.DOTALL)
_STRING_PARTS = re.compile(f"{_STRING_PART.pattern}+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a rule. Positions are immutable; every step returns a new one.

    `path` is the text that was forced or decided up to here, without the content of the holes. Two positions of one
    rule with the same path are the same position, so the path can be a cache key.
    """

    remaining: Stack
    path: str = ""

    @staticmethod
    def at_start(rule: Rule) -> Position:
        """The position at the beginning of a rule, with its JSON objects expanded."""
        return Position((expand_members(rule.start),))

    @property
    def rest(self) -> RuleNode:
        """Everything that may still be written."""
        return seq(*self.remaining)

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete: nothing may follow."""
        return all(choice.is_end for choice in continuations(self.remaining))

    def forced_text(self, markers: MarkerTokens = NO_MARKERS) -> tuple[str, Position]:
        """The text that must come next, and the position after it.

        The text ends where no token can reach across its end. The model writes the rest of the forced text itself, at
        the beginning of the hole.
        """
        text = ""
        choices = continuations(self.remaining)
        while common := common_prefix([choice.text for choice in choices]):
            text += common
            choices = drop_text(choices, len(common))
            if len(choices) == 1 and not choices[0].text:
                choices = continuations(choices[0].remaining)
        prefix = whole_token_prefix(text, choices, markers)
        # The rest is before the choices and not in each of them, because a lexer prefers the longest literal.
        return prefix, Position((Text(text[len(prefix) :]), *join(choices)), self.path + prefix)

    def ends(self, min_forced: int = MIN_FORCED_CHARACTERS) -> tuple[str, ...]:
        """Texts of which one ends the hole that begins here; empty if no text certainly ends it.

        `min_forced` is the number of forced characters that is worth an interruption.
        """
        hole = self._hole()
        return ends_of(hole, min_forced) if hole else distinguishing_ends(continuations(self.remaining), min_forced)

    def advance(self, text: str) -> Position | None:
        """The position after a text; None if the rule does not admit the text, or if it ends inside a value.

        A string is the exception: the position inside of it is the rest of the string.
        """
        positions = list(_positions(self.remaining, text, self.path))
        if not positions:
            return None
        return Position((one_of(*(seq(*remaining) for remaining, _ in positions)),), positions[0][1])

    def _hole(self) -> Continuation | None:
        """The next value, with the punctuation before it that is left to the model; None if something else may come."""
        choices = continuations(self.remaining)
        return choices[0] if len(choices) == 1 and is_leaf(choices[0]) else None


def _positions(remaining: Stack, text: str, path: str) -> Iterator[tuple[Stack, str]]:
    """Every position that a text may lead to, with the path to it."""
    for choice in expand(remaining):
        if choice.text.startswith(text):
            yield (Text(choice.text[len(text) :]), *choice.remaining), path + text
        elif text.startswith(choice.text) and choice.remaining:
            leaf, after = choice.remaining[0], choice.remaining[1:]
            rest = text[len(choice.text) :]
            if not is_leaf(choice):
                yield from _positions(choice.remaining, rest, path + choice.text)
                continue
            length = length_of(leaf, after, rest)
            if length is not None:
                yield from _positions(after, rest[length:], f"{path}{choice.text}{_HOLE}")
            elif isinstance(leaf, Str) and leaf.quote is TAIL and _STRING_PARTS.fullmatch(rest):
                count = len(_STRING_PART.findall(rest))
                yield (shorten_tail(leaf, count), *after), f"{path}{choice.text}{_HOLE}{count}{_HOLE}"
