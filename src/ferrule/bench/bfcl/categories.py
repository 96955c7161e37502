"""The categories of BFCL v4 that are asked here, how each is scored, and why others are not. Must not know files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ferrule.core.choice import ToolChoice
from ferrule.errors import DefinitionError


class Scoring(Enum):
    """What makes a reply right."""

    SAME_CALLS = "the calls equal a possible answer"
    ANY_CALL = "there is a call"
    NO_CALL = "there is no call"


MANNERS: Final[Mapping[bool, str]] = {True: "constrained", False: "unconstrained"}
"""What it is called to ask under the rule, and to ask without one."""


@dataclass(frozen=True, slots=True)
class Category:
    """One file of questions."""

    name: str
    scoring: Scoring = Scoring.SAME_CALLS

    def choice(self, *, is_constrained: bool) -> ToolChoice:
        """A call is demanded where the answer is one; nothing can be demanded of a model that is left free."""
        is_demanded = is_constrained and self.scoring is Scoring.SAME_CALLS
        return ToolChoice.required() if is_demanded else ToolChoice.auto()


_ASKED: Final = (
    *map(Category, ("simple_python", "multiple", "parallel", "parallel_multiple")),
    *map(Category, ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")),
    Category("irrelevance", Scoring.NO_CALL),
    Category("live_irrelevance", Scoring.NO_CALL),
    Category("live_relevance", Scoring.ANY_CALL),
)
CATEGORIES: Final[Mapping[str, Category]] = {category.name: category for category in _ASKED}

_SOURCE_CODE: Final = (
    "its arguments are source code in strings, which the official scorer reads by patterns of its own; "
    "another reading of them would give another score"
)
_TURNS: Final = "it is scored by running the tools over several turns"
REFUSED: Final[Mapping[str, str]] = {
    "simple_java": _SOURCE_CODE,
    "simple_javascript": _SOURCE_CODE,
    "multi_turn_base": _TURNS,
    "multi_turn_miss_func": _TURNS,
    "multi_turn_miss_param": _TURNS,
    "multi_turn_long_context": _TURNS,
    "memory": _TURNS,
    "web_search": _TURNS,
    "format_sensitivity": "it varies the words of a prompt, and the prompt here is the model's own template",
}


def chosen(names: Iterable[str]) -> list[Category]:
    """The categories of those names, or all of them where none is named."""
    found: list[Category] = []
    for name in dict.fromkeys(names):
        if name in REFUSED:
            raise DefinitionError(f"{name} is not asked here: {REFUSED[name]}", code="bfcl_category_refused")
        if name not in CATEGORIES:
            raise DefinitionError(
                f"BFCL has no category {name!r}", code="bfcl_category_unknown", hint=f"Known: {', '.join(CATEGORIES)}."
            )
        found.append(CATEGORIES[name])
    return found or list(_ASKED)
