"""How many replies are valid calls, format by format, under the rule and without it.

The same weights, questions and prompts both ways, in one run: first with a call required and constrained by the rule,
then the model unconstrained. Each format gets its share of the questions, each category through each format.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ferrule.bench.bfcl_requests import CATEGORIES, Question
from ferrule.bench.tables import Table
from ferrule.bench.validity_count import Tally, tally_engine
from ferrule.core.choice import ToolChoice
from ferrule.engines.engine import Engine
from ferrule.engines.text.engine import TextEngine

FORMATS: Final = ("hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "generic_xml")


@dataclass(frozen=True, slots=True)
class Row:
    format: str
    ruled: Tally
    free: Tally


def dealt(asked: Sequence[Question], names: Sequence[str] = FORMATS) -> dict[str, list[Question]]:
    """The questions dealt out over the formats, a category at a time, so that each comes through each of them."""
    width = len(CATEGORIES)
    groups = [asked[at : at + width] for at in range(0, len(asked), width)]
    return {name: [q for group in groups[n :: len(names)] for q in group] for n, name in enumerate(names)}


def both_ways(engine: TextEngine, format: str) -> tuple[TextEngine, TextEngine]:
    """The engine's backend in that format, under the rule and left free."""
    ruled = replace(engine.options, format=format, is_constrained=True)
    return TextEngine(engine.generator, ruled), TextEngine(engine.generator, replace(ruled, is_constrained=False))


async def tallied(
    name: str, ruled: Engine, free: Engine | None, asked: Sequence[Question], every: int, advance: Callable[[], None]
) -> Row:
    """The questions under the rule and, where the engine can be left free, every so many-th of them without one."""
    held = await tally_engine(ruled, asked, ToolChoice.required(), advance=advance)
    left = await tally_engine(free, asked[::every], ToolChoice.auto(), advance=advance) if free else Tally()
    return Row(name, held, left)


def table_of(rows: Sequence[Row], count: int, minutes: float, who: str, every: int) -> Table:
    together = Row("together", summed([row.ruled for row in rows]), summed([row.free for row in rows]))
    return Table(
        f"{count} questions of BFCL v4 ({', '.join(CATEGORIES)})",
        f"{who}, at most 512 tokens. *valid*: replies with a call, all of whose calls name "
        "an offered tool and fit its schema by a validator that is not ours (`jsonschema`), and that were not cut off. "
        f"*without*: the same model with the same prompts and no rule, on one of every {every} questions.",
        ("format", "under the rule, valid", "calls", "invalid", "cut off", "refused", "failed", "without, valid"),
        [
            (
                *(row.format, _share(row.ruled)),
                *map(str, (row.ruled.calls, row.ruled.invalid_calls, row.ruled.cut_off, row.ruled.refused)),
                *(str(row.ruled.errors), _share(row.free)),
            )
            for row in (*rows, together)
        ],
        [f"{minutes:.0f} minutes", *(f"{row.format}: {problem}" for row in rows for problem in row.ruled.problems[:5])],
        words=2,
    )


def _share(tally: Tally) -> str:
    return f"{tally.valid} of {tally.replies} ({tally.share})" if tally.replies else "-"


def summed(tallies: Sequence[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
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
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
    return whole


def repeated(once: Sequence[Question], count: int) -> list[Question]:
    """So many questions, from the first again where there are fewer."""
    return [once[number % len(once)] for number in range(count)] if once else []
