"""Plan: the steps of an answer under one rule: what is appended, then what is left to the model. Knows no engine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ferrule.rules.rule import Rule
from ferrule.rules.skip.continuations import TooManyOptions
from ferrule.rules.skip.hole_ends import WORTH
from ferrule.rules.skip.position import Position
from ferrule.rules.skip.token_boundary import Marks


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

    def __init__(
        self, rule: Rule, specials: Collection[str] = (), worth: int = WORTH, most_ends: int | None = None
    ) -> None:
        """`most_ends` is how many texts a hole may be ended by; where it has more, the model writes on by itself."""
        self.rule = rule
        self._worth = worth
        self._most_ends = most_ends
        self._marks = Marks(rule.tokens, tuple(token for token in rule.tokens if token in specials))
        self._start = Position.at_start(rule)

    def begun(self) -> Position:
        """Where an answer begins."""
        return self._start

    def step(self, place: Position) -> Step:
        if place is self._start and self.rule.triggers:
            # The model talks first, up to where it opens a call.
            return Step("", place, self.rule, self._few(self.rule.triggers))
        try:
            forced, hole = place.forced(self._marks)
            ends = hole.ends(self._worth)
        except TooManyOptions:
            # From here on the model writes on by itself.
            forced, hole, ends = "", place, ()
        else:
            if hole.is_over:
                return Step(forced, hole, None, ())
        return Step(forced, hole, Rule(hole.rest, tokens=self.rule.tokens), self._few(ends))

    def _few(self, ends: tuple[str, ...]) -> tuple[str, ...]:
        """All or none: with some of them left out, a hole would end where another text merely looks like its end."""
        return ends if self._most_ends is None or len(ends) <= self._most_ends else ()
