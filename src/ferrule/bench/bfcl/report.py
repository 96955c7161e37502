"""What was scored, as tables, as JSON and as a page. Says what was measured and nothing else. No IO."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ferrule.bench.bfcl.categories import Category, Scoring
from ferrule.bench.bfcl.miss import Reason
from ferrule.bench.bfcl.summary import Scored, Tally, added
from ferrule.bench.bfcl_requests import RELEASE
from ferrule.bench.tables import Table, markdown

_TOGETHER: Final = "together"
_RULES: Final = (
    "A category with possible answers is scored as the official scorer does: the calls equal one of them. The "
    "irrelevance categories want no call, live_relevance wants one, whatever it is. The prompt is the model's own "
    "template with the official words and tools; the sentences that BFCL's own harness adds to the descriptions are "
    "not there. The interval is Wilson's, for 95%, over questions like these."
)


def result_table(runs: Sequence[Scored], who: str) -> Table:
    columns = [column for run in runs for column in (f"{run.name}, right", "share", "95%")]
    choices = [f"choice, {run.name}" for run in runs]
    return Table(
        f"BFCL v4, single turn: {who}",
        f"The questions are those of {RELEASE}. {_RULES}",
        ("category", *choices, *columns),
        [
            *((_name(one), *(_choice(one, run) for run in runs), *_shares(one, runs)) for one in _categories(runs)),
            (_TOGETHER, *("" for _ in runs), *(cell for run in runs for cell in _share(run.together))),
        ],
        words=1 + len(runs),
    )


def miss_table(runs: Sequence[Scored]) -> Table:
    """The first thing that was wrong with each reply that is not right."""
    found = added(tally for run in runs for tally in run.tallies.values()).misses
    reasons = [reason for reason in Reason if found[reason]]
    rows = [
        (_name(one), run.name, *map(str, (*(tally.misses[reason] for reason in reasons), tally.cut_off, tally.refused)))
        for one in _categories(runs)
        for run in runs
        if (tally := run.tallies.get(one)) is not None
    ]
    return Table(
        "What was wrong first",
        "Replies that are not right, by the first thing that is wrong. *Cut off*: replies that reached the limit of "
        "tokens, right or not. *Not handed on*: calls that were written and held back, since they were incomplete or "
        "did not fit.",
        ("category", "asked", *(reason.value for reason in reasons), "cut off", "not handed on"),
        rows,
        words=2,
    )


def as_json(runs: Sequence[Scored], settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        run.name: {
            "settings": dict(settings[run.name]),
            "categories": {
                one.name: {"right_if": one.scoring.value, "choice": _choice(one, run), **tally.as_dict()}
                for one, tally in run.tallies.items()
            },
            _TOGETHER: run.together.as_dict(),
        }
        for run in runs
    }


def page(runs: Sequence[Scored], who: str, chart: str) -> str:
    """Markdown, with the chart named by its file."""
    parts = ["# BFCL", f"![share of right replies by category]({chart})", *sections(runs, who)]
    return "\n\n".join(parts) + "\n"


def sections(runs: Sequence[Scored], who: str) -> list[str]:
    return [markdown(result_table(runs, who)), markdown(miss_table(runs))]


def _categories(runs: Sequence[Scored]) -> list[Category]:
    return list(dict.fromkeys(category for run in runs for category in run.tallies))


def _name(category: Category) -> str:
    notes = {Scoring.NO_CALL: " (no call)", Scoring.ANY_CALL: " (a call)"}
    return category.name + notes.get(category.scoring, "")


def _choice(category: Category, run: Scored) -> str:
    return category.choice(is_constrained=run.is_constrained).mode.value


def _shares(category: Category, runs: Sequence[Scored]) -> list[str]:
    return [cell for run in runs for cell in _share(run.tallies.get(category, Tally()))]


def _share(tally: Tally) -> tuple[str, str, str]:
    if not tally.answered:
        return "-", "-", "-"
    low, high = tally.interval
    return f"{tally.right} of {tally.answered}", f"{tally.share:.1%}", f"{low:.0%} to {high:.0%}"
