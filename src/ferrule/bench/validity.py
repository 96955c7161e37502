"""Count how many replies are valid calls, by format, with the grammar constraint and without it.

Both use the same weights, questions and prompts in one run: first with a call required and constrained, then
unconstrained. Each format gets a share of the questions of every category.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ferrule.bench.bfcl_requests import CATEGORIES, Question
from ferrule.bench.tables import Table
from ferrule.bench.validity_count import ReplyCounts, count_replies
from ferrule.core.request import ToolChoice
from ferrule.engines.engine import Engine
from ferrule.engines.text.engine import TextEngine

FORMATS: Final = ("hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "generic_xml")


@dataclass(frozen=True, slots=True)
class Row:
    format: str
    constrained: ReplyCounts
    unconstrained: ReplyCounts


def questions_by_format(questions: Sequence[Question], names: Sequence[str] = FORMATS) -> dict[str, list[Question]]:
    """Distribute the questions over the formats, so that each format gets questions of every category."""
    width = len(CATEGORIES)
    groups = [questions[at : at + width] for at in range(0, len(questions), width)]
    return {name: [q for group in groups[n :: len(names)] for q in group] for n, name in enumerate(names)}


def engine_pair(engine: TextEngine, format: str) -> tuple[TextEngine, TextEngine]:
    """The engine's backend with that format, constrained and unconstrained."""
    options = replace(engine.options, format=format, is_constrained=True)
    return TextEngine(engine.generator, options), TextEngine(engine.generator, replace(options, is_constrained=False))


async def measure_row(
    name: str,
    constrained: Engine,
    unconstrained: Engine | None,
    questions: Sequence[Question],
    every: int,
    advance: Callable[[], None],
) -> Row:
    """Ask the questions constrained and, if the engine allows it, every `every`-th of them unconstrained."""
    with_rule = await count_replies(constrained, questions, ToolChoice.required(), advance=advance)
    without_rule = (
        await count_replies(unconstrained, questions[::every], ToolChoice.auto(), advance=advance)
        if unconstrained
        else ReplyCounts()
    )
    return Row(name, with_rule, without_rule)


def table_of(rows: Sequence[Row], count: int, minutes: float, engine_name: str, every: int) -> Table:
    total = Row("total", sum_counts([row.constrained for row in rows]), sum_counts([row.unconstrained for row in rows]))
    return Table(
        f"{count} questions of BFCL v4 ({', '.join(CATEGORIES)})",
        f"{engine_name}, at most 512 tokens. *valid*: replies that contain a call, were not cut off, and whose calls "
        "all name an offered tool and match its schema according to an independent validator (`jsonschema`). "
        f"*unconstrained*: the same model and prompts without a grammar, on one of every {every} questions.",
        (
            *("format", "constrained, valid", "calls", "invalid", "cut off", "refused", "failed"),
            "unconstrained, valid",
        ),
        [
            (
                *(row.format, _share(row.constrained)),
                *map(
                    str,
                    (
                        row.constrained.calls,
                        row.constrained.invalid_calls,
                        row.constrained.cut_off,
                        row.constrained.refused,
                    ),
                ),
                *(str(row.constrained.errors), _share(row.unconstrained)),
            )
            for row in (*rows, total)
        ],
        [
            f"{minutes:.0f} minutes",
            *(f"{row.format}: {problem}" for row in rows for problem in row.constrained.problems[:5]),
        ],
        text_columns=2,
    )


def _share(counts: ReplyCounts) -> str:
    return f"{counts.valid} of {counts.replies} ({counts.share})" if counts.replies else "-"


def sum_counts(counts: Sequence[ReplyCounts]) -> ReplyCounts:
    total = ReplyCounts()
    for one in counts:
        for name in (
            "replies",
            "valid",
            "calls",
            "invalid_calls",
            "cut_off",
            "refused",
            "errors",
            "seconds",
            "problems",
        ):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


def repeat_questions(questions: Sequence[Question], count: int) -> list[Question]:
    """Return `count` questions, repeating them if there are fewer."""
    return [questions[number % len(questions)] for number in range(count)] if questions else []
