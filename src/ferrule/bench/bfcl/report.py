"""Present scores as tables, as JSON and as a Markdown page. No IO."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ferrule.bench.bfcl.categories import Category, Scoring
from ferrule.bench.bfcl.miss import Reason
from ferrule.bench.bfcl.summary import CategoryScore, RunScore, sum_scores
from ferrule.bench.bfcl_requests import RELEASE
from ferrule.bench.tables import Table, markdown

_TOTAL: Final = "total"
_RULES: Final = (
    "A category with possible answers is scored as the official scorer does: the calls must equal one of them. The "
    "irrelevance categories expect no call; live_relevance expects any call. The prompt is the model's own chat "
    "template with the official questions and tools, without the sentences that BFCL's own harness adds to the "
    "descriptions. The interval is the 95% Wilson score interval."
)


def result_table(runs: Sequence[RunScore], engine_name: str) -> Table:
    columns = [column for run in runs for column in (f"{run.name}, correct", "share", "95%")]
    choices = [f"choice, {run.name}" for run in runs]
    return Table(
        f"BFCL v4, single turn: {engine_name}",
        f"The questions are those of {RELEASE}. {_RULES}",
        ("category", *choices, *columns),
        [
            *((_name(one), *(_choice(one, run) for run in runs), *_shares(one, runs)) for one in _categories(runs)),
            (_TOTAL, *("" for _ in runs), *(cell for run in runs for cell in _share(run.total))),
        ],
        text_columns=1 + len(runs),
    )


def miss_table(runs: Sequence[RunScore]) -> Table:
    """A table of incorrect replies by the first thing that is wrong with them."""
    counts = sum_scores(tally for run in runs for tally in run.scores.values()).misses
    reasons = [reason for reason in Reason if counts[reason]]
    rows = [
        (_name(one), run.name, *map(str, (*(tally.misses[reason] for reason in reasons), tally.cut_off, tally.refused)))
        for one in _categories(runs)
        for run in runs
        if (tally := run.scores.get(one)) is not None
    ]
    return Table(
        "Incorrect replies by reason",
        "Each incorrect reply is counted under the first thing that is wrong with it. *Cut off*: replies that reached "
        "the token limit, correct or not. *Refused calls*: calls that Ferrule refused because they were incomplete or "
        "did not match the schema.",
        ("category", "run", *(reason.value for reason in reasons), "cut off", "refused calls"),
        rows,
        text_columns=2,
    )


def as_json(runs: Sequence[RunScore], settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        run.name: {
            "settings": dict(settings[run.name]),
            "categories": {
                one.name: {"right_if": one.scoring.value, "choice": _choice(one, run), **tally.as_dict()}
                for one, tally in run.scores.items()
            },
            _TOTAL: run.total.as_dict(),
        }
        for run in runs
    }


def page(runs: Sequence[RunScore], engine_name: str, chart: str) -> str:
    """The Markdown page; `chart` is the chart's file name."""
    parts = ["# BFCL", f"![share of correct replies by category]({chart})", *sections(runs, engine_name)]
    return "\n\n".join(parts) + "\n"


def sections(runs: Sequence[RunScore], engine_name: str) -> list[str]:
    return [markdown(result_table(runs, engine_name)), markdown(miss_table(runs))]


def _categories(runs: Sequence[RunScore]) -> list[Category]:
    return list(dict.fromkeys(category for run in runs for category in run.scores))


def _name(category: Category) -> str:
    notes = {Scoring.NO_CALL: " (no call)", Scoring.ANY_CALL: " (a call)"}
    return category.name + notes.get(category.scoring, "")


def _choice(category: Category, run: RunScore) -> str:
    return category.choice(is_constrained=run.is_constrained).mode.value


def _shares(category: Category, runs: Sequence[RunScore]) -> list[str]:
    return [cell for run in runs for cell in _share(run.scores.get(category, CategoryScore()))]


def _share(tally: CategoryScore) -> tuple[str, str, str]:
    if not tally.answered:
        return "-", "-", "-"
    low, high = tally.interval
    return f"{tally.right} of {tally.answered}", f"{tally.share:.1%}", f"{low:.0%} to {high:.0%}"
