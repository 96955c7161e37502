"""The categories of BFCL v4 that are supported, how each is scored, and why others are not supported. No IO."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ferrule.core.request import ToolChoice
from ferrule.errors import DefinitionError


class Scoring(Enum):
    """When a reply is correct."""

    SAME_CALLS = "the calls equal a possible answer"
    ANY_CALL = "there is a call"
    NO_CALL = "there is no call"


MODE_NAMES: Final[Mapping[bool, str]] = {True: "constrained", False: "unconstrained"}
"""The names of runs with the grammar constraint and without it."""


@dataclass(frozen=True, slots=True)
class Category:
    """One file of questions."""

    name: str
    scoring: Scoring = Scoring.SAME_CALLS

    def choice(self, *, is_constrained: bool) -> ToolChoice:
        """Require a call if the answer is one. An unconstrained model cannot be made to call, so it gets auto."""
        is_demanded = is_constrained and self.scoring is Scoring.SAME_CALLS
        return ToolChoice.required() if is_demanded else ToolChoice.auto()


_CATEGORIES: Final = (
    *map(Category, ("simple_python", "multiple", "parallel", "parallel_multiple")),
    *map(Category, ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")),
    Category("irrelevance", Scoring.NO_CALL),
    Category("live_irrelevance", Scoring.NO_CALL),
    Category("live_relevance", Scoring.ANY_CALL),
)
CATEGORIES: Final[Mapping[str, Category]] = {category.name: category for category in _CATEGORIES}

_SOURCE_CODE: Final = (
    "its arguments are source code in strings, which the official scorer reads by patterns of its own; "
    "another reading of them would give another score"
)
_TURNS: Final = "it is scored by running the tools over several turns"
UNSUPPORTED: Final[Mapping[str, str]] = {
    "simple_java": _SOURCE_CODE,
    "simple_javascript": _SOURCE_CODE,
    "multi_turn_base": _TURNS,
    "multi_turn_miss_func": _TURNS,
    "multi_turn_miss_param": _TURNS,
    "multi_turn_long_context": _TURNS,
    "memory": _TURNS,
    "web_search": _TURNS,
    "format_sensitivity": "it varies the wording of the prompt, and this benchmark uses the model's own template",
}


def select_categories(names: Iterable[str]) -> list[Category]:
    """The categories with these names, or all of them if there are none."""
    categories: list[Category] = []
    for name in dict.fromkeys(names):
        if name in UNSUPPORTED:
            raise DefinitionError(
                f"category {name} is not supported: {UNSUPPORTED[name]}", code="bfcl_category_refused"
            )
        if name not in CATEGORIES:
            raise DefinitionError(
                f"BFCL has no category {name!r}", code="bfcl_category_unknown", hint=f"Known: {', '.join(CATEGORIES)}."
            )
        categories.append(CATEGORIES[name])
    return categories or list(_CATEGORIES)
