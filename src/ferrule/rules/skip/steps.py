"""The steps of an answer under one rule: forced text to append, then a hole for the model.

This module does not depend on any engine.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ferrule.rules.rule import Rule
from ferrule.rules.skip.continuations import TooManyContinuations
from ferrule.rules.skip.hole_ends import MIN_FORCED_CHARACTERS
from ferrule.rules.skip.position import Position
from ferrule.rules.skip.token_boundary import MarkerTokens


@dataclass(frozen=True, slots=True)
class Step:
    """Forced text to append, then a hole: the rule from there on, and the texts that end the hole.

    If `rule` is None, the answer is complete. If `ends` is empty, the model writes the rest by itself.
    """

    forced_text: str
    hole: Position
    rule: Rule | None
    ends: tuple[str, ...]


class SkipPlan:
    """Computes the steps of an answer under one rule."""

    def __init__(
        self,
        rule: Rule,
        specials: Collection[str] = (),
        min_forced: int = MIN_FORCED_CHARACTERS,
        max_ends: int | None = None,
    ) -> None:
        """Create the plan of a rule.

        Args:
            rule: The rule.
            specials: Texts for which the vocabulary has a single token.
            min_forced: How many forced characters are worth an interruption.
            max_ends: How many stops a request may have. If a hole has more ends, the model writes the rest by itself.
        """
        self.rule = rule
        self._min_forced = min_forced
        self._max_ends = max_ends
        self._markers = MarkerTokens(rule.tokens, tuple(token for token in rule.tokens if token in specials))
        self._start = Position.at_start(rule)

    def start(self) -> Position:
        """The position at which an answer begins."""
        return self._start

    def step(self, position: Position) -> Step:
        """The step at a position: forced text, then a hole with its ends."""
        if position is self._start and self.rule.triggers:
            # The model writes free text first, up to the trigger that opens a call.
            return Step("", position, self.rule, self._ends_within_limit(self.rule.triggers))
        try:
            forced_text, hole = position.forced_text(self._markers)
            ends = hole.ends(self._min_forced)
        except TooManyContinuations:
            # From here on, the model writes the rest by itself.
            forced_text, hole, ends = "", position, ()
        else:
            if hole.is_over:
                return Step(forced_text, hole, None, ())
        return Step(forced_text, hole, Rule(hole.rest, tokens=self.rule.tokens), self._ends_within_limit(ends))

    def _ends_within_limit(self, ends: tuple[str, ...]) -> tuple[str, ...]:
        """All ends or none. With some left out, a hole would end where another text only looks like its end."""
        return ends if self._max_ends is None or len(ends) <= self._max_ends else ()
