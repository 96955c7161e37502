"""TextGrammar: what the text of a custom tool must match.

A value only. `rules.text_grammar` reads its definition; nothing here knows what a grammar admits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from ferrule.errors import DefinitionError

GrammarSyntax: TypeAlias = Literal["lark", "regex"]
SYNTAXES: tuple[GrammarSyntax, ...] = ("lark", "regex")


@dataclass(frozen=True, slots=True)
class TextGrammar:
    """A grammar for a whole text: Lark with a rule `start`, or a regular expression in Rust's syntax.

    Example:
        TextGrammar("regex", "[a-z]+( [a-z]+)*")
    """

    syntax: GrammarSyntax
    definition: str

    def __post_init__(self) -> None:
        if self.syntax not in SYNTAXES:
            raise DefinitionError(
                f"{self.syntax!r:.40} is not a syntax of grammars",
                hint=f"Write one of: {', '.join(SYNTAXES)}.",
            )
        if not isinstance(cast("object", self.definition), str) or not self.definition.strip():
            raise DefinitionError(
                "the definition of a grammar must be a text that is not empty",
                hint='Write a Lark grammar such as start: "a"+, or a regular expression.',
            )

    def as_json(self) -> dict[str, str]:
        return {"syntax": self.syntax, "definition": self.definition}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TextGrammar:
        """Return the grammar of `as_json`. Raises `DefinitionError` if it is none."""
        return TextGrammar(data.get("syntax", ""), data.get("definition", ""))
